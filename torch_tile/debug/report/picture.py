"""The picture of a graph: kernels as boxes, calls grey, bytes on edges, equal layers drawn once."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from torch_tile.debug.report.layout import Cell, Drawing, Flow, draw
from torch_tile.debug.report.repeats import Segment, segments

_CHARACTER = 7.25  # width of one, at 12 px of a fixed width
_SMALL = 6.65  # at 11 px
_MARGIN = 18.0

STYLE = """
.graph { --ink: #1c2127; --dim: #6b7480; --line: #b9c0c8; --paper: #ffffff; --accent: #1769aa; --wash: #eaf2f9;
  --grey: #f1f3f5; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
@media (prefers-color-scheme: dark) { .graph { --ink: #e3e7eb; --dim: #929ca7; --line: #4a525b; --paper: #14171a;
  --accent: #6cb2ec; --wash: #172a3a; --grey: #22272c } }
.graph .paper { fill: var(--paper) }
.graph text { fill: var(--ink); font-size: 12px }
.graph .small { font-size: 11px; fill: var(--dim) }
.graph .box rect { fill: var(--wash); stroke: var(--accent) }
.graph .box.call rect, .graph .box.python rect { fill: var(--grey); stroke: var(--line) }
.graph .box.python rect { stroke-dasharray: 4 3 }
.graph .box rect.share { fill: var(--accent); stroke: none }
.graph .box.call rect.share, .graph .box.python rect.share { fill: var(--dim) }
.graph .edge { fill: none; stroke: var(--line) }
.graph .pill { fill: var(--paper) }
.graph .frame { fill: none; stroke: var(--dim); stroke-dasharray: 2 4 }
.graph .title { font-weight: 600 }
"""


def show_bytes(count: float | None) -> str:
    if count is None:
        return "by size"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def show_ns(ns: float | None) -> str:
    if ns is None:
        return "by size"
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns:.0f} ns"


def short_source(source: str) -> str:
    """`file.py:12` of `/a/b/file.py:12: code`."""
    place = source.partition(": ")[0]
    return os.path.basename(place)


def short_name(step: Mapping[str, Any]) -> str:
    name: str = step["name"]
    return name.removeprefix("fused_") if step["kind"] == "kernel" else name.removeprefix("aten::")


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


@dataclasses.dataclass
class Box:
    """What is written on a node."""

    step: int
    kind: str
    lines: list[str]
    share: float = 0.0
    """Its time over that of the step that takes longest."""

    @property
    def size(self) -> tuple[float, float]:
        widths = [len(line) * (_CHARACTER if k == 0 else _SMALL) for k, line in enumerate(self.lines)]
        return max(widths) + 22, 14 + 15.0 * len(self.lines)


@dataclasses.dataclass
class Part:
    """A run of steps; one of them stands for all of its repeats."""

    nodes: list[int]
    segment: Segment
    carried: int = 0
    """Bytes that one repeat hands to the next."""


def _tokens(program: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    values = program["values"]

    def text(slot: int) -> str:
        value = values.get(slot) or values.get(str(slot)) or {}
        return str(value.get("text", ""))

    return [(s["kind"], s["name"], s["bytes_moved"], *map(text, s["writes"])) for s in program["steps"]]


def _value(program: Mapping[str, Any], slot: int) -> Mapping[str, Any]:
    found: Mapping[str, Any] = program["values"].get(str(slot)) or program["values"].get(slot) or {}
    return found


class Picture:
    """A graph laid out. `times` has measured nanoseconds by the number of a step, if a call was profiled."""

    def __init__(
        self, graph: Mapping[str, Any], collapse: bool = True, times: Mapping[int, float] | None = None
    ) -> None:
        self.graph = graph
        self.program = graph["program"]
        self.steps: list[Mapping[str, Any]] = self.program["steps"]
        count = len(self.steps)
        whole = [Segment(0, count, 1)] if count else []
        self.parts = [
            Part(list(range(s.start, s.start + s.period)), s)
            for s in (segments(_tokens(self.program), self._handed_over()) if collapse else whole)
        ]
        self._stands_for: dict[int, int] = {}
        self._part_of: dict[int, Part] = {}
        for part in self.parts:
            for step in range(part.segment.start, part.segment.end):
                self._stands_for[step] = part.segment.start + (step - part.segment.start) % part.segment.period
                self._part_of[step] = part
        self.times = times or {}
        self.longest = max((self._ns(i) or 0.0 for i in range(count)), default=0.0)
        self.boxes = [self._box(step) for part in self.parts for step in part.nodes]
        self.flows, self.values = self._flows()
        self.drawing = self._draw()

    def _handed_over(self) -> Callable[[int], float]:
        """How many values that steps have made are still needed at each step."""
        last_read = {slot: i for i, step in enumerate(self.steps) for slot in step["reads"]}
        change = [0] * (len(self.steps) + 2)
        for i, step in enumerate(self.steps):
            for slot in step["writes"]:
                if last_read.get(slot, i) > i:
                    change[i + 1] += 1
                    change[last_read[slot] + 1] -= 1
        live = list(itertools.accumulate(change))
        return lambda start: live[start]

    def _ns(self, number: int) -> float | None:
        """Of one step: measured, else predicted."""
        predicted: float | None = self.steps[number].get("predicted_ns")
        return self.times.get(number, predicted)

    def _box(self, number: int) -> Box:
        step = self.steps[number]
        ns = self._ns(number)
        facts = []
        if ns is not None:
            facts.append(("" if number in self.times else "≈ ") + show_ns(ns))
        if step["bytes_moved"] is not None:
            facts.append(show_bytes(step["bytes_moved"]))
        lines = [_clip(short_name(step), 30), " · ".join(facts) or "sizes vary"]
        sources = self.graph.get("step_sources", [])
        if number < len(sources) and sources[number]:
            lines.append(_clip(short_source(sources[number][0]), 34))
        return Box(number, step["kind"], lines, (ns or 0) / self.longest if self.longest else 0.0)

    def _flows(self) -> tuple[list[Flow], list[int]]:
        """What goes between the boxes, and the value that each flow is."""
        number = {box.step: k for k, box in enumerate(self.boxes)}
        writer: dict[int, int] = {}
        found: dict[tuple[int, int], list[int]] = {}
        slots: dict[tuple[int, int], int] = {}
        carried: dict[tuple[int, int], int] = {}
        for i, step in enumerate(self.steps):
            for slot in step["reads"]:
                if (producer := writer.get(slot)) is None:
                    continue
                here, there = self._stands_for[i], self._stands_for[producer]
                result = list(self.steps[producer]["writes"]).index(slot)
                if there >= here:  # from one repeat to the next
                    carried[there, result] = _value(self.program, slot).get("bytes") or 0
                    continue
                consumers = found.setdefault((there, result), [])
                slots.setdefault((there, result), slot)
                if number[here] not in consumers:
                    consumers.append(number[here])
            for slot in step["writes"]:
                writer[slot] = i
        for (there, _), size in carried.items():
            self._part_of[there].carried += size
        values = [slots[key] for key in found]
        widths = [len(self._label(slot)) * _SMALL + 10 for slot in values]
        flows = [
            Flow(number[there], consumers, width)
            for ((there, _), consumers), width in zip(found.items(), widths, strict=True)
        ]
        return flows, values

    def _label(self, slot: int) -> str:
        value = _value(self.program, slot)
        size = value.get("bytes")
        return show_bytes(size) if size is not None else _clip(value.get("text", "") or "?", 24)

    def _draw(self) -> Drawing:
        number = {box.step: k for k, box in enumerate(self.boxes)}
        return draw(
            [box.size for box in self.boxes],
            self.flows,
            [[number[step] for step in part.nodes] for part in self.parts],
            label_height=14.0,
            headers=[k for k, part in enumerate(self.parts) if part.segment.count > 1],
        )

    def only(self, part: Part) -> Picture:
        """One repeat of a part, alone."""
        begin = part.segment.start
        steps = self.steps[begin : begin + part.segment.period]
        sources = self.graph.get("step_sources", [])[begin : begin + part.segment.period]
        program = {**self.program, "steps": steps}
        times = {number - begin: ns for number, ns in self.times.items()}
        return Picture({**self.graph, "program": program, "step_sources": sources}, collapse=False, times=times)

    def title_of(self, part: Part) -> str:
        title = f"\N{MULTIPLICATION SIGN} {part.segment.count}"
        return f"{title}, each hands {show_bytes(part.carried)} to the next" if part.carried else title

    def svg(self, is_file: bool = False) -> str:
        """As an element of a page, or as a file of its own with its style."""
        repeated = [self._frame(part) for part in self.parts if part.segment.count > 1]
        frames, titles = ("".join(texts) for texts in zip(*repeated, strict=True)) if repeated else ("", "")
        edges = "".join(self._edges())
        nodes = "".join(self._node(cell) for cell in self.drawing.cells)
        # Titles of frames may be wider than what they frame.
        widest = max(
            [self.drawing.width, *(len(self.title_of(p)) * _CHARACTER + 24 for p in self.parts if p.segment.count > 1)]
        )
        width, height = widest + 2 * _MARGIN, self.drawing.height + 2 * _MARGIN
        name = escape(str(self.graph["graph"]))
        start = f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width:.0f} {height:.0f}"'
        if is_file:
            start += f' width="{width:.0f}" height="{height:.0f}"'
        style = f'<style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>' if is_file else ""
        move = f'<g transform="translate({_MARGIN} {_MARGIN})">'
        return f'{start} role="img" aria-label="{name}">{style}{move}{frames}{edges}{nodes}{titles}</g></svg>\n'

    def _frame(self, part: Part) -> tuple[str, str]:
        """The frame, and its title, which stands over the lines that cross it."""
        inside = {k for k, box in enumerate(self.boxes) if box.step in part.nodes}
        cells = [
            c
            for c in self.drawing.cells
            if c.node in inside or (c.is_label and c.value is not None and self.flows[c.value].producer in inside)
        ]
        title = self.title_of(part)
        left = min(c.x - c.width / 2 for c in cells) - 12
        right = max(max(c.x + c.width / 2 for c in cells) + 12, left + len(title) * _CHARACTER + 24)
        top, bottom = min(c.y - c.height / 2 for c in cells) - 30, max(c.y + c.height / 2 for c in cells) + 7
        title_width = len(title) * _CHARACTER + 8
        return (
            f'<rect class="frame" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
            f'rx="8"/>',
            f'<rect class="pill" x="{left + 8:.1f}" y="{top + 5:.1f}" width="{title_width:.1f}" height="18"/>'
            f'<text class="title" x="{left + 12:.1f}" y="{top + 18:.1f}">{escape(title)}</text>',
        )

    def _edges(self) -> list[str]:
        cells = self.drawing.cells
        paths = []
        for i, cell in enumerate(cells):
            for j in cell.below:
                lower = cells[j]
                value = cell.value if cell.value is not None else lower.value
                stroke = 1.0 if value is None else self._stroke(value)
                x1, x2 = _port(cells, i, j, cell.below), _port(cells, j, i, lower.above)
                y1, y2 = cell.y + cell.height / 2, lower.y - lower.height / 2
                middle = (y1 + y2) / 2
                paths.append(
                    f'<path class="edge" stroke-width="{stroke:.1f}" '
                    f'd="M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"/>'
                )
            if cell.is_passage:
                width = 1.0 if cell.value is None else self._stroke(cell.value)
                top, bottom = cell.y - cell.height / 2, cell.y + cell.height / 2
                paths.append(
                    f'<path class="edge" stroke-width="{width:.1f}" d="M{cell.x:.1f} {top:.1f}V{bottom:.1f}"/>'
                )
        return paths

    def _stroke(self, flow: int) -> float:
        """Width of a line: more bytes, more ink."""
        size = _value(self.program, self.values[flow]).get("bytes")
        return 1.0 + max(0.0, math.log10(size or 1) - 4) * 0.55

    def _node(self, cell: Cell) -> str:
        if cell.is_label and cell.value is not None:
            slot = self.values[cell.value]
            title = escape(str(_value(self.program, slot).get("text", "")))
            text = _text(cell.x, cell.y + 3.5, self._label(slot), 'class="small" text-anchor="middle"')
            return f"<g><title>{title}</title>{_rect(cell, 'pill')}{text}</g>"
        if cell.node is None:
            return ""
        box = self.boxes[cell.node]
        left, top = cell.x - cell.width / 2, cell.y - cell.height / 2
        texts = "".join(
            _text(left + 11, top + 18 + 15 * k, line, 'class="small"' if k else "") for k, line in enumerate(box.lines)
        )
        share = box.share * (cell.width - 2)
        bar = f'<rect class="share" x="{left + 1:.1f}" y="{top + cell.height - 4:.1f}" width="{share:.1f}" height="3"/>'
        name = escape(str(self.steps[box.step]["name"]))
        return (
            f'<g class="box {box.kind}" data-step="{box.step}" tabindex="0"><title>{name}</title>'
            f"{_rect(cell, 'whole')}{bar if share >= 0.5 else ''}{texts}</g>"
        )


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text {attributes} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _rect(cell: Cell, name: str) -> str:
    left, top = cell.x - cell.width / 2, cell.y - cell.height / 2
    place = f'x="{left:.1f}" y="{top:.1f}" width="{cell.width:.1f}" height="{cell.height:.1f}"'
    return f'<rect class="{name}" {place} rx="4"/>'


def _port(cells: Sequence[Cell], here: int, there: int, linked: Sequence[int]) -> float:
    """Where a line meets a box: lines to the left further left."""
    cell = cells[here]
    if cell.node is None or len(linked) == 1:
        return cell.x
    order = sorted(linked, key=lambda k: cells[k].x)
    return cell.x - cell.width / 2 + cell.width * (order.index(there) + 1) / (len(order) + 1)


def write_picture(graph: Mapping[str, Any]) -> str:
    """The picture of a described graph (`trace.describe`) as an SVG file: `trace.graph_diagram`."""
    return Picture(graph).svg(is_file=True)
