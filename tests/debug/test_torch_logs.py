"""TORCH_LOGS and TORCH_TRACE: what torch's own switches show of backend tile."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_tile.debug import logs, phases, steps, trace

SCRIPT = """
import torch

def f(x, w):
    y = torch.softmax(x @ w, -1)
    z = torch.sort(y)[0]
    torch._dynamo.graph_break()
    return (z * 2).t().clone(memory_format=torch.contiguous_format)

compiled = torch.compile(f, backend="tile", dynamic=False)
for rows in (8, 16):
    x, w = torch.randn(rows, 8), torch.randn(8, 8, requires_grad=True)
    torch.testing.assert_close(compiled(x, w), f(x, w))
    compiled(x, w).sum().backward()
"""


class Traced:
    """One run of the script: what it logs, and its structured entries."""

    def __init__(self, folder: Path, logs: str) -> None:
        (folder / "script.py").write_text(SCRIPT)
        environment = {
            **os.environ,
            "TORCH_LOGS": logs,
            "TORCH_TRACE": str(folder / "trace"),
            "TORCH_TILE_CACHE_DIR": str(folder / "cache"),
        }
        environment.pop("TORCH_COMPILE_DEBUG", None)
        done = subprocess.run(
            [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.text = done.stderr
        self.entries: list[tuple[dict[str, Any], str]] = []
        for file in sorted((folder / "trace").glob("*.log"), key=lambda file: file.stat().st_mtime)[-1:]:
            self._read(file.read_text())

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            if line.startswith("\t"):
                metadata, payload = self.entries[-1]
                self.entries[-1] = (metadata, payload + line[1:] + "\n")
            else:
                self.entries.append((json.loads(line.partition("] ")[2]), ""))

    def artifact(self, name: str) -> list[str]:
        """The logged lines of one artifact."""
        return [line.partition(f"[__{name}] ")[2] for line in self.text.splitlines() if f"[__{name}] " in line]

    def payloads(self, name: str) -> list[str]:
        return [text for metadata, text in self.entries if metadata.get("artifact", {}).get("name") == name]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(text) for metadata, text in self.entries if "chromium_event" in metadata]

    def metrics(self) -> list[dict[str, Any]]:
        return [m["compilation_metrics"] for m, _ in self.entries if "compilation_metrics" in m]


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return Traced(tmp_path_factory.mktemp("logs"), "output_code,fusion,schedule,perf_hints,recompiles")


def test_artifacts_have_our_content(cold: Traced) -> None:
    code = "\n".join(cold.artifact("output_code"))
    assert "tile.kernel @fused_amax_sub_exp_sum_div(" in code and "extern aten::sort" in code
    fusion = "\n".join(cold.artifact("fusion"))
    assert re.search(r"\d+ fused, \d+ not", fusion)
    assert re.search(r"no  inline line \d+ with line \d+: 2 uses and too much to compute again", fusion)
    assert re.search(r"line \d+: %\d+ = graph\.exp .*script\.py:5: y = torch\.softmax", fusion)
    schedule = "\n".join(cold.artifact("schedule"))
    assert re.search(r"fused_amax_sub_exp_sum_div: predicted \d+\.\d us, \d+ bytes; axes \[i0 = 8", schedule)
    hints = "\n".join(cold.artifact("perf_hints"))
    assert re.search(r"call outside: aten::sort \(library call \(sorting\)\); .*script\.py:6: z = torch\.sort", hints)
    assert re.search(r"graph break: .*graph_break", hints)
    recompiles = "\n".join(cold.artifact("recompiles"))
    assert re.search(
        r"compiled again as \[\d+/1\] in [\d.]+ ms \(compiled\): \d+ kernels, \d+ of them as before", recompiles
    )


def test_stages_and_provenance_are_structured_entries(cold: Traced) -> None:
    graphs = [json.loads(text) for text in cold.payloads("tile_kernels")]
    assert len(graphs) >= 4
    names = [kernel["name"] for graph in graphs for kernel in graph["kernels"]]
    assert "fused_amax_sub_exp_sum_div" in names
    for name in ("tile_program", "tile_fx", "tile_graph", "tile_kernel_ir", "tile_llvm_ir", "tile_assembly"):
        assert len(cold.payloads(name)) == len(graphs), name
    softmax = json.loads(cold.payloads("tile_provenance")[0])
    assert softmax["kernels"]["fused_amax_sub_exp_sum_div"]["sources"][0].endswith("y = torch.softmax(x @ w, -1)")
    assert softmax["nodes"]["exp"] == ["fused_amax_sub_exp_sum_div"]


def test_phases_are_on_the_timeline(cold: Traced) -> None:
    events = cold.events()
    for name in ("torch_tile.passes", "torch_tile.import", "torch_tile.compile", "torch_tile.codegen"):
        begins = [event["ts"] for event in events if event["name"] == name and event["ph"] == "B"]
        ends = [event["ts"] for event in events if event["name"] == name and event["ph"] == "E"]
        assert begins and len(begins) == len(ends), name
        assert all(begin <= end for begin, end in zip(begins, ends, strict=True))
    misses = [event for event in events if event["name"] == "tile_graph_cache_miss"]
    assert misses and misses[0]["args"]["kernels"] >= 1
    assert sum(metrics["inductor_fx_local_cache_miss_count"] for metrics in cold.metrics()) >= 2
    assert all((metrics["inductor_cumulative_compile_time_us"] or 1) > 0 for metrics in cold.metrics())


def test_a_warm_start_shows_hits_and_is_not_compiled_for_the_trace(cold: Traced, tmp_path: Path) -> None:
    Traced(tmp_path, "+torch_tile.frontend")
    warm = Traced(tmp_path, "+torch_tile.frontend")
    assert "torch_tile/frontend/reload.py" in warm.text and ", disk in " in warm.text
    names = {event["name"] for event in warm.events()}
    assert {"tile_graph_cache_hit", "tile_autograd_cache_hit"} <= names
    assert "tile_graph_cache_miss" not in names
    # What the artifact knows is there; what only a compile makes is not.
    assert warm.payloads("tile_kernels") and warm.payloads("tile_program") and not warm.payloads("tile_llvm_ir")
    assert sum(metrics["aotautograd_local_cache_hit_count"] for metrics in warm.metrics()) >= 2


def test_logs_do_without_torchs_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch's private parts change, a plain logger takes their place, and nothing fails."""
    import torch._logging._internal as internal

    monkeypatch.setattr(logs, "_loggers", {})
    monkeypatch.delattr(internal, "log_registry")
    assert not logs.is_enabled()
    assert logs._logger("fusion").name == "torch_tile.fusion"
    logs._logger("fusion").setLevel(logging.DEBUG)
    try:
        assert logs.needs_stages()
    finally:
        logs._logger("fusion").setLevel(logging.NOTSET)


