"""Numbered stage files of a graph, in torch's debug directory, and the pages that say in which order to read them."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_tile.debug import calls, record
from torch_tile.debug.repro import constants_of, hint_of, runnable_script

if TYPE_CHECKING:
    from torch.fx import GraphModule

log = logging.getLogger(__name__)

_MOST_INPUT_BYTES = 256 << 20
_announced: set[Path] = set()
_unwritten: set[Path] = set()
_arguments_of_dynamo: contextvars.ContextVar[Sequence[Any]] = contextvars.ContextVar("arguments", default=())

_FILES = (
    ("error.txt", "why the graph is not compiled: read this first"),
    (
        "kernels.txt",
        "the result in a table: kernels with their launches, bytes, compile times and source lines; calls outside",
    ),
    ("00-fx.py", "the graph as it came from AOTAutograd, with the user's lines"),
    ("05-import.mlir", "the same in the graph dialect; other files mean its lines where they say `line 12`"),
    ("10-graph.mlir", "the same, as the compiler received it"),
    ("15-loops.mlir", "after simplification, computations as loops: the input of fusion"),
    ("20-fusion.txt", "each fusion decision, with its reason"),
    ("20-fusion.mlir", "which loops share a kernel"),
    ("30-tile.mlir", "kernels in the tile dialect, with their schedules"),
    ("35-layout.mlir", "elements of each thread, on GPU"),
    ("40-llvm.mlir", "kernels in MLIR's LLVM dialect"),
    ("50-kernel.ll", "LLVM's IR"),
    ("60-kernel.s", "machine code as text"),
    ("55-program.txt", "the step program: what one call allocates, launches, calls and frees, in order"),
    ("70-graph.svg", "a picture of kernels and calls, with the bytes between them"),
    ("timing.json", "compile time by stage"),
    ("inputs.pt", "arguments of the graph's first call"),
    ("constants.pt", "tensors that the graph holds, such as frozen parameters"),
    ("90-run.py", "runs the graph again, compares it with eager mode and ends with PASS or FAIL; `--help` lists more"),
)

_INDEX = """# {name}

Files, in the order in which to read them:

{files}

`tile-compile FILE.mlir --emit=none --dump-dir=FOLDER` goes on from any of the `.mlir` files; `tile-opt` runs passes.
"""

_BASE_INDEX = """# What torch-tile compiled in this process

One folder for each graph, in the order in which they were compiled. In each, `index.md` says what the files are, and
`90-run.py` runs the graph again and compares it with eager mode.

| folder | kind | kernels | calls outside | compiled in ms |
|---|---|---|---|---|
"""


@contextlib.contextmanager
def first_call(arguments: Sequence[Any]) -> Iterator[None]:
    """Scripts of graphs that are compiled within have these arguments of Dynamo's graph."""
    token = _arguments_of_dynamo.set(arguments)
    try:
        yield
    finally:
        _arguments_of_dynamo.reset(token)


