"""Sums at places that tensors name, compiled for a GPU and run on the CPU: all points at once, by atomic updates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, in_order

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

aten = torch.ops.aten


def below(size: int, *shape: int) -> torch.Tensor:
    """Places, of which many are the same."""
    return torch.randint(0, size, shape)


CASES: dict[str, Callable[[], tuple[Callable[..., torch.Tensor], list[torch.Tensor]]]] = {
    "messages": lambda: (
        lambda x, i, w, j: torch.zeros_like(x).index_add(0, j, torch.relu(x[i] * w)),
        [torch.randn(40, 24), below(40, 333), torch.rand(333, 1), below(40, 333)],
    ),
    "times a factor": lambda: (
        lambda v, x, i: x.index_add(1, i, v.sin(), alpha=2),
        [torch.randn(6, 70, 5), torch.randn(6, 9, 5), below(9, 70)],
    ),
    "index_put, two indices from the end": lambda: (
        lambda i, v, x, j: aten.index_put(x, (i - 9, None, j), v * 2, True),
        [below(9, 30, 1), torch.randn(30, 8, 7), torch.randn(9, 7, 5), below(5, 8)],
    ),
    "index_put, a number for all": lambda: (
        lambda x, i: aten.index_put(x, (i,), torch.ones(()), True),
        [torch.randn(50), below(50, 1000)],
    ),
    "index_put of rows that lie in columns": lambda: (
        lambda x, i, v: aten.index_put(x, (None, i), v, True),
        [torch.randn(9, 14).t(), below(9, 33), torch.randn(14, 33)],
    ),
    "one place": lambda: (
        lambda x, i, v: aten.index_put(x, (i,), v, True),
        [torch.randn(20, 300), torch.tensor(-3), torch.randn(300)],
    ),
    "scatter_add along rows": lambda: (
        lambda v, x, i: x.scatter_add(1, i, v.exp()),
        [torch.randn(12, 70), torch.randn(12, 20), below(20, 10, 70)],
    ),
    "scatter_add along columns": lambda: (
        lambda x, i, v: x.scatter_add(0, i, v),
        [torch.randn(20, 33), below(20, 70, 33), torch.randn(70, 33)],
    ),
    "scatter a number": lambda: (
        lambda x, i: x.scatter(0, i, 0.5, reduce="add"),
        [torch.randn(20), below(20, 999)],
    ),
    "means": lambda: (
        lambda x, i, v: x.scatter_reduce(0, i, v, "mean", include_self=False),
        [torch.randn(20), below(19, 300), torch.randn(300)],
    ),
    "means with what was there": lambda: (
        lambda x, i, v: x.index_reduce(0, i, v, "mean"),
        [torch.randn(20, 6), below(20, 30), torch.randn(30, 6)],
    ),
    "gradient of an embedding": lambda: (
        lambda g, i: aten.embedding_dense_backward(g * 2, i, 30, 3, False),
        [torch.randn(4, 25, 40), below(30, 4, 25)],
    ),
    "float64": lambda: (
        lambda x, i, v: x.index_add(0, i, v),
        [torch.randn(9, dtype=torch.float64), below(9, 777), torch.randn(777, dtype=torch.float64)],
    ),
    "int64": lambda: (
        lambda x, i, v: x.scatter_add(0, i, v),
        [torch.arange(50), below(50, 1000), torch.arange(1000) << 33],
    ),
    "int32": lambda: (
        lambda v, x, i: x.index_add(0, i, v * 3),
        [torch.arange(1000, dtype=torch.int32), torch.arange(50, dtype=torch.int32), below(50, 1000).int()],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_equal_eager(name: str) -> None:
    torch.manual_seed(0)
    f, arguments = CASES[name]()
    files = compile_for_gpu(f, *arguments)
    updates = [line for line in files["30-tile.mlir"].splitlines() if "tile.atomic_rmw add" in line]
    assert updates and all("{relaxed}" in line for line in updates)
    before = [argument.clone() for argument in arguments]
    (result,) = SimulatedGraph(files).run(*in_order(files, arguments))
    expected = f(*arguments)
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    for argument, old in zip(arguments, before, strict=True):
        assert torch.equal(argument, old)


def test_sums_of_a_dynamic_number_of_points() -> None:
    files = compile_for_gpu(
        lambda x, i, v: x.index_add(0, i, v), torch.zeros(9, 20), below(9, 50), torch.ones(50, 20), dynamic=True
    )
    graph = SimulatedGraph(files)
    for count in (1, 7, 50, 301):
        x, i, v = torch.randn(9, 20), below(9, count), torch.randn(count, 20)
        (result,) = graph.run(x, i, v)
        torch.testing.assert_close(result, x.index_add(0, i, v), rtol=1e-4, atol=1e-5)
