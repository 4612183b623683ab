"""What the compiler makes of a few graphs, word for word: fusion decisions and kernels in the tile dialect.

A change of these files is a change of what users' models run; it belongs into the commit that causes it, where a
reviewer sees it. `.ci/update_golden.sh [filter]` rewrites them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from torch_tile import targets
from torch_tile.debug import record

FOLDER = Path(__file__).parent
# One processor for all machines: kernels are compiled, not run.
TARGET = "x86-64-v4"


def _bias_gelu_residual(x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + bias) + residual


def _norm_residual(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Any:
    hidden = (x + residual).float()
    scale = torch.rsqrt(hidden.square().mean(-1, keepdim=True) + 1e-6)
    return (hidden * scale).bfloat16() * weight, x + residual


def _rotary(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    q = q.view(2, 16, 4, 32).transpose(1, 2)
    rotated = torch.cat((-q[..., 16:], q[..., :16]), -1)
    return q * cos + rotated * sin


def _views(x: torch.Tensor) -> torch.Tensor:
    return x.view(6, 4, 10).permute(2, 0, 1).reshape(20, 12)[1::2].flip(0) + 1


def _cases() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    f32, bf16 = torch.float32, torch.bfloat16
    return {
        "bias_gelu_residual": (
            _bias_gelu_residual,
            (torch.empty(64, 256, dtype=bf16), torch.empty(256, dtype=bf16), torch.empty(64, 256, dtype=bf16)),
        ),
        "softmax": (lambda x: torch.softmax(x, -1), (torch.empty(64, 1000),)),
        "layer_norm": (
            lambda x, w, b: F.layer_norm(x, (512,), w, b),
            (torch.empty(64, 512), torch.empty(512), torch.empty(512)),
        ),
        "norm_residual": (
            _norm_residual,
            (torch.empty(8, 128, dtype=bf16), torch.empty(8, 128, dtype=bf16), torch.empty(128, dtype=bf16)),
        ),
        "column_sum": (lambda x: x.sum(0), (torch.empty(4096, 128),)),
        "full_sum": (lambda x: x.sum(), (torch.empty(1 << 20),)),
        "transposed_add": (lambda x, y: x + y.t(), (torch.empty(256, 256), torch.empty(256, 256))),
        "cross_entropy": (
            lambda x, t: F.cross_entropy(x, t),
            (torch.empty(32, 1000), torch.empty(32, dtype=torch.int64)),
        ),
        "rotary": (_rotary, (torch.empty(2, 16, 128), torch.empty(16, 32), torch.empty(16, 32))),
        "views": (_views, (torch.empty(240),)),
        "embedding": (
            lambda w, i: F.embedding(i, w) * 2,
            (torch.empty(100, 64, dtype=f32), torch.empty(4, 8, dtype=torch.int64)),
        ),
    }


CASES = _cases()


@pytest.fixture(autouse=True)
def any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that are not run may have instructions that this processor lacks."""
    monkeypatch.setattr(targets, "check_processor", lambda name: None)


def dump(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Decisions and kernels of the graph, which is compiled and not run."""
    stages: dict[str, str] = {}

    def keep(graph: Any, *rest: Any) -> None:
        stages.update(graph.stages)

    original = record._KEPT_STAGES
    record._KEPT_STAGES = ("20-fusion.txt", "30-tile.mlir")
    try:
        with record.recording() as graphs, torch.no_grad(), _not_run():
            torch.compile(function, backend="tile", options={"target": TARGET, "cache": False}, dynamic=False)(*args)
    finally:
        record._KEPT_STAGES = original
    for graph in graphs:
        keep(graph)
    return f"// fusion\n{stages['20-fusion.txt'].strip()}\n\n{stages['30-tile.mlir'].strip()}\n"


class _not_run:
    """Inside, compiled graphs return empty outputs: the target may not be this machine's."""

    def __enter__(self) -> None:
        from torch_tile.frontend import aot

        self.original = aot.compile_graph

        def compile_only(gm: Any, inputs: Any, kind: str, settings: Any) -> Any:
            self.original(gm, inputs, kind, settings)
            outputs = [n.meta["val"] for n in gm.graph.output_node().all_input_nodes]

            def run(arguments: list[Any]) -> list[torch.Tensor]:
                arguments.clear()
                return [torch.empty_strided(o.size(), o.stride(), dtype=o.dtype) for o in outputs]

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        aot.compile_graph = compile_only

    def __exit__(self, *exception: Any) -> None:
        from torch_tile.frontend import aot

        aot.compile_graph = self.original


@pytest.mark.golden
@pytest.mark.parametrize("name", sorted(CASES))
def test_golden(name: str) -> None:
    text = dump(*CASES[name])
    file = FOLDER / f"{name}.expected"
    if os.environ.get("TORCH_TILE_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), f"{file.name} differs; .ci/update_golden.sh {name} rewrites it"


# Divisions left in index arithmetic: each costs tens of cycles where it is in a loop.
@pytest.mark.golden
@pytest.mark.parametrize("name", sorted(CASES))
def test_no_division_is_left(name: str) -> None:
    text = dump(*CASES[name])
    assert text.count("arith.divsi") + text.count("arith.remsi") + text.count("arith.floordivsi") == 0
