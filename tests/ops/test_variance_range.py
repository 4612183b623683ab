"""Variances at the edges of the range: where eager's is a number, ours is that number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from tests.compiling import assert_same, compiled

# Short ones take two passes, long ones one.
SHAPES = {"short": (48, 33), "columns": (1024, 64), "rows": (16, 1000), "long": (3, 70000), "tall": (20000, 5)}


def spreads(x: torch.Tensor) -> Any:
    results = [x.var(), x.std(), x.var((0, 1)), torch.std_mean(x)]
    for dim in (0, 1):
        results += [x.var(dim), x.var(dim, correction=0, keepdim=True), x.std(dim), x.std(dim, correction=3)]
        results += [torch.var_mean(x, dim), torch.std_mean(x, dim)]
    return results


def assert_as_good(result: Any, x: torch.Tensor) -> None:
    """Within a few ulp of float64 rounded to float32, or as near to it as eager's. What eager reduces to one number
    leaves the range where float64 does not."""
    results, eagers, exact = (pytree.tree_leaves(each) for each in (result, spreads(x), spreads(x.double())))
    for a, b, wide in zip(results, eagers, exact, strict=True):
        c = wide.to(a.dtype)
        assert torch.equal(a.isnan(), c.isnan())
        near = (a - c).abs() <= torch.maximum(5e-7 * c.abs(), (b - c).abs().nan_to_num(0, 0))
        assert (near | (a == c) | a.isnan()).all(), f"{a}, float64 {c}, eager {b}"


@pytest.mark.parametrize("shape", SHAPES)
def test_of_one_value(shape: str) -> None:
    run = compiled(spreads)
    for value in (3e19, 3e38, -3e38, 1e-30, 0.1, 1000.1):
        x = torch.full(SHAPES[shape], value)
        assert_as_good(run(x), x)


@pytest.mark.parametrize("shape", SHAPES)
def test_of_the_ends_of_the_range(shape: str) -> None:
    torch.manual_seed(0)
    run = compiled(spreads)
    for scale in (1e38, 1e25, 1e-25, 1e-38):
        x = (torch.rand(SHAPES[shape]) + 0.5) * scale
        assert_as_good(run(x), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("special", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("dim", [0, 1])
def test_infinities_and_nan(dtype: torch.dtype, special: float, dim: int) -> None:
    x = torch.randn(500, 40).to(dtype)
    x[3, 5] = x[7, 5] = x[3, 9] = special

    def function(x: torch.Tensor) -> Any:
        return x.var(dim), x.std(dim), F.layer_norm(x, x.shape[1:])

    assert_same(compiled(function)(x), function(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_of_one_large_value(dtype: torch.dtype, dim: int) -> None:
    """Sums leave the range, means do not."""
    x = torch.full((300, 70), torch.finfo(dtype).max / 1.25, dtype=dtype)

    def function(x: torch.Tensor) -> Any:
        return x.var(dim), x.std(dim), torch.var_mean(x, dim)

    assert_same(compiled(function)(x), function(x))


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom.*:UserWarning")
def test_few_elements(count: int, dynamic: bool) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.randn(3, count).to(dtype)
        torch.compiler.reset()
        assert_same(compiled(spreads, dynamic=dynamic)(x), spreads(x))


def test_dynamic_sizes() -> None:
    def function(x: torch.Tensor) -> Any:
        return x.var(1), x.std(0), torch.var_mean(x)

    run = compiled(function, dynamic=True)
    for rows, columns in ((3, 5), (40, 3000), (3000, 40), (2, 100000)):
        x = torch.full((rows, columns), 3e19)
        x[:, 0] = 1e19
        assert_same(run(x), function(x), rtol=5e-7, atol=0)


def test_deviations_of_bfloat16_beyond_the_root_of_the_range() -> None:
    """Differences whose squares leave float32: the deviation is a number, the variance is infinite."""
    x = torch.tensor([[3e19, -3e19, 1e19, 2.0], [1e38, 2e38, -3e38, 1.0]], dtype=torch.bfloat16)

    def function(x: torch.Tensor) -> Any:
        return x.std(), x.std(1), x.std(0, correction=0, keepdim=True), torch.std_mean(x, 1), x.var(1)

    assert function(x)[1].isfinite().all()
    assert_same(compiled(function)(x), function(x), rtol=0, atol=0)
