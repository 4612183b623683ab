"""Timelines as rows of bars: phases of the compile, and one profiled call."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

from torch_tile.debug.report.entries import Span, Trace
from torch_tile.debug.report.picture import show_ns

_ROW = 20
_LEAST_SHARE = 0.0008  # of the width; what is shorter cannot be seen
_LONG_GAP = 0.04


def _lanes(spans: Sequence[Span], is_ours: dict[int, bool], gaps: Sequence[float] = ()) -> str:
    """Bars at their places, one row a depth."""
    first, last = min(s.begin for s in spans), max(s.end for s in spans)
    whole = (last - first) or 1.0
    bars = []
    shown = [s for s in spans if (s.end - s.begin) / whole >= _LEAST_SHARE or is_ours.get(id(s))]
    depth = max(s.depth for s in shown)
    for span in shown:
        left, width = (span.begin - first) / whole * 100, (span.end - span.begin) / whole * 100
        took = show_ns((span.end - span.begin) * 1e3)
        label = escape(span.name) if width > 4 else ""
        mark = " class=ours" if is_ours.get(id(span)) else " class=call" if span.lane == "call" else ""
        bars.append(
            f'<div{mark} style="left:{left:.3f}%;width:{width:.3f}%;top:{span.depth * _ROW}px" '
            f'title="{escape(span.name)}: {took}">{label}</div>'
        )
    marks = "".join(
        f'<i style="left:{(gap - first) / whole * 100:.3f}%" title="time without a compile"></i>' for gap in gaps
    )
    axis = f"<span>0</span><span>{show_ns(whole * 1e3)}</span>"
    return (
        '<div class="scroll"><div class="timeline">'
        f'<div class="lanes" style="height:{(depth + 1) * _ROW}px">{"".join(bars)}{marks}</div>'
        f'<div class="axis">{axis}</div></div></div><div class="picked"></div>'
    )


def _without_gaps(spans: list[Span]) -> tuple[list[Span], list[float]]:
    """Takes out long times in which nothing was compiled; also where they were."""
    top = sorted((s.begin, s.end) for s in spans)
    active: list[tuple[float, float]] = []
    for begin, end in top:
        if active and begin <= active[-1][1]:
            active[-1] = (active[-1][0], max(end, active[-1][1]))
        else:
            active.append((begin, end))
    total = sum(end - begin for begin, end in active) or 1.0
    removed, cuts, gaps = 0.0, [], []
    for (_, before), (after, _) in itertools.pairwise(active):
        excess = after - before - total * 0.012
        if after - before > total * _LONG_GAP:
            gaps.append(before - removed + total * 0.006)
            removed += excess
            cuts.append((after, removed))
    moved = []
    for span in spans:
        shift = max((amount for start, amount in cuts if span.begin >= start), default=0.0)
        moved.append(Span(span.name, span.begin - shift, span.end - shift, span.depth, span.lane))
    return moved, gaps


def _kernel_spans(trace: Trace) -> list[Span]:
    """When each kernel was compiled, on lanes below the phases: threads work side by side."""
    stages = [s for s in trace.phases if s.name == "torch_tile.codegen"]
    compiled = [g for g in trace.graphs if any(k["begin_ms"] is not None for k in g["kernels"])]
    base = max((s.depth for s in trace.phases), default=0) + 1
    found: list[Span] = []
    for graph, stage in zip(compiled, stages, strict=False):
        kernels = sorted((k for k in graph["kernels"] if k["begin_ms"] is not None), key=lambda k: k["begin_ms"])
        ends: list[float] = []
        for kernel in kernels:
            begin = stage.begin + (kernel["begin_ms"] - kernels[0]["begin_ms"]) * 1e3
            end = min(begin + kernel["steps_ms"].get("total", 0) * 1e3, stage.end)
            lane = next((k for k, busy in enumerate(ends) if busy <= begin), len(ends))
            ends[lane : lane + 1] = [end]
            found.append(Span(kernel["name"], begin, end, base + lane))
    return [span for span in found if span.end > span.begin]


def phases(trace: Trace) -> str:
    if not trace.phases:
        return '<p class="dim">The compile is not on record.</p>'
    spans, gaps = _without_gaps([*trace.phases, *_kernel_spans(trace)])
    kernels = {kernel["name"] for graph in trace.graphs for kernel in graph["kernels"]}
    ours = {id(s): s.name.startswith("torch_tile.") or s.name in kernels for s in spans}
    own = [s for s in trace.phases if s.name in ("torch_tile.compile", "torch_tile.load")]
    total = sum(s.end - s.begin for s in trace.phases if s.depth == 0)
    text = (
        f'<i class="swatch ours"></i>{show_ns(sum(s.end - s.begin for s in own) * 1e3)} of {show_ns(total * 1e3)} '
        "are torch-tile's compiler; the rest is Dynamo and AOTAutograd. Kernels are compiled side by side on threads."
    )
    return f'<p class="dim">{text}</p>{_lanes(spans, ours, gaps)}'


def call(spans: Sequence[Span]) -> str:
    """One call under the profiler."""
    ours = {id(s): s.lane == "kernel" for s in spans}
    kernels = sum(s.end - s.begin for s in spans if s.lane == "kernel")
    whole = max(s.end for s in spans) - min(s.begin for s in spans)
    calls = sum(s.end - s.begin for s in spans if s.lane == "call")
    text = (
        f'<i class="swatch ours"></i>{show_ns(kernels * 1e3)} in kernels, '
        f'<i class="swatch call"></i>{show_ns(calls * 1e3)} in calls outside, '
        f"{show_ns(max(whole - kernels - calls, 0) * 1e3)} elsewhere."
    )
    return f'<p class="dim">{text}</p>{_lanes(spans, ours)}'
