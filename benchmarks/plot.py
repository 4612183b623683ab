"""Pictures of a results file: speed over the best alternative as dots, and compile times as bars.

    python benchmarks/plot.py benchmarks/results/kernels-cpu.json --svg benchmarks/results/kernels-cpu.svg
    python benchmarks/plot.py --layer bert --svg benchmarks/results/bert-layer.svg

A dot is how many times as fast as the best of the other backends tile is; the line is at 1. Cases are sorted, values
are printed. A file of the suite compile_time gives bars of seconds instead. `--layer` draws the kernels, calls and
bytes of one layer of a model of tests/models/zoo.py, compiled here.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import comparison  # noqa: E402

WIDTH = 390  # of a telephone; the picture grows with the page from there
ROW = 19
LEFT = 196
STYLE = """
svg { --ink: #1c2127; --dim: #667080; --line: #cfd5db; --accent: #1769aa; --paper: #fff;
  font: 10.5px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
@media (prefers-color-scheme: dark) { svg { --ink: #e3e7eb; --dim: #98a2ae; --line: #3a424a; --accent: #6cb2ec;
  --paper: #14171a } }
.paper { fill: var(--paper) } text { fill: var(--ink) } .dim { fill: var(--dim) }
.title { font-weight: 600; font-size: 13px }
.accent { fill: var(--accent) } .other { fill: var(--line) } line { stroke: var(--line) } .one { stroke: var(--ink) }
"""


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _svg(title: str, subtitle: str, height: float, parts: Sequence[str]) -> str:
    head = [_text(10, 20, title, "title"), _text(10, 36, subtitle, "dim")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}"><style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>'
        f"{''.join(head)}{''.join(parts)}</svg>\n"
    )


def _clip(text: str, length: int = 29) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def dots(rows: Sequence[dict[str, Any]], ours: str = "tile") -> str:
    """Sorted: the fastest case first. The axis is linear and ends at 4; what is beyond stands at the edge, named."""
    found = []
    for case, times in comparison.medians(rows).items():
        best = comparison.best_alternative(times, ours)
        if best is not None and ours in times:
            found.append((times[best] / times[ours], case, best))
    if not found:
        raise SystemExit(f"no case has a time of {ours} and of another backend")
    found.sort(reverse=True)
    top, end = 88.0, 4.0
    right = WIDTH - 42.0

    def x(value: float) -> float:
        return LEFT + (right - LEFT) * min(value, end) / end

    bottom = top + ROW * len(found)
    parts = [_line(x(v), top - 6, x(v), bottom, "one" if v == 1 else "") for v in (0, 1, 2, 3, 4)]
    parts += [_text(x(v), top - 10, f"{v}" if v < end else "4+", "dim", "middle") for v in (0, 1, 2, 3, 4)]
    for k, (value, case, best) in enumerate(found):
        y = top + ROW * k + ROW / 2
        parts.append(_text(LEFT - 10, y + 4, _clip(case), "", "end"))
        parts.append(f'<g><title>{escape(case)}: {value:.2f} times {escape(best)}</title>'
                     f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="4" class="accent"/></g>')  # fmt: skip
        parts.append(_text(WIDTH - 8, y + 4, f"{value:.2f}", "", "end"))
    values = sorted(value for value, *_ in found)
    mean = math.exp(sum(map(math.log, values)) / len(values))
    names = ", ".join(comparison.others(rows, ours))
    summary = f"geometric mean {mean:.2f}, median row {comparison.median(values):.2f}, worst {values[0]:.2f}"
    parts.insert(0, _text(10, 52, f"the best of {names}", "dim"))
    return _svg(f"Speed of {ours} over the best alternative", summary, bottom + 14, parts)


def bars(rows: Sequence[dict[str, Any]]) -> str:
    """Seconds of first calls, one group of bars a case."""
    cases = comparison.medians(rows)
    backends = list(dict.fromkeys(backend for times in cases.values() for backend in times))
    longest = max((s for times in cases.values() for s in times.values()), default=1.0)
    right = WIDTH - 60.0
    y, parts = 62.0, []
    for case, times in cases.items():
        parts.append(_text(10, y, case, "title"))
        y += 8
        for backend in backends:
            if backend not in times:
                continue
            width = (right - 130) * times[backend] / longest
            kind = "accent" if backend.startswith("tile") else "other"
            parts.append(_text(122, y + 11, _clip(backend, 20), "dim", "end"))
            parts.append(f'<rect x="130" y="{y:.1f}" width="{width:.1f}" height="14" class="{kind}"/>')
            parts.append(_text(130 + width + 5, y + 11, f"{times[backend]:.2f} s"))
            y += 18
        y += 22
    return _svg("First call in a fresh process", "seconds, median of the processes", y, parts)


def layer(name: str, layers: int = 4) -> str:
    """Kernels, calls and bytes of one layer of a model, as torch_tile.report draws them."""
    import torch

    from tests.models import zoo
    from torch_tile.debug.report.collect import collected
    from torch_tile.debug.report.picture import Picture

    entry = zoo.BY_NAME[name]
    model, inputs = entry.build(layers=layers).eval(), entry.inference_inputs()
    with collected(name) as trace, torch.no_grad():
        torch.compile(model, backend="tile", dynamic=False)(**inputs)
    picture = Picture(max(trace.graphs, key=lambda graph: len(graph["program"]["steps"])))
    repeated = [part for part in picture.parts if part.segment.count > 1]
    if not repeated:
        raise SystemExit(f"{name}: no layer repeats among its kernels")
    widest = max(repeated, key=lambda part: part.segment.count * part.segment.period)
    return picture.only(widest).svg(is_file=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", help="JSON file of benchmarks/run.py")
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--layer", metavar="MODEL", help="draw one layer of this model instead")
    parser.add_argument("--suite", help="only rows of this suite")
    options = parser.parse_args()
    if options.layer:
        options.svg.write_text(layer(options.layer))
        return 0
    if options.results is None:
        parser.error("a results file is needed, or --layer")
    rows = [row for row in json.loads(options.results.read_text())["rows"] if options.suite in (None, row["suite"])]
    is_compile_time = bool(rows) and all(row["suite"] == "compile_time" for row in rows)
    options.svg.write_text(bars(rows) if is_compile_time else dots(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
