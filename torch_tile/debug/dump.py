"""Numbered stage files of one graph in torch's debug folder."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_tile.debug.record import GraphRecord

_numbers = itertools.count()


class DumpFolder:
    """``torch_compile_debug/run_.../torch_tile/<graph>.<number>/`` with ``00-fx.py``, ``10-graph.mlir``, ... ``90-run.py``, ``kernels.txt``, ``timing.json``."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @staticmethod
    def create(record: GraphRecord) -> DumpFolder:
        from torch._dynamo.utils import get_debug_dir
        from torch._functorch.aot_autograd import get_aot_graph_name

        from torch_tile.debug.repro import runnable_script

        name = f"{get_aot_graph_name()}.{next(_numbers)}" if record.kind else f"graph.{next(_numbers)}"
        folder = DumpFolder(pathlib.Path(get_debug_dir()) / "torch_tile" / name)
        os.makedirs(folder.path, exist_ok=True)
        folder.write("00-fx.py", record.graph.print_readable(print_output=False))
        folder.write("90-run.py", runnable_script(record))
        return folder

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def finish(self, record: GraphRecord) -> None:
        """Writes what is known once the program exists."""
        self.write("kernels.txt", kernel_table(record))
        if record.text is not None:
            rows = [f"{line}\t{name}" for line, name in record.text.lines]
            self.write("11-lines.txt", "\n".join(["line of 10-graph.mlir\tFX node", *rows]) + "\n")


def kernel_table(record: GraphRecord) -> str:
    """One row per kernel: name, launches, bytes moved, compile time by step, and the user's statements behind it."""
    compile_ms: dict[str, str] = {}
    timing = record.stages.get("timing.json")
    if timing:
        for kernel in json.loads(timing).get("kernels", []):
            steps = kernel.get("steps_ms") or kernel.get("stepsMs") or {}
            compile_ms[kernel.get("name", "")] = ", ".join(f"{step} {ms:.2f}" for step, ms in dict(steps).items())
    rows = []
    for kernel in record.program.kernels:
        moved = kernel["bytes_moved"]
        rows.append(f"{kernel['name']}  launches {kernel['launches']}  bytes {'symbolic' if moved is None else moved}")
        if kernel["name"] in compile_ms:
            rows.append(f"    compile ms: {compile_ms[kernel['name']]}")
        rows.extend(f"    {statement}" for statement in record.source_lines(kernel["lines"]))
    rows.extend(f"extern {call['name']}" for call in record.program.externs)
    return "\n".join(rows) + "\n"
