"""Containment of failures: the user gets eager's answer, one warning with a script, and one count.

Where it happens decides what runs instead. While Dynamo waits for its backend (passes, AOTAutograd, compiling, loading)
it is the graph as Dynamo captured it, under torch's own autograd: whatever state our passes have left their graphs in,
nothing of it is used. A backward graph is compiled when it is first asked for; it runs as AOTAutograd made it.

What is passed on: torch's own control flow (a restart of Dynamo's analysis), and what is no `Exception`
(KeyboardInterrupt, SystemExit). With `strict` everything is.
"""

from __future__ import annotations

import logging
import os
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._functorch.aot_autograd as aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

import torch_tile
from torch_tile.config import Settings
from torch_tile.counters import counters
from torch_tile.debug import record
from torch_tile.debug.dump import Dump
from torch_tile.errors import TileError, UnsupportedError
from torch_tile.frontend.dynamo_calls import graphs_of, name_of
from torch_tile.frontend.random_states import keeping_random_states

log = logging.getLogger(__name__)


def is_control_flow(error: Exception) -> bool:
    """Whether torch raises it to begin anew, or to say that it does not take the program."""
    return isinstance(error, TorchDynamoException)


def is_passed_on(error: Exception, settings: Settings) -> bool:
    """Whether an exception is not ours to contain."""
    return bool(settings["strict"]) or is_control_flow(error)


def fall_back(name: str, kind: str, error: Exception, gm: Any, inputs: Sequence[Any] = ()) -> None:
    """Count and say that a graph runs in eager mode.

    Args:
        name: of the graph.
        kind: forward, backward, inference; or "graph" for one of Dynamo's.
        error: why.
        gm: the graph for the script.
        inputs: example inputs of a graph of Dynamo's.
    """
    counters.add("fallbacks")
    why = str(error) if isinstance(error, TileError) else f"{type(error).__name__}: {error}"
    record.add(record.GraphRecord(name=name, kind=kind, fallback=True, notes=[why]))
    log.debug("%s is not compiled", name, exc_info=error)
    dump = getattr(error, "torch_tile_dump", None) or dump_failure(gm, name, error, inputs)
    path = dump.folder / "90-run.py" if dump else None
    script = f"a script that shows it is {path}" if path and _is_file(path) else "no script could be written"
    if isinstance(error, UnsupportedError):
        what = "is not supported"
    elif _is_of_tracing(error):
        what = "could not be traced by AOTAutograd, the part of torch that finds gradients,"
    else:
        what = "failed to compile"
    warnings.warn(
        f"torch_tile: graph {name} {what} and runs in eager mode: {why}; {script}; options={{'strict': True}} raises",
        stacklevel=2,
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that cannot be searched
        return False


_PACKAGE, _AOT_AUTOGRAD = (str(Path(file).parent) + os.sep for file in (torch_tile.__file__, aot_autograd.__file__))


def _is_of_tracing(error: Exception) -> bool:
    """Whether AOTAutograd raised it while none of our code ran: for most programs eager mode raises it, too."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    inside = next((at for at, file in enumerate(files) if file.startswith(_AOT_AUTOGRAD)), len(files))
    return inside < len(files) and not any(file.startswith(_PACKAGE) for file in files[inside:])


def dump_failure(gm: Any, name: str, error: Exception, inputs: Sequence[Any] = (), dump: Dump | None = None) -> Any:
    """What it takes to reproduce a failure, even where dumps are off; None where that fails too."""
    try:
        dump = dump or Dump.start(name)
        dump.write("error.txt", "".join(traceback.format_exception(error)))
        if not isinstance(gm, GraphModule):
            return None
        dump.write_graph(gm)
        dump.write_script(gm, inputs)
        dump.write_index("not compiled")
    except Exception as second:
        log.warning("the failure of %s is not written to disk: %s", name, second)
        return None
    return dump


def argument_names(gm: Any) -> list[str]:
    """What the user calls the inputs of a graph of Dynamo's, as far as it says."""
    if not isinstance(gm, GraphModule):
        return []
    names = []
    for node in gm.graph.find_nodes(op="placeholder"):
        source = getattr(node.meta.get("grapharg"), "source", None)
        name = str(getattr(source, "name", "")) or node.name
        if name.startswith(("L['", "G['")):
            first, _, rest = name[3:].partition("']")
            name = first + rest
        names.append(name)
    return names


def check_arguments(inputs: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse tensors that are not what their memory says, and that AOTAutograd takes all the same.

    Raises:
        UnsupportedError: names the argument, and says what to do.
    """
    for number, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout is torch._mkldnn:  # type: ignore[attr-defined]
            name = f"argument `{names[number]}` (input {number})" if number < len(names) else f"input {number}"
            raise UnsupportedError(
                "import", f"{name} is an MKL-DNN tensor; torch-tile takes dense tensors: call .to_dense()"
            )


def contained(
    compile: Callable[[], Callable[..., Any]], gm: Any, inputs: Sequence[Any], settings: Settings
) -> Callable[..., Any]:
    """What `compile` makes of a graph of Dynamo's, or the graph itself."""
    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    try:
        return compile()
    except Exception as error:
        # A graph enters and leaves the levels of vmap and grad by calls: a failure between them leaves it in one.
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if is_passed_on(error, settings):
            raise
        if isinstance(error, GuardOnDataDependentSymNode) and _calls_regions(gm):
            # The graph itself does not run either: torch traces its regions then, and meets the same number. Dynamo
            # breaks the graph at them instead.
            raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default) from error
        fall_back(_graph_name(), "graph", error, gm, inputs)
    return as_captured(gm)


def as_captured(gm: Any) -> Callable[..., Any]:
    """A graph of Dynamo's in eager mode."""
    function: Callable[..., Any] = keeping_random_states(gm).forward
    return function


def _calls_regions(gm: Any) -> bool:
    """Whether a graph has a call of `torch.compiler.nested_compile_region`."""
    return any(name_of(node) == "invoke_subgraph" for module in graphs_of(gm) for node in module.graph.nodes)


def _graph_name() -> str:
    from torch._functorch._aot_autograd.logging_utils import get_aot_graph_name

    try:
        return get_aot_graph_name()
    except Exception:  # outside of AOTAutograd there is none
        return "graph"
