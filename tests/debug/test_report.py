"""The report: repeats, layout, pictures, and the page of a small training script."""

from __future__ import annotations

import html
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

from torch_tile.debug.report import entries, layout, page, picture, timeline
from torch_tile.debug.report.repeats import Segment, segments
from torch_tile.errors import TileError

SCRIPT = """
import sys
import torch

assert sys.argv[1:] == ["3"]

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.second = torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        return x + self.second(torch.nn.functional.gelu(self.first(self.norm(x))))

model = torch.nn.Sequential(*(Layer() for _ in range(5)))
step = torch.compile(model, backend="tile", dynamic=False)
for _ in range(int(sys.argv[1])):
    step(torch.randn(16, 32)).sum().backward()
sys.exit(0)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report by the command line, as a user makes it."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "torch_tile", "report", "train.py", "3", "-o", "out.html"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"out\.html: 2 graphs, 0\.\d+ MB", done.stdout)
    return folder


def test_page_stands_alone_and_shows_all(report: Path) -> None:
    text = (report / "out.html").read_text()
    assert len(text) < 5_000_000
    # Nothing is fetched: no address but that of the SVG name space.
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)\b|@import|src=", text)
    for heading in ("One call", "Compile", "Graph", "Kernels", "Calls outside", "Fusion decisions", "Caches"):
        assert f"<h2>{heading}</h2>" in text
    assert "train.py:13" in text  # a source line beside its kernel
    assert re.search(r"\N{MULTIPLICATION SIGN} \d", text)  # equal layers, once
    assert "aten::addmm" in text and "torch_tile.partition" in text
    assert text.count('class="of-graph"') == 2
    assert "No call was profiled" not in text and "not fused" in text
    assert "<td>bypass</td>" in text and "cache hits" not in text  # the stages come from compiling again
    for stage in ("FX graph", "graph dialect", "fusion group", "tile dialect", "LLVM IR", "assembly"):
        assert f'["{stage}",' in text


def test_pictures_in_the_page_are_xml(report: Path) -> None:
    drawn = re.findall(r"<svg.*?</svg>", (report / "out.html").read_text(), re.DOTALL)
    assert len(drawn) == 4  # each graph with its layers once, and with all of them
    for text in drawn:
        xml.fromstring(text)
    assert len(drawn[0]) < len(drawn[1])


BROWSERS = ("chromium", "chromium-browser", "google-chrome")

CLICKS = """
<script>
addEventListener("load", async () => {
  const graph = document.querySelector(".of-graph");
  const panel = graph.querySelector("div.panel");
  graph.querySelector(".box.kernel").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const title = panel.querySelector("h3").textContent;
  graph.querySelectorAll("tr[data-kernel]")[1].click();
  panel.querySelector("summary").click();
  await new Promise((done) => setTimeout(done, 300));
  const said = {
    boxes: graph.querySelectorAll(".box rect.whole").length, shown: !panel.hidden, title,
    chosen: panel.querySelector("h3").textContent, source: panel.querySelector(".sources").textContent,
    panes: [...panel.querySelectorAll("pre")].map((pre) => pre.textContent.length > 20),
    wide: document.documentElement.scrollWidth > innerWidth,
  };
  document.documentElement.dataset.said = JSON.stringify(said);
});
</script>
"""


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no browser")
def test_kernels_open_in_a_browser(report: Path) -> None:
    text = (report / "out.html").read_text()
    (report / "clicks.html").write_text(text.replace("</body>", CLICKS + "</body>"))
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={report / 'profile'}",
         "--window-size=500,900", "--virtual-time-budget=5000", "--dump-dom", (report / "clicks.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    match = re.search(r'<html[^>]* data-said="([^"]*)"', done.stdout)
    assert match, done.stdout[:500] + done.stderr
    said = json.loads(html.unescape(match[1]))
    first, second = re.findall(r'<tr data-kernel="\d+".*?<td class="mono">(.*?)<', text.replace("<wbr>", ""))[:2]
    drawn = re.findall(r"<svg.*?</svg>", text, re.DOTALL)[:2]
    assert said["boxes"] == sum(svg.count('<g class="box ') for svg in drawn)  # none lost by a click
    assert said["shown"] and said["title"] == first and said["chosen"] == second
    assert "train.py:13" in said["source"] and said["panes"] == [True, True] and not said["wide"]


def test_a_folder_without_a_trace_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TileError, match="run the program with TORCH_TRACE="):
        entries.newest(tmp_path)


def test_repeats() -> None:
    assert segments("xabcabcabcy") == [Segment(0, 1, 1), Segment(1, 3, 3), Segment(10, 1, 1)]
    assert segments("abcd") == [Segment(0, 4, 1)]
    assert segments("") == []
    # It may begin at any of three places; the cost decides.
    assert segments("xabcabcaby", cost=lambda i: 0 if i == 2 else 1)[1] == Segment(2, 3, 2)
    for seed in range(50):
        rng = random.Random(seed)
        items = "".join(rng.choice("ab") for _ in range(rng.randrange(20)))
        found = segments(items)
        assert "".join(items[s.start : s.start + s.period] * s.count for s in found) == items


def _random_graph(seed: int) -> tuple[list[tuple[float, float]], list[layout.Flow], list[list[int]]]:
    rng = random.Random(seed)
    count = rng.randrange(1, 40)
    sizes = [(rng.uniform(40, 240), rng.uniform(20, 60)) for _ in range(count)]
    flows = []
    for producer in range(count - 1):
        for _ in range(rng.randrange(3)):
            consumers = rng.sample(range(producer + 1, count), rng.randrange(1, min(4, count - producer)))
            flows.append(layout.Flow(producer, consumers, rng.uniform(20, 80)))
    cut = rng.randrange(count + 1)
    return sizes, flows, [list(range(cut)), list(range(cut, count))]


@pytest.mark.parametrize("seed", range(25))
def test_nothing_overlaps_and_flows_go_down(seed: int) -> None:
    sizes, flows, bands = _random_graph(seed)
    drawing = layout.draw(sizes, flows, bands, 14.0, headers=[1])
    texts = [cell for cell in drawing.cells if not cell.is_passage]
    for a, b in itertools.combinations(texts, 2):
        apart_x = abs(a.x - b.x) >= (a.width + b.width) / 2 - 0.01
        apart_y = abs(a.y - b.y) >= (a.height + b.height) / 2 - 0.01
        assert apart_x or apart_y
    for cell in drawing.cells:
        assert all(drawing.cells[lower].row == cell.row + 1 for lower in cell.below)
        assert cell.x - cell.width / 2 >= -0.01 and cell.x + cell.width / 2 <= drawing.width + 0.01
    place = {cell.node: cell for cell in texts if cell.node is not None}
    for flow in flows:
        assert all(place[flow.producer].y < place[consumer].y for consumer in flow.consumers)
    if all(bands):
        assert max(place[n].y for n in bands[0]) < min(place[n].y for n in bands[1])


def _graph(layers: int) -> dict[str, Any]:
    """A chain of layers, each a kernel and a call, with a residual around them."""
    values = {0: {"text": "f32[8]", "bytes": 32, "input": True, "output": False}}
    steps = []
    for k in range(layers):
        x, hidden, out = 2 * k, 2 * k + 1, 2 * k + 2
        values |= {s: {"text": "f32[8]", "bytes": 32, "input": False, "output": False} for s in (hidden, out)}
        steps.append({"kind": "kernel", "name": "fused_<norm>", "reads": [x], "writes": [hidden], "bytes_moved": 64,
                      "predicted_ns": 1500, "lines": []})  # fmt: skip
        steps.append({"kind": "call", "name": "aten::add.Tensor", "reads": [hidden, x], "writes": [out],
                      "bytes_moved": 96, "predicted_ns": None, "lines": []})  # fmt: skip
    return {
        "graph": "g",
        "kind": "inference",
        "program": {"values": values, "steps": steps},
        "kernels": [],
        "texts": {},
    }


def test_picture_draws_equal_layers_once() -> None:
    folded, whole = picture.Picture(_graph(12)), picture.Picture(_graph(12), collapse=False)
    assert len(folded.boxes) == 2 and len(whole.boxes) == 24
    assert folded.title_of(folded.parts[0]) == "\N{MULTIPLICATION SIGN} 12, each hands 32 B to the next"
    text = folded.svg(is_file=True)
    xml.fromstring(text)
    assert "&lt;norm&gt;" in text and "prefers-color-scheme: dark" in text
    assert picture.Picture(_graph(0)).svg()
    assert len(folded.only(folded.parts[0]).boxes) == 2


def test_times_of_steps_follow_their_order() -> None:
    spans = [
        entries.Span("fused_<norm>", 0, 2, lane="kernel"), entries.Span("aten::add", 2, 3, lane="call"),
        entries.Span("fused_<norm>", 5, 9, lane="kernel"), entries.Span("aten::add", 9, 10, 1),
    ]  # fmt: skip
    trace = entries.Trace(graphs=[_graph(2)], call=spans)
    # The second addition is within something else: one event for two steps is their mean.
    assert trace.times() == [{0: 2000.0, 1: 1000.0, 2: 4000.0, 3: 1000.0}]


def test_equal_kernels_share_a_measurement() -> None:
    graph = _graph(2)
    names = ("fused_<norm>", "fused_<norm>_1")
    graph["program"]["steps"][2]["name"] = names[1]
    graph["kernels"] = [{"name": name, "hash": "a"} for name in names]
    spans = [entries.Span(names[0], 0, 2, lane="kernel"), entries.Span(names[0], 5, 9, lane="kernel")]
    assert entries.Trace(graphs=[graph], call=spans).times() == [{0: 2000.0, 2: 4000.0}]


def test_page_without_a_call_or_phases() -> None:
    text = page.write_page(entries.Trace("a </script> title", graphs=[{**_graph(2), "outside": [], "compile_ms": 1.0}]))
    assert "No call was profiled" in text and "a &lt;/script&gt; title" in text
    assert text.count("</script>") == 2


def test_hits_are_of_the_caches_that_were_asked() -> None:
    caches = [{"cache": "graph", "state": state, "graph": "g"} for state in ("hit", "miss", "bypass")]
    text = page.write_page(entries.Trace(caches=caches))
    assert "<b>1 of 2</b><span>cache hits</span>" in text and "the cache was not asked" in text


def test_timeline_leaves_out_long_pauses() -> None:
    spans = [entries.Span("a", 0, 100), entries.Span("b", 10, 90, 1), entries.Span("c", 10_100, 10_200)]
    moved, gaps = timeline._without_gaps(spans)
    assert len(gaps) == 1 and moved[1].begin == 10
    assert 100 < moved[2].begin < 110 and moved[2].end - moved[2].begin == 100
