"""Passes the results of a compile to observers: TORCH_LOGS (logs.py), TORCH_TRACE and the report (trace.py).

A watcher that fails is logged and never stops a compile.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import TYPE_CHECKING, Any

from torch_tile.debug import logs, phases, places, steps, trace

if TYPE_CHECKING:
    from torch.fx import GraphModule

log = logging.getLogger(__name__)


def needs_stages() -> bool:
    """Whether somebody wants to see the stages even of a graph that the disk cache has."""
    return logs.needs_stages() or trace.is_collecting()


def wants_stages() -> bool:
    """Whether somebody wants to see the stages if the compiler runs."""
    return needs_stages() or phases.is_traced()


@dataclasses.dataclass
class Compiled:
    """One graph on its way into the process."""

    name: str
    kind: str
    text: str
    """Of the graph dialect."""
    device: str
    program: Any
    stages: dict[str, str]
    """What the compiler dumped, by file; empty for a graph that was loaded."""
    import_ms: float = 0.0
    externs: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    nodes: dict[int, str] = dataclasses.field(default_factory=dict)
    """Lines of the text, and the FX nodes that they come from."""
    sources: dict[int, str] = dataclasses.field(default_factory=dict)
    """Lines of the text, and the user's source lines."""
    python_calls: list[str] = dataclasses.field(default_factory=list)
    fx: str = ""
    notes: list[tuple[int, str]] = dataclasses.field(default_factory=list)

    def timing(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.stages.get("timing.json", "{}"))
        except ValueError:
            return {}
        return found

    def steps(self) -> steps.StepProgram:
        program = steps.parse(self.program.steps, self.text)
        for step in program.steps:
            if step.kind == "python" and step.name.isdigit() and int(step.name) < len(self.python_calls):
                step.name = self.python_calls[int(step.name)]
        return program

    def sources_of(self, lines: list[int]) -> list[str]:
        return list(dict.fromkeys(self.sources[line] for line in lines if line in self.sources))


def compiled(
    gm: GraphModule | None,
    graph: Any,
    program: Any,
    name: str,
    kind: str,
    stages: dict[str, str],
    *,
    import_ms: float = 0.0,
    is_cached: bool = True,
) -> None:
    """Called once a graph is compiled or loaded.

    Args:
        gm: the graph; None where it was loaded with what AOTAutograd had made of it.
        graph: a `_C.GraphText`, or the payload of `reload_graph`.
        is_cached: whether the disk cache was asked for it.
    """
    end_ns = phases.now_ns()
    is_cached = is_cached and not trace.is_collecting()  # a report compiles even what the cache has
    state = "hit" if program.loaded_from == "disk" else "miss" if is_cached else "bypass"
    phases.cache_event(
        "graph", state, f"inductor_fx_local_cache_{state}_count" if is_cached else None,
        graph=name, kernels=program.num_kernels, compile_ms=round(program.compile_ms, 3),
    )  # fmt: skip
    if not (logs.is_enabled() or phases.is_traced()):
        return
    try:
        seen = _describe(gm, graph, program, name, kind, stages, import_ms)
        phases.stages(name, _stages_ms(seen), end_ns)
        logs.write(seen)
        if phases.is_traced():
            trace.emit(seen)
    except Exception:
        log.debug("%s is not logged", name, exc_info=True)


def picture(gm: GraphModule, graph: Any, program: Any, name: str, kind: str) -> str:
    """The graph of kernels and calls as an SVG file; empty where it cannot be drawn."""
    from torch_tile.debug.report.picture import write_picture

    try:
        return write_picture(trace.describe(_describe(gm, graph, program, name, kind, {}, 0.0)))
    except Exception:
        log.warning("%s is not drawn", name, exc_info=True)
        return ""


def _stages_ms(seen: Compiled) -> dict[str, float]:
    return {stage: ms for stage, ms in seen.timing().get("stages_ms", {}).items() if stage != "total"}


def _describe(
    gm: GraphModule | None, graph: Any, program: Any, name: str, kind: str, stages: dict[str, str], import_ms: float
) -> Compiled:
    if gm is None:
        return Compiled(name, kind, graph["text"], graph["device"], program, stages)
    by_name = places.nodes_by_name(gm)
    nodes = {line: node for line, node in graph.lines if node in by_name}
    sources = {line: places.source_line(by_name[node]) for line, node in nodes.items()}
    notes = [note.partition(" ") for note in program.notes.splitlines()]
    return Compiled(
        name, kind, graph.text, graph.device, program, stages, import_ms,
        externs=list(graph.externs),
        nodes=nodes,
        sources={line: source for line, source in sources.items() if source},
        python_calls=[str(node.target) for node in graph.pycalls],
        fx=gm.print_readable(print_output=False),
        notes=[(int(line), text) for line, _, text in notes],
    )  # fmt: skip
