"""The backend with a simulated GPU (tests/gpu/simulator.py): graphs of tensors in host memory are compiled for a GPU,
and their kernels run on the CPU. Graphs with calls outside run in eager mode, and are counted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func

from tests.gpu.simulated_graphs import SIGNATURE, SimulatedGraph
from torch_tile import _C, UnsupportedError

ARCHITECTURE = "sm_90"
# What the simulator has a form of; graphs with other operations run in eager mode.
_KNOWN = {"launch", "alias", "assemble", "size", "none", "check", "return"}
_UNKNOWN_TYPE = re.compile(r"!graph\.scalar|complex<")
_OPERATION = re.compile(r"^ +(?:%[\w:, ]+ = )?graph\.(\w+)", flags=re.M)


class Counts:
    simulated = 0
    left_out = 0


def _run(graph: SimulatedGraph, names: Sequence[str], arguments: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    numbers = [int(a) for a in arguments if not isinstance(a, torch.Tensor)]
    graph.symbols.update(zip(names, numbers, strict=True))
    graph.parts.clear()
    tensors = [a.detach() for a in arguments if isinstance(a, torch.Tensor)]
    # The runtime copies what has the other sign in memory, or does not begin at a multiple of 16 bytes; what kernels
    # write comes back. Of arguments in one memory it takes other kernels.
    is_copied = [a.is_neg() or a.data_ptr() % 16 != 0 for a in tensors]
    if len({a.untyped_storage().data_ptr() for a in tensors if a.numel()}) < sum(a.numel() > 0 for a in tensors) or (
        any(is_copied) and "graph.alias" in graph.tiles
    ):
        raise UnsupportedError("simulator", "the simulator takes no arguments in one memory, and no views of copies")
    plain = [
        torch.empty_strided(a.shape, a.stride(), dtype=a.dtype).copy_(a) if copied else a
        for a, copied in zip(tensors, is_copied, strict=True)
    ]
    try:
        results = graph.run(*plain)
    except (KeyError, ValueError) as error:
        raise UnsupportedError("simulator", f"the simulator has no form of this graph: {error!r}") from error
    for tensor, copy, copied in zip(tensors, plain, is_copied, strict=True):
        if copied:
            tensor.copy_(copy)
    return results


def compile_graph(gm: Any, inputs: Any, kind: str, settings: Any, binding: Any = None) -> Callable[..., Any]:
    """In the place of torch_tile.frontend.compile.compile_graph."""
    files: dict[str, str] = {}
    options = {**settings.compiler_options(), "target": ARCHITECTURE}
    try:
        text = _C.print_graph(gm).text
        devices = [None] * 64
        _C.compile_graph(text, options, None, 0, files.__setitem__, devices, device="cuda:0", architecture=ARCHITECTURE)
    except UnsupportedError:
        files = {}
    tiles = files.get("30-tile.mlir", "")
    if not tiles or not _KNOWN.issuperset({*_OPERATION.findall(tiles)} - {"func"}) or _UNKNOWN_TYPE.search(tiles):
        Counts.left_out += 1
        return make_boxed_func(gm.forward)
    Counts.simulated += 1
    graph = SimulatedGraph(files)
    signature = re.search(SIGNATURE, tiles)
    assert signature is not None
    names = [size.strip('"') for size in re.findall(r"!graph\.size<(.*?)>", signature.group(1))]
    return make_boxed_func(lambda *arguments: _run(graph, names, arguments))


@contextlib.contextmanager
def simulated() -> Iterator[type[Counts]]:
    """While it lasts, `torch.compile(backend="tile")` compiles for a GPU."""
    import torch_tile.frontend.aot as aot
    from torch_tile.frontend import autograd_cache
    from torch_tile.frontend.decompositions import short_scans

    # The tensors are traced on the CPU, where short scans are partial sums; a GPU gets scans. AOTAutograd's cache may
    # hold the same graph compiled for the CPU.
    with (
        mock.patch.object(aot, "compile_graph", compile_graph),
        mock.patch.object(autograd_cache, "is_wanted", lambda settings: False),
        mock.patch.object(short_scans, "_LONGEST", 0),
    ):
        yield Counts
