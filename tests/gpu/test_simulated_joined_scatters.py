"""Scatters that share a kernel, and copies of what many points update, compiled for a GPU and run on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, beside_eager, compile_for_gpu, in_order
from tests.gpu.test_simulated_sums_by_index import below

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

Case = tuple[Callable[..., Any], list[torch.Tensor]]


def calibration(confidence: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    place = (confidence * 15).long().clamp(max=14)
    zeros = confidence.new_zeros(15)
    count = zeros.index_add(0, place, torch.ones_like(confidence))
    sure = zeros.index_add(0, place, confidence)
    share = zeros.index_add(0, place, right)
    return ((sure - share).abs() / count.clamp(min=1)).sum()


def to_grid(grid: torch.Tensor, position: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    cell = position.floor()
    part = position - cell
    cell = cell.long()
    for dx in (0, 1):
        for dy in (0, 1):
            weight = (part[:, 0] if dx else 1 - part[:, 0]) * (part[:, 1] if dy else 1 - part[:, 1])
            grid = grid.index_put((cell[:, 0] + dx, cell[:, 1] + dy), mass * weight, accumulate=True)
    return grid


def updating(files: dict[str, str]) -> int:
    """Kernels with atomic updates."""
    return sum("tile.atomic_rmw" in kernel for kernel in files["30-tile.mlir"].split("tile.kernel ")[1:])


CASES: dict[str, tuple[Callable[[], Case], int]] = {
    "three sums over the same points": (lambda: (calibration, [torch.rand(999), torch.rand(999).round()]), 1),
    "one after another into one grid": (
        lambda: (to_grid, [torch.rand(9, 11), torch.rand(500, 2) * torch.tensor([7.9, 9.9]), torch.rand(500)]),
        1,
    ),
    "a sum and what it adds": (
        lambda: (
            lambda x, i, v: (x.index_add(0, i, v.relu() * 2), v.relu() * 2),
            [torch.randn(20, 33), below(20, 70), torch.randn(70, 33)],
        ),
        1,
    ),
    "a sum of a maximum's differences": (  # which needs the whole maximum
        lambda: (
            lambda x, i, v: x.index_add(0, i, v - x.scatter_reduce(0, i, v, "amax")[i]),
            [torch.randn(20), below(20, 70), torch.randn(70)],
        ),
        2,
    ),
    "a maximum and a sum of the same elements": (  # in this order
        lambda: (
            lambda x, i, v: x.scatter_reduce(0, i, v, "amax").scatter_add(0, i, v * 0.5),
            [torch.randn(20), below(20, 70), torch.randn(70)],
        ),
        2,
    ),
    "a maximum and a minimum": (
        lambda: (
            lambda x, i, v: (x.scatter_reduce(0, i, v, "amax"), x.scatter_reduce(0, i, v, "amin")),
            [torch.randn(20), below(20, 70), torch.randn(70)],
        ),
        1,
    ),
    "sums over other points": (
        lambda: (
            lambda x, i, v, j: (x.index_add(0, i, v), x.index_add(0, j, v[:50])),
            [torch.randn(20), below(20, 70), torch.randn(70), below(20, 50)],
        ),
        2,
    ),
    "what is written and then read": (
        lambda: (
            lambda x, i, v: x.scatter_add(0, i, v) + v,
            [torch.randn(70), below(70, 70), torch.randn(70)],
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_kernels(name: str) -> None:
    torch.manual_seed(0)
    make, count = CASES[name]
    f, arguments = make()
    files = compile_for_gpu(f, *arguments)
    assert updating(files) == count, files["20-fusion.txt"]
    before = [argument.clone() for argument in arguments]
    found, expected = beside_eager(f, files, arguments)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for argument, old in zip(arguments, before, strict=True):
        assert torch.equal(argument, old)


def test_dynamic_numbers_of_points() -> None:
    def f(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.index_add(0, i, v), x.scatter_reduce(0, i, v * 2, "amax")

    files = compile_for_gpu(f, torch.zeros(9), below(9, 50), torch.ones(50), dynamic=True)
    assert updating(files) == 1
    graph = SimulatedGraph(files)
    for count in (1, 7, 50, 301):
        x, i, v = torch.randn(9), below(9, count), torch.randn(count)
        torch.testing.assert_close(graph.run(x, i, v), f(x, i, v), rtol=1e-4, atol=1e-5)


def test_a_sum_that_an_input_receives() -> None:
    """The input is written where the copy would be, by scatters that share a kernel."""

    def f(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x.index_add_(0, i, v)
        x.index_add_(0, i, v * v)
        return x.sum()

    torch.manual_seed(0)
    x, i, v = torch.randn(20), below(20, 300), torch.randn(300)
    files = compile_for_gpu(f, x, i, v)
    assert updating(files) == 1
    expected, given = x.clone(), x.clone()
    total = f(expected, i, v)
    found = SimulatedGraph(files).run(given, i, v)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[-1], total, rtol=1e-4, atol=1e-4)


COPIES: dict[str, Callable[[], Case]] = {
    "a histogram": lambda: (
        lambda x: x.new_zeros(16).index_add(0, (x * 16).long(), torch.ones_like(x)),
        [torch.rand(70001)],
    ),
    "what was there": lambda: (
        lambda h, i, v: h.index_add(0, i, v),
        [torch.rand(5), below(5, 40000), torch.rand(40000)],
    ),
    "rows": lambda: (
        lambda h, i, v: h.index_add(0, i, v),
        [torch.rand(2, 24), below(2, 9000), torch.rand(9000, 24)],
    ),
    "a histogram of each row": lambda: (
        lambda h, i, v: h.scatter_add(1, i, v),
        [torch.rand(3, 4), below(4, 3, 20000), torch.rand(3, 20000)],
    ),
    "maxima": lambda: (
        lambda h, i, v: h.scatter_reduce(0, i, v, "amax"),
        [torch.rand(7), below(6, 30000), torch.randn(30000)],
    ),
    "minima of integers": lambda: (
        lambda h, i, v: h.scatter_reduce(0, i, v, "amin", include_self=False),
        [torch.arange(7), below(6, 30000), torch.randint(-(1 << 40), 1 << 40, (30000,))],
    ),
    "calibration": lambda: (calibration, [torch.rand(60000), torch.rand(60000).round()]),
    "one after another": lambda: (
        to_grid,
        [torch.rand(3, 3), torch.rand(40000, 2) * 1.9, torch.rand(40000)],
    ),
    "two indices": lambda: (
        lambda h, i, j, v: h.index_put((i, j), v, accumulate=True),
        [torch.rand(3, 2), below(3, 30000), below(2, 30000).int(), torch.rand(30000)],
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_what_many_points_update(name: str) -> None:
    torch.manual_seed(0)
    f, arguments = COPIES[name]()
    files = compile_for_gpu(f, *arguments)
    assert "points that update one element would wait for each other" in files["20-fusion.txt"]
    assert updating(files) == 1
    (found,) = SimulatedGraph(files).run(*in_order(files, arguments))
    torch.testing.assert_close(found, f(*arguments), rtol=1e-4, atol=1e-5)


def test_an_input_that_many_points_update() -> None:
    def f(h: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return h.index_add_(0, i, v) * 2

    torch.manual_seed(0)
    h, i, v = torch.rand(5), below(5, 40000), torch.rand(40000)
    files = compile_for_gpu(f, h, i, v)
    assert "points that update one element would wait for each other" in files["20-fusion.txt"]
    expected, given = h.clone(), h.clone()
    doubled = f(expected, i, v)
    found = SimulatedGraph(files).run(given, i, v)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[-1], doubled, rtol=1e-4, atol=1e-4)
