"""Extrema at places that tensors name, compiled for a GPU and run on the CPU: updates of bits, in which NaN wins."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, in_order
from tests.gpu.test_simulated_sums_by_index import below

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

aten = torch.ops.aten
f64, i32 = torch.float64, torch.int32
NEGATIVE_NAN = torch.tensor([-0x400000], dtype=i32).view(torch.float32)

CASES: dict[str, Callable[[], tuple[Callable[..., torch.Tensor], list[torch.Tensor]]]] = {
    "maxima of segments": lambda: (
        lambda i, v: v.new_full((40,), -math.inf).scatter_reduce(0, i, v * 2, "amax"),
        [below(37, 900), torch.randn(900)],
    ),
    "minima along rows": lambda: (
        lambda v, x, i: x.scatter_reduce(1, i, v * 0.5, "amin"),
        [torch.randn(12, 70), torch.randn(12, 20).exp(), below(20, 10, 70)],
    ),
    "without what was there": lambda: (
        lambda x, i, v: x.scatter_reduce(0, i, v, "amax", include_self=False),
        [torch.randn(20) + 9, below(15, 300), torch.randn(300)],
    ),
    "rows": lambda: (
        lambda x, i, v: x.index_reduce(0, i, v, "amax"),
        [torch.randn(20, 24), below(20, 90), torch.randn(90, 24)],
    ),
    "float64": lambda: (
        lambda x, i, v: x.scatter_reduce(0, i, v, "amin"),
        [torch.randn(9, dtype=f64), below(9, 77), torch.randn(77, dtype=f64)],
    ),
    "int64": lambda: (
        lambda x, i, v: x.scatter_reduce(0, i, v, "amax"),
        [torch.arange(50) - 25, below(50, 1000), torch.randint(-(1 << 40), 1 << 40, (1000,))],
    ),
    "int32": lambda: (
        lambda v, x, i: x.scatter_reduce(0, i, v * 3, "amin", include_self=False),
        [torch.randint(-99, 99, (1000,), dtype=i32), torch.arange(50, dtype=i32), below(50, 1000)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_extrema_equal_eager(name: str) -> None:
    torch.manual_seed(0)
    f, arguments = CASES[name]()
    files = compile_for_gpu(f, *arguments)
    assert "tile.atomic_rmw m" in files["30-tile.mlir"]
    before = [argument.clone() for argument in arguments]
    (result,) = SimulatedGraph(files).run(*in_order(files, arguments))
    expected = f(*arguments)
    assert result.dtype == expected.dtype and torch.equal(result, expected)
    for argument, old in zip(arguments, before, strict=True):
        assert torch.equal(argument, old)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, f64])
def test_special_values(reduce: str, include_self: bool, dtype: torch.dtype) -> None:
    """Each pair of values, of which one is there before the other, and NaN of both signs."""
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45], dtype=torch.float32)
    special = torch.cat([special, NEGATIVE_NAN]).to(dtype)
    held, written = (part.flatten().contiguous() for part in torch.meshgrid(special, special, indexing="ij"))
    index = torch.arange(held.numel())
    f = lambda x, i, v: x.scatter_reduce(0, i, v, reduce, include_self=include_self)  # noqa: E731
    files = compile_for_gpu(f, held, index, written)
    graph = SimulatedGraph(files)
    (found,) = graph.run(*in_order(files, [held, index, written]))
    torch.testing.assert_close(found, f(held, index, written), rtol=0, atol=0, equal_nan=True)
    # The same, one update after another.
    everywhere = torch.zeros(held.numel(), dtype=torch.int64)
    for values in (written, written.flip(0), written[written.isfinite()].repeat(20)[: held.numel()]):
        (found,) = graph.run(*in_order(files, [held, everywhere, values.contiguous()]))
        expected = f(held, everywhere, values.contiguous())
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
