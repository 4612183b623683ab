"""The report as one HTML page that needs nothing beside itself."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from torch_tile.debug.report import timeline
from torch_tile.debug.report.entries import Trace
from torch_tile.debug.report.picture import STYLE, Picture, short_source, show_bytes, show_ns
from torch_tile.debug.report.stages import texts_of_kernel

_WHOLE = [
    ("tile_fx", "FX graph"),
    ("tile_graph", "graph dialect"),
    ("tile_loops", "loops"),
    ("tile_fusion", "fusion groups"),
    ("tile_program", "step program"),
]
_LONGEST_LINE = 80
_DECISION = re.compile(r"(yes|no) +(\w+) line (\d+) with line (\d+): (.*)")

Cell = tuple[str, float | None] | str


class _Texts:
    """Texts of the page, compressed, each once."""

    def __init__(self) -> None:
        self.packed: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.packed)
            # No time of writing within: equal reports are equal files.
            self.packed.append(base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode())
        return self._numbers[text]


def _table(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]], wide: Sequence[int] = ()) -> str:
    """A table that sorts. Cells with a value are numbers; `wide` columns are left out on narrow screens.

    The first line of a cell is its text, and others stand small below it.
    """
    numbers = {k for _, cells in rows for k, cell in enumerate(cells) if not isinstance(cell, str)}

    def classes(k: int, is_code: bool = False) -> str:
        names = ["number"] * (k in numbers) + ["wide"] * (k in wide) + ["mono"] * is_code
        return f' class="{" ".join(names)}"' if names else ""

    lines = ["".join(f"<th{classes(k)}>{escape(head)}</th>" for k, head in enumerate(heads))]
    for attributes, cells in rows:
        line = ""
        for k, cell in enumerate(cells):
            if isinstance(cell, str):
                first, *below = map(escape, cell.split("\n"))
                small = "".join(f"<small>{part}</small>" for part in below)
                line += f"<td{classes(k, k == 0)}>{first.replace('_', '_<wbr>')}{small}</td>"
            else:
                value = -1 if cell[1] is None else cell[1]
                line += f'<td{classes(k)} data-value="{value:g}">{escape(cell[0])}</td>'
        lines.append(f"<tr{attributes}>{line}</tr>")
    body = "\n".join(lines[1:])
    head = f"<thead><tr>{lines[0]}</tr></thead>"
    return f'<div class="scroll"><table class="sorts">{head}<tbody>{body}</tbody></table></div>'


def _ns(ns: float | None) -> Cell:
    return ("-" if ns is None else show_ns(ns), ns)


def _measured(graph: Mapping[str, Any], times: Mapping[int, float], name: str) -> float | None:
    """Nanoseconds of all launches of a kernel."""
    steps = [i for i, step in enumerate(graph["program"]["steps"]) if step["name"] == name]
    return sum(times[i] for i in steps) if steps and all(i in times for i in steps) else None


def _kernel_rows(graph: Mapping[str, Any], times: Mapping[int, float]) -> list[tuple[str, list[Cell]]]:
    rows: list[tuple[str, list[Cell]]] = []
    for k, kernel in enumerate(graph["kernels"]):
        launches = kernel["launches"]
        total = _measured(graph, times, kernel["name"])
        moved = kernel["bytes_moved"]
        speed = moved / total if moved is not None and total else None
        compiled = kernel["steps_ms"].get("total")
        rows.append(
            (
                f' data-kernel="{k}" tabindex="0"',
                [
                    "\n".join([kernel["name"], *map(_short, kernel["sources"][:1])]),
                    (str(launches), launches),
                    _ns(kernel["predicted_ns"]),
                    _ns(total),
                    ("by size" if moved is None else show_bytes(moved), moved),
                    ("-" if speed is None else f"{speed:.1f}", speed),
                    ("-" if compiled is None else f"{compiled:.1f}", compiled),
                ],
            )
        )
    return rows


def _short(source: str) -> str:
    """`file.py:12 code` of `/a/b/file.py:12: code`."""
    code = source.partition(": ")[2]
    return f"{short_source(source)} {code if len(code) <= _LONGEST_LINE else code[:_LONGEST_LINE] + '…'}".strip()


def _decisions(graph: Mapping[str, Any]) -> str:
    lines = graph["texts"].get("tile_graph", "").splitlines()

    def operation(number: str) -> str:
        found = re.search(r"= graph\.(\w+)", lines[int(number) - 1]) if int(number) <= len(lines) else None
        return found[1] if found else f"line {number}"

    counts: Counter[tuple[str, ...]] = Counter()
    for line in graph["texts"].get("tile_fusion_decisions", "").splitlines():
        if found := _DECISION.match(line.strip()):
            answer, kind, first, second, reason = found.groups()
            counts[answer, kind, operation(first), operation(second), reason] += 1
    rows: list[tuple[str, list[Cell]]] = [
        ("", [f"{first} → {second}", {"yes": "fused", "no": "not fused"}[answer], kind, reason, (str(count), count)])
        for (answer, kind, first, second, reason), count in sorted(counts.items(), key=lambda c: (c[0][0], -c[1]))
    ]
    if not rows:
        return '<p class="dim">No decisions are on record: the graph was loaded from a cache.</p>'
    refused = sum(count for (answer, *_), count in counts.items() if answer == "no")
    return (
        f'<div class="bar"><span>{counts.total() - refused} fused, {refused} not</span>'
        f'<input type="search" placeholder="filter" aria-label="filter decisions"></div>'
        + _table(["operations", "decision", "as", "reason", "times"], rows, wide=[2])
    )


def _outside(graph: Mapping[str, Any]) -> str:
    counts: Counter[tuple[str, str, str]] = Counter()
    for call in graph["outside"]:
        counts[call["operator"], call["reason"], _short(call["source"])] += 1
    if not counts:
        return '<p class="dim">None: the whole graph is generated.</p>'
    rows: list[tuple[str, list[Cell]]] = [
        ("", [f"{op}\n{source}" if source else op, reason, (str(count), count)])
        for (op, reason, source), count in counts.most_common()
    ]
    return _table(["operator", "reason", "times"], rows)


def _picture(graph: Mapping[str, Any], times: Mapping[int, float]) -> str:
    folded = Picture(graph, times=times)
    repeats = [part.segment.count for part in folded.parts if part.segment.count > 1]
    canvases = f'<div class="canvas">{folded.svg()}</div>'
    expand = ""
    if repeats:
        canvases += f'<div class="canvas" hidden>{Picture(graph, collapse=False, times=times).svg()}</div>'
        expand = '<button data-expand aria-pressed="false">show all layers</button>'
    return (
        f'<div class="bar">{expand}<button data-zoom="0.8">larger</button><button data-zoom="1.25">smaller</button>'
        '<button data-zoom="fit">reset</button><span class="legend"><i></i>kernel<i class="call"></i>call outside '
        "&nbsp; ≈ predicted; the line at a box's foot is its time</span></div>" + canvases
    )


def _graph(number: int, graph: Mapping[str, Any], times: Mapping[int, float], texts: _Texts) -> str:
    whole = [(title, graph["texts"][name]) for name, title in _WHOLE if graph["texts"].get(name)]
    folded = "".join(
        f'<details data-text="{texts.add(text)}"><summary>{title}, {len(text.splitlines())} lines</summary>'
        "<pre tabindex=0></pre></details>"
        for title, text in whole
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in graph.get("notes", []))
    heads = ["kernel", "launches", "predicted", "measured", "moved", "GB/s", "compile ms"]
    table = _table(heads, _kernel_rows(graph, times), wide=[1, 5, 6])
    return (
        f'<div class="of-graph" data-graph="{number}"{" hidden" if number else ""}>'
        f"<section><h2>Graph</h2>{_picture(graph, times)}<div class=panel hidden></div></section>"
        f"<section><h2>Kernels</h2>{table if graph['kernels'] else '<p class=dim>None.</p>'}</section>"
        f"<section><h2>Calls outside</h2>{_outside(graph)}</section>"
        f"<section><h2>Fusion decisions</h2>{_decisions(graph)}{notes}</section>"
        f"<section><h2>Stages of the whole graph</h2>{folded}</section></div>"
    )


def _facts(trace: Trace) -> str:
    kernels = {kernel["hash"] for graph in trace.graphs for kernel in graph["kernels"]}
    steps = [step for graph in trace.graphs for step in graph["program"]["steps"]]
    launches = sum(step["kind"] == "kernel" for step in steps)
    moved = [kernel["bytes_moved"] for graph in trace.graphs for kernel in graph["kernels"]]
    asked = [cache["state"] for cache in trace.caches if cache["state"] != "bypass"]
    facts = [
        (str(len(trace.graphs)), "graphs" if len(trace.graphs) != 1 else "graph"),
        (str(len(kernels)), "kernels"),
        (str(launches), "launches a call"),
        (str(len(steps) - launches), "calls outside"),
        (show_bytes(sum(m for m in moved if m is not None)) if moved else "-", "moved by kernels"),
        (show_ns(sum(graph["compile_ms"] for graph in trace.graphs) * 1e6), "compile"),
    ]
    if asked:
        facts.append((f"{asked.count('hit')} of {len(asked)}", "cache hits"))
    if trace.call:
        span = max(s.end for s in trace.call) - min(s.begin for s in trace.call)
        facts.append((show_ns(span * 1e3), "one profiled call"))
    return "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in facts)


def _caches(trace: Trace) -> str:
    if not trace.caches:
        return '<p class="dim">No cache was asked.</p>'
    rows: list[tuple[str, list[Cell]]] = []
    for cache in trace.caches:
        ms, kernels = cache.get("compile_ms"), cache.get("kernels")
        what = str(cache.get("graph") or str(cache.get("key", ""))[:16])
        numbers: list[Cell] = [
            ("-" if kernels is None else str(kernels), kernels),
            ("-" if ms is None else f"{ms:.1f}", ms),
        ]
        rows.append(("", [what, cache["cache"], cache["state"], *numbers]))
    note = ""
    if any(cache["state"] == "bypass" for cache in trace.caches):
        note = (
            '<p class="dim">bypass: the cache was not asked. A report of a script compiles every graph, to show its '
            "stages; a trace (TORCH_TRACE) has the hits and misses of a usual run.</p>"
        )
    return note + _table(["entry", "cache", "outcome", "kernels", "ms"], rows)


def _data(trace: Trace, times: Sequence[Mapping[int, float]], texts: _Texts) -> dict[str, Any]:
    graphs = []
    for graph, measured in zip(trace.graphs, times, strict=True):
        numbers = {kernel["name"]: k for k, kernel in enumerate(graph["kernels"])}
        kernels = []
        for kernel in graph["kernels"]:
            launches = "1 launch" if kernel["launches"] == 1 else f"{kernel['launches']} launches"
            facts = [launches, f"predicted {show_ns(kernel['predicted_ns'])} on one thread"]
            if (total := _measured(graph, measured, kernel["name"])) is not None:
                facts.append(f"measured {show_ns(total)}")
            facts += [f"{show_bytes(kernel['bytes_moved'])} moved", kernel["target"], f"hash {kernel['hash'][:12]}"]
            stages = [[name, texts.add(text)] for name, text in texts_of_kernel(graph, kernel)]
            kept = {name: kernel[name] for name in ("name", "sources", "schedule")}
            kernels.append({**kept, "facts": ", ".join(facts), "stages": stages})
        steps: list[dict[str, Any]] = []
        for number, (step, sources) in enumerate(
            zip(graph["program"]["steps"], graph.get("step_sources", []), strict=False)
        ):
            if step["kind"] == "kernel" and step["name"] in numbers:
                steps.append({"kernel": numbers[step["name"]]})
                continue
            facts = [{"call": "a call outside", "python": "a Python call"}.get(step["kind"], step["kind"])]
            facts += [f"measured {show_ns(measured[number])}"] if number in measured else []
            facts.append(f"{show_bytes(step['bytes_moved'])} of operands and results")
            steps.append({"name": step["name"], "facts": ", ".join(facts), "sources": sources})
        graphs.append({"kernels": kernels, "steps": steps})
    return {"graphs": graphs, "texts": texts.packed}


def _asset(name: str) -> str:
    return resources.files("torch_tile.debug.report").joinpath(name).read_text(encoding="utf-8")


def write_page(trace: Trace) -> str:
    """The whole page as text."""
    times, texts = trace.times(), _Texts()
    graphs = "".join(_graph(k, graph, times[k], texts) for k, graph in enumerate(trace.graphs))
    tabs = "".join(
        f'<button role="tab">{escape(graph["graph"])} <span class="dim">{escape(graph["kind"])}</span></button>'
        for graph in trace.graphs
    )
    # "</" would end the script.
    data = json.dumps(_data(trace, times, texts), separators=(",", ":")).replace("</", "<\\/")
    versions = ", ".join(f"{name} {version}" for name, version in trace.versions.items())
    call = timeline.call(trace.call) if trace.call else '<p class="dim">No call was profiled.</p>'
    title = escape(trace.title or "torch-tile")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - torch-tile report</title>
<style>
{_asset("page.css")}{STYLE}</style>
</head>
<body>
<header><h1>{title}</h1><div class="dim">torch-tile report{escape(": " + versions if versions else "")}</div></header>
<div class="facts">{_facts(trace)}</div>
<section><h2>One call</h2>{call}</section>
<section><h2>Compile</h2>{timeline.phases(trace)}</section>
<section><h2>Caches</h2>{_caches(trace)}</section>
<nav class="tabs" id="graphs" role="tablist">{tabs}</nav>
{graphs}
<script id="data" type="application/json">{data}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""
