"""Facts about compiled graphs, kept while somebody asks for them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_KEPT_STAGES = ("20-fusion.txt", "timing.json")


@dataclasses.dataclass
class KernelRecord:
    """A kernel: name, launches in one call, bytes moved (None if they depend on a size), the user's source lines."""

    name: str
    launches: int
    bytes_moved: int | None
    sources: list[str]


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
        return GraphRecord(
            name=name,
            kind=kind,
            text=graph.text,
            kernels=kernel_records(gm, graph, program),
            externs=list(graph.externs),
            notes=[note.partition(" ")[2] for note in program.notes.splitlines()],
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


def source_line(node: Node) -> str | None:
    """`file:line: code` of the innermost frame of the user's program behind a node."""
    trace = node.meta.get("stack_trace") or node.stack_trace
    if not trace:
        return None
    frames = [line.strip() for line in trace.strip().splitlines()]
    for i in range(len(frames) - 1, -1, -1):
        if frames[i].startswith("File "):
            place = frames[i].removeprefix("File ").split(", in ")[0].replace('"', "").replace(", line ", ":")
            code = frames[i + 1] if i + 1 < len(frames) else ""
            return f"{place}: {code}"
    return None


def sources_of_lines(gm: GraphModule, graph: Any, lines: list[int]) -> list[str]:
    """The user's source lines behind lines of the graph text, in order, each once."""
    nodes = {node.name: node for node in gm.graph.nodes}
    names = dict(graph.lines)
    found: dict[str, None] = {}
    for line in lines:
        node = nodes.get(names.get(line, ""))
        source = source_line(node) if node is not None else None
        if source:
            found[source] = None
    return list(found)


def kernel_records(gm: GraphModule, graph: Any, program: Any) -> list[KernelRecord]:
    return [
        KernelRecord(row["name"], row["launches"], row["bytes_moved"], sources_of_lines(gm, graph, row["lines"]))
        for row in program.kernels
    ]
