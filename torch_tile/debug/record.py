"""Facts about compiled graphs, recorded on request."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch_tile.debug import places

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from torch_tile.debug.calls import CallRecord

# In a graph's meta: what was timed, in words.
TUNING_NOTES = "torch_tile_tuning"
# Which launches `triton_compiler="tile"` left to Triton, and why.
LAUNCH_NOTES = "torch_tile_launches"
_KEPT_STAGES = ("20-fusion.txt", "timing.json")


@dataclasses.dataclass
class KernelRecord:
    """A kernel: name, launches in one call, bytes moved (None if they depend on a size), the user's source lines."""

    name: str
    launches: int
    bytes_moved: int | None
    sources: list[str]
    hinted_bytes: int = 0
    """Bytes moved with sizes as they were when the graph was compiled."""


@dataclasses.dataclass
class GraphRecord:
    """One compiled graph."""

    name: str
    kind: str
    fallback: bool = False
    text: str = ""
    kernels: list[KernelRecord] = dataclasses.field(default_factory=list)
    externs: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    stages: dict[str, str] = dataclasses.field(default_factory=dict)
    loaded_from: str = ""
    import_ms: float = 0.0
    compile_ms: float = 0.0
    freezing: Any = None
    """What freezing parameters made of it (frontend/constant_folding.py, Report); None if it is off."""
    calls: list[CallRecord] = dataclasses.field(default_factory=list)
    """The calls outside again, with reasons and sizes."""
    peak_bytes: int = 0
    """Memory that is planned at most, beside arguments and parameters."""
    has_uncertain: bool = False
    """Whether kernels run in branches or loops. Their bytes count once."""
    operations: dict[int, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """For lines of the text: what the operation is called, and the user's line."""

    @staticmethod
    def of(
        gm: GraphModule,
        graph: Any,
        program: Any,
        name: str,
        kind: str,
        stages: dict[str, str],
        import_ms: float,
        freezing: Any = None,
    ) -> GraphRecord:
        if not is_active():
            return GraphRecord(name, kind)
        from torch_tile.debug import calls, memory

        plan = memory.plan_of(gm, graph, program, kind)
        kernels = kernel_records(gm, graph, program)
        for number, kernel in enumerate(kernels):
            kernel.hinted_bytes = plan.kernel_bytes.get(number, 0)
        # Kernels with a twin for short sizes as they were: this call does not launch them.
        kernels = [kernel for kernel in kernels if kernel.hinted_bytes > 0 or kernel.bytes_moved is not None]
        found = places.places_of(gm, graph)
        return GraphRecord(
            name=name,
            kind=kind,
            text=graph.text,
            kernels=kernels,
            externs=list(graph.externs),
            calls=calls.call_records(gm, graph.externs),
            peak_bytes=plan.peak_bytes,
            has_uncertain=plan.has_uncertain,
            operations={line: (name, found.get(line, "")) for line, name in graph.lines},
            notes=[
                *(note.partition(" ")[2] for note in program.notes.splitlines()),
                *gm.meta.get(TUNING_NOTES, []),
                *gm.meta.get(LAUNCH_NOTES, []),
            ],
            stages=stages,
            loaded_from=program.loaded_from,
            import_ms=import_ms,
            compile_ms=program.compile_ms,
            freezing=freezing,
        )


_recorders: list[list[GraphRecord]] = []


def is_active() -> bool:
    return bool(_recorders)


def wants(file: str) -> bool:
    return is_active() and file in _KEPT_STAGES


def add(graph: GraphRecord) -> None:
    for recorder in _recorders:
        recorder.append(graph)


@contextlib.contextmanager
def recording() -> Iterator[list[GraphRecord]]:
    """Collects a record of every graph compiled in the block, on any thread."""
    graphs: list[GraphRecord] = []
    _recorders.append(graphs)
    try:
        yield graphs
    finally:
        _recorders[:] = [r for r in _recorders if r is not graphs]


def kernel_records(gm: GraphModule, graph: Any, program: Any) -> list[KernelRecord]:
    found = places.places_of(gm, graph)
    return [
        KernelRecord(
            row["name"],
            row["launches"],
            row["bytes_moved"],
            list(dict.fromkeys(found[line] for line in row["lines"] if line in found)),
        )
        for row in program.kernels
    ]