def test_a_watcher_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise KeyError("changed in torch")

    torchs = torch._dynamo.utils.dynamo_timed
    monkeypatch.setattr(
        "torch._dynamo.utils.dynamo_timed",
        lambda name, **options: fails() if name.startswith("torch_tile") else torchs(name, **options),
    )
    monkeypatch.setattr("torch._dynamo.utils.CompileEventLogger.instant", fails)
    monkeypatch.setattr(trace, "describe", fails)
    torch.compiler.reset()
    x = torch.randn(5, 3)
    with trace.collecting() as collector:
        result = torch.compile(lambda x: (x * 3).sum(0), backend="tile", options={"strict": True})(x)
    torch.testing.assert_close(result, (x * 3).sum(0))
    assert not [m for m, _ in collector.entries if m.get("artifact", {}).get("name") == "tile_kernels"]


def test_an_error_in_a_phase_goes_through_it() -> None:
    with pytest.raises(ValueError, match="within"), phases.timed("torch_tile.test"):
        raise ValueError("within")


LISTING = """target cpu, 9 slots
symbol s0 = size 0 of input 0
input 0: %0 f32 [s0, 64] strides [64, 1]
input 1: %1 bf16 [64] strides [1]
input 2: int
kernel 0: fused_add 3b3343262a7f (cpu, 2968 bytes)
  %2 = alloc f32 [8, 64] strides [64, 1]  // line 3, 4
  launch fused_add(%0, %1, %2; s0, s0*2) programs 2, ns each 100, scratch 0, moves 4096 bytes, writes %2  // line 3, 4
  %3 = alias %2 [64, 8] strides [1, 64] offset 0
  %4 [64, 8], _ = extern aten::sort(%3, -1, false)  // line 5
  launch fused_add(%1, %0) programs s0, ns each 5, scratch 0, moves s0*8 bytes, writes %0  // line 6
  %5 [] = pycall 0(%4, [%2])  // line 6
  free %3
return %5, %4, none
"""
GRAPH = """a
b
c
d
  %4:2 = graph.extern(%3) : (!graph.tensor<[64, 8], f32>) -> (!graph.tensor<[64, 8], f32>, !graph.tensor<[64, 8], i64>)
  %5 = graph.pycall(%4) : (!graph.tensor<[64, 8], f32>) -> !graph.tensor<[], f32>
"""


def test_listing_of_a_program_as_data() -> None:
    program = steps.parse(LISTING, GRAPH)
    assert [(s.kind, s.name) for s in program.steps] == [
        ("kernel", "fused_add"), ("call", "aten::sort"), ("kernel", "fused_add"), ("python", "0")
    ]  # fmt: skip
    first, sort, second, python = program.steps
    assert (first.reads, first.writes, first.predicted_ns, first.bytes_moved) == ([0, 1], [2], 200, 4096)
    assert sort.reads == [2] and sort.writes == [4]  # through the view
    assert (second.reads, second.writes, second.predicted_ns, second.bytes_moved) == ([1, 0], [0], None, None)
    assert python.reads == [4, 2] and python.writes == [5]
    assert program.values[0].bytes is None and program.values[1].bytes == 128 and program.values[2].bytes == 2048
    assert str(program.values[4]) == "f32[64, 8]" and program.values[5].bytes == 4
    assert program.values[4].is_output and not program.values[2].is_output
