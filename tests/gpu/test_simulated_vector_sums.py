"""Weighted sums of vectors of a few components, as kernels for a GPU make them, run on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import beside_eager, compile_for_gpu

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

Case = tuple[Callable[..., Any], list[torch.Tensor]]


def heavy(x: torch.Tensor) -> torch.Tensor:
    """Weights that nobody would compute for each component."""
    return torch.exp(-x.abs()) / (1 + torch.sin(x).square()) / torch.sqrt(1 + x * x)


def forces(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (heavy(x)[..., None] * y).sum(1)


def two_sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As of a force and a drag, which are added."""
    w, v = heavy(x), heavy(x + 1)
    return (w[..., None] * y).sum(1) + 0.1 * (v[..., None] * y.square()).sum(1)


def read_elsewhere(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    w = heavy(x)
    return (w[..., None] * y).sum(1), w


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = (heavy(x)[..., None] * y).sum(1)
    total[:, 1].mul_(2)
    return total + 1


def nearest(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (heavy(x)[..., None] * y).max(1)


CASES: dict[str, Callable[[], Case]] = {
    "forces": lambda: (forces, [torch.randn(2101, 509), torch.randn(2101, 509, 3)]),
    "pairs": lambda: (forces, [torch.randn(2101, 509), torch.randn(2101, 509, 2)]),
    "components first": lambda: (
        lambda x, y: (heavy(x) * y).sum(2),
        [torch.randn(2101, 509), torch.randn(4, 2101, 509)],
    ),
    "half precision": lambda: (
        lambda x, y: (heavy(x)[..., None] * y).sum(1).to(torch.float16),
        [torch.randn(2101, 509), torch.randn(2101, 509, 3).half()],
    ),
    "kept dimensions": lambda: (
        lambda x, y: (heavy(x)[..., None] * y).mean(1, keepdim=True).transpose(0, 2),
        [torch.randn(2101, 509), torch.randn(2101, 509, 3)],
    ),
    "two sums": lambda: (two_sums, [torch.randn(2101, 509), torch.randn(2101, 509, 3)]),
    "weights that are a result": lambda: (read_elsewhere, [torch.randn(2101, 509), torch.randn(2101, 509, 3)]),
    "sums that are written": lambda: (written, [torch.randn(2101, 509), torch.randn(2101, 509, 3)]),
    "values and places": lambda: (nearest, [torch.randn(2101, 509), torch.randn(2101, 509, 3)]),
    "places": lambda: (
        lambda x, y: (heavy(x)[..., None] * y).argmin(1),
        [torch.randn(2101, 509), torch.randn(2101, 509, 3)],
    ),
    "variances": lambda: (
        lambda x, y: (heavy(x)[..., None] * y).var(1),
        [torch.randn(2101, 509), torch.randn(2101, 509, 3)],
    ),
    "columns": lambda: (
        lambda x, y: (heavy(x)[..., None] * y).sum(0),
        [torch.randn(509, 2101), torch.randn(509, 2101, 3)],
    ),
    "over two": lambda: (
        lambda x, y: (heavy(x)[..., None] * y).sum((1, 2)),
        [torch.randn(601, 43, 41), torch.randn(601, 43, 41, 3)],
    ),
    "one vector for all": lambda: (
        lambda x, y: (heavy(x)[..., None] * y).sum((0, 1)),
        [torch.randn(2101, 509), torch.randn(2101, 509, 3)],
    ),
}


# With the weights in registers; of a variance, whose second pass reads the mean, the weights are in memory.
KERNELS = {"forces": 1, "components first": 1, "places": 1, "over two": 1, "variances": 2}


@pytest.mark.parametrize("name", CASES)
def test_results_equal_eager(name: str) -> None:
    torch.manual_seed(0)
    f, arguments = CASES[name]()
    files = compile_for_gpu(f, *arguments)
    if name in KERNELS:
        assert files["30-tile.mlir"].count("tile.kernel @") == KERNELS[name]
    found, expected = beside_eager(f, files, arguments)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3 if other.dtype == torch.float16 else 1e-4, atol=2e-4)
        assert one.stride() == other.stride()