class Dump:
    """The folder of one graph. Trouble with the disk is logged, once a folder, and never stops a compile."""

    def __init__(self, folder: Path, keeps_values: bool = False) -> None:
        self.folder = folder
        self.keeps_values = keeps_values
        """Whether values of tensors are written, too."""

    @staticmethod
    def start(graph_name: str, is_asked_for: bool = False) -> Dump:
        """A new folder `torch_compile_debug/run_.../torch_tile/<graph>.<n>`. A process announces its first
        one, where the user asked for dumps."""
        from torch._dynamo.utils import get_debug_dir

        base = Path(get_debug_dir()) / "torch_tile"
        number, folder = 0, base / f"{graph_name}.0"
        try:
            while folder.exists():  # which raises for a folder that cannot be searched
                number += 1
                folder = base / f"{graph_name}.{number}"
            folder.mkdir(parents=True)
        except OSError as error:
            _say_unwritten(base, error)
        else:
            if is_asked_for:
                _once(base, f"torch_tile: every stage is written to {base}; begin with index.md")
            log.info("%s: stages are written to %s", graph_name, folder)
        return Dump(folder, keeps_values=is_asked_for)

    def write(self, file: str, data: str | bytes) -> None:
        try:
            if isinstance(data, bytes):
                (self.folder / file).write_bytes(data)
            else:
                (self.folder / file).write_text(data, encoding="utf-8")
        except OSError as error:
            _say_unwritten(self.folder.parent, error)

    def write_graph(self, gm: GraphModule) -> None:
        self.write("00-fx.py", gm.print_readable(print_output=False))

    def write_script(self, gm: GraphModule, inputs: Sequence[Any] = ()) -> None:
        self.write("90-run.py", runnable_script(gm, inputs))
        if not self.keeps_values:
            return
        if constants := constants_of(gm):
            self._save("constants.pt", constants)
        if arguments := _arguments_of(gm):
            self._save("inputs.pt", arguments)

    def write_stage(self, file: str, data: str | bytes) -> None:
        """A stage of the compiler."""
        if file == "20-fusion.txt" and isinstance(data, str):
            data = "lines are those of 05-import.mlir\n" + data
        self.write(file, data)

    def write_kernels(self, gm: GraphModule, graph: Any, program: Any) -> None:
        """kernels.txt: name, launches, bytes moved, compile time by stage, source lines of the model."""
        of_graph, of_kernels = self._times()
        rows = ["kernel | launches | bytes moved | compile ms by stage | source"]
        for kernel in record.kernel_records(gm, graph, program):
            size = "symbolic" if kernel.bytes_moved is None else str(kernel.bytes_moved)
            sources = kernel.sources or ["-"]
            rows.append(
                f"{kernel.name} | {kernel.launches} | {size} | {_spent(of_kernels.get(kernel.name, {}))} | {sources[0]}"
            )
            rows += [f"  {source}" for source in sources[1:]]
        rows += ["", f"whole graph, ms: {_spent(of_graph)}"]
        rows += ["", "calls outside: node | operator | reason"]
        rows += [f"{node} | {op} | {calls.reason_of(op, reason)[0]}" for node, op, reason in graph.externs]
        self.write("kernels.txt", "\n".join(rows) + "\n")

    def _times(self) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """Milliseconds by stage, of the graph and of each kernel."""
        try:
            times = json.loads((self.folder / "timing.json").read_text(encoding="utf-8"))
            return times["stages_ms"], {kernel["name"]: kernel["steps_ms"] for kernel in times["kernels"]}
        except (OSError, ValueError, KeyError, TypeError):
            return {}, {}

    def write_index(self, kind: str = "", program: Any = None) -> None:
        """index.md of this folder, once all else is written, and a row in that of all graphs."""
        try:
            there = {path.name for path in self.folder.iterdir()}
            listed = [(file, doc) for file, doc in _FILES if file in there]
            others = sorted(there - {file for file, _ in _FILES} - {"index.md"})
            files = [f"{n}. `{file}`: {doc}" for n, (file, doc) in enumerate(listed, 1)]
            files += [f"- `{file}`" for file in others]
            self.write("index.md", _INDEX.format(name=self.folder.name, files="\n".join(files)))
            base = self.folder.parent / "index.md"
            if not base.exists():
                base.write_text(_BASE_INDEX, encoding="utf-8")
            numbers = "| | |" if program is None else (
                f"{program.num_kernels} | {program.num_externs + program.num_pycalls} | {program.compile_ms:.1f} |"
            )  # fmt: skip
            with base.open("a", encoding="utf-8") as file:
                file.write(f"| [{self.folder.name}]({self.folder.name}/index.md) | {kind} | {numbers}\n")
        except OSError as error:
            _say_unwritten(self.folder.parent, error)

    def keep_inputs(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The boxed callable, which keeps the arguments of its first call for the script."""
        is_first = True

        @functools.wraps(function)  # what caches know of it, too
        def call(inputs: list[Any]) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                self._save("inputs.pt", inputs)
            return function(inputs)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _save(self, file: str, values: Sequence[Any] | Mapping[str, Any]) -> None:
        """Values for the script, unless they are too many or no plain tensors."""
        import torch
        from torch.utils._python_dispatch import _disable_current_modes

        names = list(values) if isinstance(values, Mapping) else None
        items = list(values.values()) if isinstance(values, Mapping) else list(values)
        tensors = [value for value in items if isinstance(value, torch.Tensor)]
        is_plain = all(type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout is torch.strided for x in tensors)
        storages = {x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in tensors} if is_plain else {}
        if not is_plain or sum(storages.values()) > _MOST_INPUT_BYTES:
            return
        try:
            with _disable_current_modes(), open(self.folder / file, "wb", opener=_for_this_user) as opened:
                # A storage is kept with what lies outside of the view, and views of one storage stay such.
                items = [x.detach() if isinstance(x, torch.Tensor) else x for x in items]
                torch.save(items if names is None else dict(zip(names, items, strict=True)), opened)
        except OSError as error:
            _say_unwritten(self.folder.parent, error)
        except Exception as error:
            log.warning("%s is not written: %s", self.folder / file, error)


def _for_this_user(path: str, flags: int) -> int:
    """Opens a file that other users cannot read, whatever the umask: it holds data of the user's program."""
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # of a file that was there
    return descriptor


def _arguments_of(gm: GraphModule) -> list[Any] | None:
    """Arguments of a graph of AOTAutograd in the call for which it is compiled; None where they are not known."""
    import torch
    from torch._functorch._aot_autograd.descriptors import PlainAOTInput

    given, found = _arguments_of_dynamo.get(), []
    for node in gm.graph.find_nodes(op="placeholder"):
        desc, expected = node.meta.get("desc"), node.meta.get("val")
        if not isinstance(desc, PlainAOTInput) or desc.idx >= len(given):
            return None
        value = given[desc.idx]
        if isinstance(value, torch.SymInt):
            value = hint_of(value)
        if isinstance(value, torch.Tensor) != isinstance(expected, torch.Tensor):
            return None
        if isinstance(value, torch.Tensor) and (value.dtype, value.dim()) != (expected.dtype, expected.dim()):
            return None
        found.append(value)
    return found


def _spent(times: dict[str, float]) -> str:
    return ", ".join(f"{stage} {ms:.2f}" for stage, ms in times.items()) or "-"


def _say_unwritten(base: Path, error: OSError) -> None:
    """Why there are no dumps in a folder, once for it: what cannot take one file seldom takes the next."""
    if base not in _unwritten:
        _unwritten.add(base)
        where = f": {error.filename}" if error.filename else ""
        print(
            f"torch_tile: stages are not written to {base}: {error.strerror or error}{where}; "
            "TORCH_COMPILE_DEBUG_DIR names another folder",
            file=sys.stderr,
        )


def _once(base: Path, message: str) -> None:
    if base not in _announced:
        _announced.add(base)
        print(message, file=sys.stderr)
