"""Draws the diagrams of the documentation: docs/generated/diagram-*.svg. Usage: draw_diagrams.py FOLDER.

A diagram is a grid of boxes with arrows between them. It is narrow enough to be read on a telephone, and its colours
can be read on a white and on a black page.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, GAP, LINE, PADDING, BETWEEN, FONT = 480, 24, 19, 11, 34, 14
FILLS = {
    "torch": "#f6c7a8",
    "compiler": "#bcd4fb",
    "runtime": "#bfe5c3",
    "disk": "#efe3b0",
    "user": "#dccdf3",
    "step": "#dfe3e8",
    "goal": "#dccdf3",
    "test": "#efe3b0",
}
LEGEND = {
    "torch": "PyTorch",
    "compiler": "compiler library (MLIR, LLVM)",
    "runtime": "runtime (extension, C++)",
    "disk": "on disk",
    "user": "your program",
    "step": "Python",
    "goal": "you add",
    "test": "tests",
}


@dataclass
class Box:
    """A box: its row, its column of several (None: the whole width), its lines and its kind."""

    name: str
    row: int
    lines: str
    kind: str
    column: int | None = None
    columns: int = 2


@dataclass
class Diagram:
    title: str
    boxes: list[Box]
    arrows: list[tuple[str, str, str]]
    back: list[tuple[str, str]] = field(default_factory=list)
    """Arrows that go up, drawn along the right side."""


def draw(diagram: Diagram) -> str:
    margin = 26 if diagram.back else 2
    usable = WIDTH - 2 - margin
    rows = sorted({box.row for box in diagram.boxes})
    heights = {r: max(LINE * len(b.lines.split("\n")) + 2 * PADDING for b in diagram.boxes if b.row == r) for r in rows}
    tops, y = {}, 2
    for row in rows:
        tops[row] = y
        y += heights[row] + BETWEEN
    places: dict[str, tuple[float, float, float, float]] = {}
    parts: list[str] = []
    for box in diagram.boxes:
        if box.column is None:
            x, w = 2.0, float(usable)
        else:
            w = (usable - GAP * (box.columns - 1)) / box.columns
            x = 2 + box.column * (w + GAP)
        top, h = tops[box.row], heights[box.row]
        places[box.name] = (x, top, w, h)
        parts.append(
            f'<rect x="{x:.1f}" y="{top}" width="{w:.1f}" height="{h}" rx="7" '
            f'fill="{FILLS[box.kind]}" stroke="#6b7280"/>'
        )
        lines = box.lines.split("\n")
        first = top + h / 2 - LINE * (len(lines) - 1) / 2 + FONT * 0.35
        for i, line in enumerate(lines):
            weight = ' style="font-weight:600"' if i == 0 and len(lines) > 1 else ""
            place = f'x="{x + w / 2:.1f}" y="{first + i * LINE:.1f}"'
            parts.append(f'<text {place} text-anchor="middle"{weight}>{escape(line)}</text>')
    stroke = 'fill="none" stroke="#7d8590" stroke-width="1.6" marker-end="url(#head)"'
    for source, target, label in diagram.arrows:
        x0, y0, w0, h0 = places[source]
        x1, y1, w1, h1 = places[target]
        if y0 == y1:
            left = x0 < x1
            start, end = (x0 + w0, x1) if left else (x0, x1 + w1)
            parts.append(f'<path d="M{start:.1f},{y0 + h0 / 2:.1f} H{end - 2 if left else end + 2:.1f}" {stroke}/>')
            continue
        # A wide box meets a narrow one above or below its middle.
        a = x0 + w0 / 2 if w0 <= w1 else x1 + w1 / 2
        b = x1 + w1 / 2 if w1 <= w0 else x0 + w0 / 2
        middle = y0 + h0 + BETWEEN / 2
        bend = f"V{middle:.1f} H{b:.1f} " if abs(a - b) > 1 else ""
        parts.append(f'<path d="M{a:.1f},{y0 + h0} {bend}V{y1 - 2}" {stroke}/>')
        if label:
            parts.append(f'<text class="label" x="{b + 9:.1f}" y="{y1 - BETWEEN / 2 + 4:.1f}">{escape(label)}</text>')
    for source, target in diagram.back:
        _, y0, _, h0 = places[source]
        _, y1, _, h1 = places[target]
        side, end = WIDTH - margin + 18, WIDTH - margin + 2
        parts.append(
            f'<path d="M{end},{y0 + h0 / 2:.1f} H{side} V{y1 + h1 / 2:.1f} H{end + 2}" '
            f'{stroke} stroke-dasharray="5 4"/>'
        )
    y -= BETWEEN - 12
    kinds = list(dict.fromkeys(box.kind for box in diagram.boxes))
    for i, kind in enumerate(kinds):
        x, top = (2, 248)[i % 2], y + (i // 2) * 20
        parts.append(f'<rect x="{x}" y="{top}" width="13" height="13" rx="3" fill="{FILLS[kind]}" stroke="#6b7280"/>')
        parts.append(f'<text class="label" x="{x + 19}" y="{top + 11}">{LEGEND[kind]}</text>')
    height = y + (len(kinds) + 1) // 2 * 20 + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img">\n<title>{escape(diagram.title)}</title>\n'
        f"<style>text{{font:{FONT}px system-ui,sans-serif;fill:#14181d}}"
        ".label{font-size:12.5px;fill:#7d8590}</style>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#7d8590"/></marker></defs>\n' + "\n".join(parts) + "\n</svg>\n"
    )


DIAGRAMS = {
    "data-flow": Diagram(
        "From a function to a kernel's results",
        [
            Box("fn", 0, 'your function\ntorch.compile(fn, backend="tile")', "user"),
            Box("dynamo", 1, "Dynamo and AOTAutograd\nFX graph of ATen operators", "torch"),
            Box("front", 2, "torch_tile/frontend\ndecompositions, FX passes, freezing", "step"),
            Box("fx", 3, "runtime/fx\nFX graph → text of the graph dialect", "runtime"),
            Box("graph", 4, "graph\nsimplify, lower to loops", "compiler", 0),
            Box("fusion", 4, "fusion\nloops → groups", "compiler", 1),
            Box("tile", 5, "tile\ngroup → tile.kernel", "compiler", 1),
            Box("codegen", 5, "codegen\nobject code or PTX", "compiler", 0),
            Box("artifact", 6, "artifact: kernels and a step program", "disk"),
            Box("executor", 7, "runtime/executor\nallocate, launch, call operators, free", "runtime"),
        ],
        [
            ("fn", "dynamo", ""),
            ("dynamo", "front", ""),
            ("front", "fx", ""),
            ("fx", "graph", "text in"),
            ("graph", "fusion", ""),
            ("fusion", "tile", ""),
            ("tile", "codegen", ""),
            ("codegen", "artifact", "bytes out"),
            ("artifact", "executor", ""),
        ],
    ),
    "sizes": Diagram(
        "Size expressions from Python to machine code",
        [
            Box("sym", 0, "SymPy expression\ns0*(s1 + 2)//4", "torch"),
            Box("expr", 1, "SizeExpr\npolynomial over atoms", "compiler", 0),
            Box("facts", 1, "SizeFacts\nranges, divisors, bounds", "compiler", 1),
            Box("prover", 2, "three-valued answers: true, false, unknown", "compiler"),
            Box("map", 3, "index expressions\ninside kernels", "compiler", 0),
            Box("host", 3, "postfix programs\nin the artifact", "disk", 1),
            Box("call", 4, "evaluated once per call\nfor launches and allocations", "runtime", 1),
        ],
        [
            ("sym", "expr", "text"),
            ("sym", "facts", ""),
            ("expr", "prover", ""),
            ("facts", "prover", ""),
            ("prover", "map", ""),
            ("prover", "host", ""),
            ("host", "call", ""),
        ],
    ),
    "graph": Diagram(
        "Levels of the graph dialect",
        [
            Box("named", 0, "named ops\ngraph.softmax, graph.add, graph.extern", "compiler"),
            Box("simple", 1, "simplified: no dead code, mutation explicit", "compiler"),
            Box("loops", 2, "graph.loops\none loop nest per computation", "compiler"),
            Box("fusion", 3, "graph.fusion\nloops that share a kernel", "compiler"),
            Box("launch", 4, "graph.launch\none step of the artifact", "compiler", 0),
            Box("extern", 4, "graph.extern, graph.alias\none step each", "compiler", 1),
        ],
        [
            ("named", "simple", "graph-simplify"),
            ("simple", "loops", "graph-lower-to-loops"),
            ("loops", "fusion", "fusion passes"),
            ("fusion", "launch", ""),
            ("fusion", "extern", ""),
        ],
    ),
    "fusion": Diagram(
        "The fusion passes in order",
        [
            Box("reuse", 0, "ReuseBuffers\nscatters write in place", "compiler"),
            Box("merge", 1, "MergeLoads, on GPU\nrolls along several axes wrap around", "compiler"),
            Box("inline", 2, "InlineProducers\npointwise producers move into consumers", "compiler"),
            Box("masks", 3, "SimplifyMasks\nmasks and choices that nothing sees go", "compiler"),
            Box("split", 4, "SplitReductions\nlong reductions become two", "compiler"),
            Box("strides", 5, "ChooseStrides\nvalues between kernels lie like their inputs", "compiler"),
            Box("group", 6, "FormGroups\nloops that share data share a kernel", "compiler"),
            Box("elide", 7, "ElideRoundings\nvalues in registers stay float32", "compiler"),
            Box("dump", 8, "20-fusion.txt: every decision, with its reason", "disk"),
        ],
        [
            ("reuse", "merge", ""),
            ("merge", "inline", ""),
            ("inline", "masks", ""),
            ("masks", "split", ""),
            ("split", "strides", ""),
            ("strides", "group", ""),
            ("group", "elide", ""),
            ("elide", "dump", ""),
        ],
    ),
    "memory": Diagram(
        "One analysis of memory, its readers",
        [
            Box("ops", 0, "operations: views, writes, calls, mutations", "compiler"),
            Box("memory", 1, "analysis/Memory.h\nplaces of a value; what an op writes", "compiler"),
            Box("simplify", 2, "simplification\nand lowering", "compiler", 0, 3),
            Box("fusion", 2, "fusion and\nbuffer reuse", "compiler", 1, 3),
            Box("plan", 2, "step\nprogram", "compiler", 2, 3),
            Box("artifact", 3, "artifact\nslots that may share memory", "disk"),
            Box("runtime", 4, "executor\noverlap checks, grouped launches", "runtime"),
        ],
        [
            ("ops", "memory", ""),
            ("memory", "simplify", ""),
            ("memory", "fusion", ""),
            ("memory", "plan", ""),
            ("plan", "artifact", ""),
            ("artifact", "runtime", ""),
        ],
    ),
    "tile": Diagram(
        "From a fusion group to object code",
        [
            Box("group", 0, "graph.fusion\nmembers over common axes", "compiler"),
            Box("loops", 1, "FusedLoops\naccesses as linear offsets", "compiler", 0),
            Box("schedule", 1, "Schedule\naxes, lanes, grid", "compiler", 1),
            Box("emit", 2, "KernelEmitter\nstages, tiles, reductions", "compiler"),
            Box("kernel", 3, "tile.kernel\none program of a grid", "compiler", 0),
            Box("lang", 3, "tile language, Triton\nthe same dialect", "user", 1),
            Box("strip", 4, "StripMine\ntiles larger than registers become loops", "compiler"),
            Box("rows", 5, "codegen/cpu\nrows of vectors → LLVM IR", "compiler", 0),
            Box("gpu", 5, "codegen/gpu\nthreads → NVVM → PTX", "compiler", 1),
        ],
        [
            ("group", "loops", ""),
            ("group", "schedule", ""),
            ("loops", "schedule", ""),
            ("schedule", "emit", ""),
            ("emit", "kernel", ""),
            ("kernel", "strip", ""),
            ("lang", "strip", ""),
            ("strip", "rows", ""),
            ("strip", "gpu", ""),
        ],
    ),
    "gpu": Diagram(
        "A kernel on the GPU",
        [
            Box("rules", 0, "rules for common nests", "compiler", 0),
            Box("model", 0, "candidates, predicted", "compiler", 1),
            Box("schedule", 1, "schedule: tiles, threads, piece width", "compiler"),
            Box("layout", 2, "AssignLayouts\npieces of threads", "compiler", 0),
            Box("threads", 2, "ThreadLowering\nwork of one thread", "compiler", 1),
            Box("ptx", 3, "PTX", "compiler", 0),
            Box("cubin", 3, "cubin\nnvJitLink, ptxas or driver", "disk", 1),
            Box("launch", 4, "launch on torch's current stream", "runtime"),
        ],
        [
            ("rules", "schedule", ""),
            ("model", "schedule", "if 15% better"),
            ("schedule", "layout", ""),
            ("layout", "threads", ""),
            ("threads", "ptx", ""),
            ("ptx", "cubin", ""),
            ("cubin", "launch", ""),
        ],
    ),
    "frontend": Diagram(
        "The Python side of one compile",
        [
            Box("dynamo", 0, "graph of Dynamo", "torch"),
            Box("key", 1, "key of graph, inputs, options", "step", 0),
            Box("entry", 1, "AOTAutograd's result\nfrom disk", "disk", 1),
            Box("aot", 2, "AOTAutograd with our decompositions", "torch"),
            Box("passes", 3, "FX passes\nattention, epilogues, channels last, freezing", "step"),
            Box("text", 4, "text of the graph dialect", "runtime", 0),
            Box("disk", 4, "artifact from disk", "disk", 1),
            Box("program", 5, "program", "runtime"),
        ],
        [
            ("dynamo", "key", ""),
            ("key", "entry", ""),
            ("key", "aot", "not found"),
            ("aot", "passes", ""),
            ("passes", "text", ""),
            ("text", "disk", ""),
            ("text", "program", "compiled"),
            ("disk", "program", "found"),
        ],
    ),
    "runtime": Diagram(
        "One call of a compiled program",
        [
            Box("guards", 0, "Dynamo's guards", "torch"),
            Box("check", 1, "check inputs: dtype, sizes, strides, overlap", "runtime"),
            Box("sizes", 2, "evaluate sizes", "runtime"),
            Box("steps", 3, "next step", "runtime"),
            Box("alloc", 4, "allocate\nbuffer pool", "runtime", 0, 3),
            Box("launch", 4, "launch\nkernel", "runtime", 1, 3),
            Box("extern", 4, "call\nATen", "torch", 2, 3),
            Box("free", 5, "free buffers after their last use", "runtime"),
            Box("results", 6, "results", "user"),
        ],
        [
            ("guards", "check", ""),
            ("check", "sizes", ""),
            ("sizes", "steps", ""),
            ("steps", "alloc", ""),
            ("steps", "launch", ""),
            ("steps", "extern", ""),
            ("alloc", "free", ""),
            ("launch", "free", ""),
            ("extern", "free", ""),
            ("free", "results", ""),
        ],
        back=[("free", "steps")],
    ),
    "failures": Diagram(
        "A failure and its result",
        [
            Box("python", 0, "exception in\nPython", "step", 0, 3),
            Box("guard", 0, "LLVM error, abort,\ninvalid address", "compiler", 1, 3),
            Box("load", 0, "load or\nlink", "runtime", 2, 3),
            Box("contain", 1, "frontend/containment.py", "step"),
            Box("warn", 2, "one warning with a script; fallbacks + 1", "step", 0),
            Box("raise", 2, "strict: raise", "user", 1),
            Box("eager", 3, "the graph runs in eager mode", "torch"),
        ],
        [
            ("python", "contain", ""),
            ("guard", "contain", ""),
            ("load", "contain", ""),
            ("contain", "warn", ""),
            ("contain", "raise", ""),
            ("warn", "eager", ""),
        ],
    ),
    "observing": Diagram(
        "Observers of a compile",
        [
            Box("compile", 0, "a graph is compiled or loaded", "step"),
            Box("observe", 1, "debug/observe.py", "step"),
            Box("logs", 2, "TORCH_LOGS\nlogs.py", "torch", 0, 3),
            Box("trace", 2, "TORCH_TRACE\ntrace.py", "torch", 1, 3),
            Box("phases", 2, "phases, events\nphases.py", "torch", 2, 3),
        ],
        [
            ("compile", "observe", ""),
            ("observe", "logs", ""),
            ("observe", "trace", ""),
            ("observe", "phases", ""),
        ],
    ),
    "extending": Diagram(
        "Where an extension goes",
        [
            Box("op", 0, "operator", "goal", 0, 3),
            Box("pass", 0, "pass", "goal", 1, 3),
            Box("lang", 0, "language function", "goal", 2, 3),
            Box("td", 1, "graph/ir\nPointwiseOps.td", "compiler", 0, 3),
            Box("ptd", 1, "Passes.td,\nPass.cpp", "compiler", 1, 3),
            Box("lops", 1, "language/ops", "step", 2, 3),
            Box("import", 2, "runtime/fx\nOpTable.cpp", "runtime", 0, 3),
            Box("pipe", 2, "pipeline", "compiler", 1, 3),
            Box("init", 2, "language/\n__init__.py", "step", 2, 3),
            Box("cases", 3, "tests/ops", "test", 0, 3),
            Box("lit", 3, "tests/lit", "test", 1, 3),
            Box("tl", 3, "tests/language", "test", 2, 3),
        ],
        [
            ("op", "td", ""),
            ("td", "import", ""),
            ("import", "cases", ""),
            ("pass", "ptd", ""),
            ("ptd", "pipe", ""),
            ("pipe", "lit", ""),
            ("lang", "lops", ""),
            ("lops", "init", ""),
            ("init", "tl", ""),
        ],
    ),
    "glossary": Diagram(
        "Grid, programs, tiles",
        [
            Box("launch", 0, "launch of a kernel over a grid", "runtime"),
            Box("p0", 1, "program 0", "compiler", 0, 3),
            Box("p1", 1, "program 1", "compiler", 1, 3),
            Box("p2", 1, "program 2 ...", "compiler", 2, 3),
            Box("tile", 2, "tile: 4 x 64 elements", "compiler"),
            Box("row0", 3, "row: 64 lanes", "compiler", 0),
            Box("row1", 3, "row: 64 lanes ...", "compiler", 1),
        ],
        [
            ("launch", "p0", ""),
            ("launch", "p1", ""),
            ("launch", "p2", ""),
            ("p1", "tile", "computes with"),
            ("tile", "row0", ""),
            ("tile", "row1", ""),
        ],
    ),
    "languages": Diagram(
        "Three ways to the tile dialect",
        [
            Box("graph", 0, "graph of\ntorch.compile", "torch", 0, 3),
            Box("jit", 0, "@torch_tile.jit", "user", 1, 3),
            Box("triton", 0, "@triton.jit", "user", 2, 3),
            Box("fusion", 1, "fusion,\ntile building", "compiler", 0, 3),
            Box("tracer", 1, "tracer, or\ninterpreter", "step", 1, 3),
            Box("import", 1, "Triton's IR,\nImportTriton", "compiler", 2, 3),
            Box("tile", 2, "tile dialect", "compiler"),
            Box("code", 3, "codegen/cpu, codegen/gpu", "compiler"),
        ],
        [
            ("graph", "fusion", ""),
            ("jit", "tracer", ""),
            ("triton", "import", ""),
            ("fusion", "tile", ""),
            ("tracer", "tile", ""),
            ("import", "tile", ""),
            ("tile", "code", ""),
        ],
    ),
}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, diagram in DIAGRAMS.items():
        (folder / f"diagram-{name}.svg").write_text(draw(diagram), encoding="utf-8")


if __name__ == "__main__":
    main()
