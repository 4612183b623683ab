"""Numbered stage files of a graph, in torch's debug directory."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_tile.debug import record
from torch_tile.debug.repro import runnable_script

if TYPE_CHECKING:
    from torch.fx import GraphModule

log = logging.getLogger(__name__)


class Dump:
    """The folder of one graph. Trouble with the disk is logged and never stops a compile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def start(graph_name: str) -> Dump:
        """A new folder `torch_compile_debug/run_.../torch_tile/<graph>.<n>`."""
        from torch._dynamo.utils import get_debug_dir

        base = Path(get_debug_dir()) / "torch_tile"
        number = 0
        while (base / f"{graph_name}.{number}").exists():
            number += 1
        folder = base / f"{graph_name}.{number}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            log.warning("dumps are off: %s", error)
        log.info("%s: stages are written to %s", graph_name, folder)
        return Dump(folder)

    def write(self, file: str, data: str | bytes) -> None:
        try:
            if isinstance(data, bytes):
                (self.folder / file).write_bytes(data)
            else:
                (self.folder / file).write_text(data, encoding="utf-8")
        except OSError as error:
            log.warning("%s is not written: %s", file, error)

    def write_graph(self, gm: GraphModule) -> None:
        self.write("00-fx.py", gm.print_readable(print_output=False))

    def write_script(self, gm: GraphModule, inputs: Sequence[Any] = ()) -> None:
        self.write("90-run.py", runnable_script(gm, inputs))

    def write_kernels(self, gm: GraphModule, graph: Any, program: Any) -> None:
        """kernels.txt: name, launches, bytes moved, compile time by stage, source lines of the model."""
        times = self._times()
        rows = ["kernel | launches | bytes moved | compile ms by stage | source"]
        for kernel in record.kernel_records(gm, graph, program):
            size = "symbolic" if kernel.bytes_moved is None else str(kernel.bytes_moved)
            stages = times.get(kernel.name, {})
            spent = ", ".join(f"{stage} {ms:.2f}" for stage, ms in stages.items()) or "-"
            sources = kernel.sources or ["-"]
            rows.append(f"{kernel.name} | {kernel.launches} | {size} | {spent} | {sources[0]}")
            rows += [f"  {source}" for source in sources[1:]]
        total = {stage: ms for stage, ms in times.items() if isinstance(ms, (int, float))}
        rows.append("")
        rows.append("whole graph, ms: " + (", ".join(f"{k} {v:.2f}" for k, v in total.items()) or "-"))
        rows.append("")
        rows.append("calls outside: node | operator | reason")
        rows += [f"{node} | {op} | {reason}" for node, op, reason in graph.externs]
        self.write("kernels.txt", "\n".join(rows) + "\n")

    def _times(self) -> dict[str, Any]:
        try:
            times = json.loads((self.folder / "timing.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return times if isinstance(times, dict) else {}
