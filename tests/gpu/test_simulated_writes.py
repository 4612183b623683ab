"""Writes at places that tensors name, compiled for a GPU and run on the CPU: all points are parallel there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, schedules

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

bf16 = torch.bfloat16
aten = torch.ops.aten


def places(count: int, below: int, *shape: int) -> torch.Tensor:
    """Different places, some of them counted from the end."""
    order = torch.randperm(below)[:count].reshape(shape or (count,))
    return torch.where(order % 3 == 0, order - below, order)


def along(dim: int, *shape: int, size: int) -> torch.Tensor:
    """For each line along `dim` different places below `size`."""
    return torch.rand(*shape[:dim], size, *shape[dim + 1 :]).argsort(dim).narrow(dim, 0, shape[dim]).contiguous()


# Arguments stand in the order of their first use, which is that of a graph's inputs.
CASES: dict[str, Callable[[], tuple[Callable[..., Any], list[torch.Tensor]]]] = {
    "rows of a cache": lambda: (
        lambda k, s, c, i: aten.index_put(c, (None, None, i), k.view(2, 6, 4, 16).transpose(1, 2) * s.cos()),
        [torch.rand(2, 6, 64).to(bf16), torch.rand(16).to(bf16), torch.rand(2, 4, 40, 16).to(bf16), places(6, 40)],
    ),
    "one row": lambda: (
        lambda k, c, i: aten.index_copy(c, 2, i, k + 1),
        [torch.rand(3, 2, 1, 128), torch.rand(3, 2, 50, 128), torch.tensor([7])],
    ),
    "long rows": lambda: (
        lambda k, c, i: aten.index_put(c, (i,), k * 2),
        [torch.rand(9, 5000), torch.rand(20, 5000), places(9, 20)],
    ),
    "short rows": lambda: (
        lambda k, c, i: aten.index_put(c, (i,), k * 2),
        [torch.rand(200, 3), torch.rand(300, 3), places(200, 300)],
    ),
    "two indices": lambda: (
        lambda v, c, i, j: aten.index_put(c, (i, None, j), v.sin()),
        [torch.rand(4, 3, 7), torch.rand(9, 7, 5), places(4, 9, 4, 1), places(3, 5)],
    ),
    "a value for all": lambda: (
        lambda v, c, i, j: aten.index_put(c, (i, j), v.neg()),
        [torch.rand(()), torch.rand(40, 30), places(20, 40), places(20, 30)],
    ),
    "one place": lambda: (
        lambda v, c, i: aten.index_put(c, (i,), v * 2),
        [torch.rand(33), torch.rand(40, 33), torch.tensor(-3)],
    ),
    "columns": lambda: (
        lambda v, c, i: aten.index_put(c, (None, i), v.exp()),
        [torch.rand(70, 40), torch.rand(70, 50), places(40, 50)],
    ),
    "scatter along rows": lambda: (
        lambda v, x, i: aten.scatter(x, 1, i, v + 1),
        [torch.rand(12, 70), torch.rand(12, 100), along(1, 12, 60, size=100)],
    ),
    "scatter along columns": lambda: (
        lambda v, x, i: aten.scatter(x, 0, i, v * v),
        [torch.rand(60, 31), torch.rand(100, 31), along(0, 60, 31, size=100)],
    ),
    "scatter a number": lambda: (
        lambda x, i: x.scatter(1, i, 2.5),
        [torch.rand(5, 6, 7), along(1, 5, 4, 3, size=6)],
    ),
    "integers": lambda: (
        lambda x, i, v: x.scatter(0, i, v),
        [torch.arange(1000), along(0, 600, size=1000), torch.arange(600) * 3],
    ),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_points_are_parallel(name: str, dynamic: bool) -> None:
    torch.manual_seed(0)
    function, arguments = CASES[name]()
    files = compile_for_gpu(function, *arguments, dynamic=dynamic)
    assert not any("reduce" in schedule for schedule in schedules(files))
    expected = function(*arguments)
    (found,) = SimulatedGraph(files).run(*arguments)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-2 if found.dtype == bf16 else 1e-5, atol=1e-6)


def test_one_of_several_values_stays() -> None:
    x, index, values = torch.zeros(10, 40), torch.tensor([3, 3, 5, 3, 5, 9]), torch.rand(6, 40) + 1
    files = compile_for_gpu(lambda v, x, i: aten.index_put(x, (i,), v.neg()), values, x, index)
    (found,) = SimulatedGraph(files).run(values, x, index)
    for row in range(10):
        candidates = -values[index == row] if (index == row).any() else x[row : row + 1]
        assert (found[row] == candidates).any(0).all()


def test_products_keep_their_order() -> None:
    """There are atomic updates for sums and extrema alone (test_simulated_sums_by_index.py)."""
    x, index, values = torch.zeros(10), torch.zeros(6, dtype=torch.int64), torch.rand(6)
    files = compile_for_gpu(lambda x, i, v: aten.scatter_reduce(x, 0, i, v, "prod"), x, index, values)
    assert any("reduce" in schedule for schedule in schedules(files))
