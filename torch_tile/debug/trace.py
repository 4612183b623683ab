"""Structured entries of a graph (TORCH_TRACE): tlparse shows them, and the report is made of them.

The entry `tile_kernels` comes first and describes the graph; those of the same graph follow it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch_tile.debug import calls, phases
from torch_tile.debug.logs import schedules_of
from torch_tile.forks import lock_across_forks

if TYPE_CHECKING:
    from torch_tile.debug.observe import Compiled

# What the compiler dumps, and the entry that has it.
ENTRIES = {
    "10-graph.mlir": "tile_graph",
    "15-loops.mlir": "tile_loops",
    "20-fusion.mlir": "tile_fusion",
    "20-fusion.txt": "tile_fusion_decisions",
    "30-tile.mlir": "tile_kernel_ir",
    "40-llvm.mlir": "tile_llvm_dialect",
    "50-kernel.ll": "tile_llvm_ir",
    "60-kernel.s": "tile_assembly",
    "60-kernel.ptx": "tile_assembly",
}

_collecting = 0
# The entries of one graph stay together.
_lock = lock_across_forks()


def is_collecting() -> bool:
    """Whether a report is being made in this process."""
    return _collecting > 0


class Collector(logging.Handler):
    """Keeps structured entries: pairs of what torch calls metadata, and the payload."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.entries: list[tuple[dict[str, Any], str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", {})
        if "artifact" in metadata or "chromium_event" in metadata:
            self.entries.append((metadata, getattr(record, "payload", None) or ""))


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Every entry of the block, as TORCH_TRACE would write them, with the stages of graphs that the cache has."""
    global _collecting
    from torch._logging._internal import trace_log

    collector = Collector()
    trace_log.addHandler(collector)
    _collecting += 1
    try:
        yield collector
    finally:
        _collecting -= 1
        trace_log.removeHandler(collector)


def emit(seen: Compiled) -> None:
    entries: list[tuple[str, str, Any]] = [
        ("tile_kernels", "json", describe(seen)),
        ("tile_provenance", "json", provenance(seen)),
        ("tile_program", "string", seen.program.steps),
    ]
    if seen.fx:
        entries.append(("tile_fx", "string", seen.fx))
    texts = {"10-graph.mlir": seen.text, **seen.stages}
    entries += [(entry, "string", texts[file]) for file, entry in ENTRIES.items() if texts.get(file)]
    with _lock:
        phases.emit(entries)


def provenance(seen: Compiled) -> dict[str, Any]:
    """Of each kernel the FX nodes and the user's lines, and of each FX node the kernels."""
    kernels = {}
    nodes: dict[str, list[str]] = {}
    for row in seen.program.kernels:
        names = [seen.nodes[line] for line in row["lines"] if line in seen.nodes]
        kernels[row["name"]] = {"nodes": names, "sources": seen.sources_of(row["lines"]), "lines": row["lines"]}
        for name in names:
            nodes.setdefault(name, []).append(row["name"])
    return {"kernels": kernels, "nodes": nodes}


def describe(seen: Compiled) -> dict[str, Any]:
    """One graph in numbers: its steps, its kernels, the time that it took."""
    program = seen.steps()
    timing = seen.timing()
    compiled = {kernel["name"]: kernel for kernel in timing.get("kernels", [])}
    chosen = schedules_of(seen.stages.get("30-tile.mlir", ""))
    kernels = []
    for row in seen.program.kernels:
        launches = [step for step in program.steps if step.kind == "kernel" and step.name == row["name"]]
        predicted = [step.predicted_ns for step in launches if step.predicted_ns is not None]
        kernels.append(
            {
                "name": row["name"],
                "hash": row["hash"],
                "target": row["target"],
                "launches": row["launches"],
                "bytes_moved": row["bytes_moved"],
                "predicted_ns": sum(predicted) if len(predicted) == len(launches) else None,
                "schedule": chosen.get(row["name"], ""),
                "sources": seen.sources_of(row["lines"]),
                "lines": row["lines"],
                "nodes": [seen.nodes[line] for line in row["lines"] if line in seen.nodes],
                "begin_ms": compiled.get(row["name"], {}).get("begin_ms"),
                "steps_ms": compiled.get(row["name"], {}).get("steps_ms", {}),
            }
        )
    lines = {node: line for line, node in seen.nodes.items()}
    return {
        "graph": seen.name,
        "kind": seen.kind,
        "device": seen.device,
        "loaded_from": seen.program.loaded_from,
        "import_ms": seen.import_ms,
        "compile_ms": seen.program.compile_ms,
        "ended_ns": phases.now_ns(),
        "stages_ms": timing.get("stages_ms", {}),
        "kernels": kernels,
        "program": program.as_json(),
        "step_sources": [seen.sources_of(step.lines)[:1] for step in program.steps],
        "outside": [
            {
                "node": node,
                "operator": operator,
                "reason": calls.reason_of(operator, reason)[0],
                "source": seen.sources.get(lines.get(node, -1), ""),
            }
            for node, operator, reason in seen.externs
        ],
        "notes": [note for _, note in seen.notes],
    }
