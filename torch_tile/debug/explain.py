"""torch_tile.explain: what a call compiles to, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch_tile.debug import record


@dataclasses.dataclass
class Explanation:
    """What one call compiled: its graphs in order of compilation, and where Dynamo broke the graph."""

    graphs: list[record.GraphRecord]
    graph_breaks: dict[str, int]

    @property
    def num_kernels(self) -> int:
        return sum(len(g.kernels) for g in self.graphs)

    @property
    def externs(self) -> list[tuple[str, str, str]]:
        """(node, operator, reason) of every call outside."""
        return [extern for g in self.graphs for extern in g.externs]

    def __str__(self) -> str:
        lines = [f"{len(self.graphs)} graphs, {self.num_kernels} kernels, {len(self.externs)} calls outside"]
        for graph in self.graphs:
            lines += ["", *_graph_lines(graph)]
        lines += ["", "graph breaks:" if self.graph_breaks else "no graph breaks"]
        lines += [f"  {count} x {reason}" for reason, count in self.graph_breaks.items()]
        return "\n".join(lines)

    __repr__ = __str__


def _graph_lines(graph: record.GraphRecord) -> list[str]:
    if graph.fallback:
        return [f"{graph.name} ({graph.kind}): runs in eager mode, see the warning"]
    lines = [f"{graph.name} ({graph.kind}): {graph.loaded_from} in {graph.compile_ms:.1f} ms"]
    if graph.freezing is not None:
        lines += [f"  {line}" for line in graph.freezing.lines()]
    for kernel in graph.kernels:
        size = "bytes depend on sizes" if kernel.bytes_moved is None else f"{kernel.bytes_moved} bytes"
        lines.append(f"  kernel {kernel.name}: {kernel.launches} launches, {size}")
        lines += [f"    {source}" for source in kernel.sources]
    lines += [f"  note: {note}" for note in graph.notes]
    fusion = graph.stages.get("20-fusion.txt", "").strip()
    if fusion:
        lines.append("  fusion:")
        lines += [f"    {line}" for line in fusion.splitlines()]
    for node, op, reason in graph.externs:
        lines.append(f"  outside {node}: {op} ({reason})")
    return lines


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compile and run `fn(*args, **kwargs)`, and say what came of it.

    Forgets what Dynamo has compiled so far. A backward graph is compiled when a gradient is asked for, so let `fn` ask
    for it.

    Args:
        fn: a function or module.

    Returns:
        An object to print: kernels with the source lines they come from, fusion decisions, calls outside with reasons,
        graph breaks.
    """
    import torch
    from torch._dynamo.utils import counters as dynamo_counters

    torch.compiler.reset()
    dynamo_counters["graph_break"].clear()
    with record.recording() as graphs:
        torch.compile(fn, backend="tile")(*args, **kwargs)
    return Explanation(list(graphs), dict(dynamo_counters["graph_break"]))
