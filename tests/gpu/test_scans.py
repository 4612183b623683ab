"""Scans on a CUDA device: along threads, down columns, in three kernels; with producers and consumers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import compiled, fresh
from torch_tile import counters

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

SHAPES = [(1,), (33,), (4097,), (1 << 20,), (1_000_003,), (1000, 31), (513, 129), (300, 4100), (3, 0), (0, 3)]
SHAPES += [(3, 262_144), (5000, 7), (50_000, 3), (2048, 2048), (3, 257, 65), (2, 5000, 33)]
CASES = [(shape, dim) for shape in SHAPES for dim in range(len(shape))]
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32]


def check(function: Callable[..., Any], *arguments: torch.Tensor, **settings: Any) -> None:
    """Integers as eager's; floats at most twice as far from float64 as eager's. Both runs are the same."""
    fresh()
    calls = counters["externs"]
    run = compiled(function, **settings)
    result, again, eager = run(*arguments), run(*arguments), function(*arguments)
    assert counters["externs"] == calls
    assert torch.equal(result.nan_to_num(), again.nan_to_num())
    assert (result.shape, result.dtype, result.stride()) == (eager.shape, eager.dtype, eager.stride())
    if not result.is_floating_point():
        assert torch.equal(result, eager)
        return
    exact = function(*(a.double() if a.is_floating_point() else a for a in arguments))
    if exact.numel():
        noise = torch.finfo(result.dtype).eps * exact.abs().max()
        assert (result.double() - exact).abs().max() <= 2 * (eager.double() - exact).abs().max() + noise


def check_products(x: torch.Tensor, dim: int) -> None:
    """In any order, each factor rounds once, and later ones do not make that error smaller relative to the product: the
    errors of two orders are two random walks, of which either may be much the longer one."""
    result = compiled(lambda x: x.cumprod(dim))(x)
    exact = x.double().cumprod(dim)
    steps = torch.arange(1.0, x.shape[dim] + 1, dtype=torch.float64, device=x.device)
    steps = steps.reshape([-1 if k == dim else 1 for k in range(x.dim())])
    assert ((result.double() - exact).abs() <= 2 * torch.finfo(x.dtype).eps * steps.sqrt() * exact.abs()).all()


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(shape, device="cuda")
    return x.to(dtype) if dtype.is_floating_point else (10 * x).to(dtype)


@pytest.mark.parametrize("shape, dim", CASES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cumsum(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    check(lambda x: (x * 2).cumsum(dim) + 1, values(shape, dtype))


@pytest.mark.parametrize("shape, dim", CASES, ids=str)
def test_dynamic(shape: tuple[int, ...], dim: int) -> None:
    check(lambda x: (x * 2).cumsum(dim) + 1, values(shape, torch.float32), dynamic=True)


@pytest.mark.parametrize("shape, dim", [((50, 1000), 1), ((1000, 50), 0), ((300, 16), 1), ((200_000,), 0)], ids=str)
def test_other_folds(shape: tuple[int, ...], dim: int) -> None:
    x = values(shape, torch.float32)
    check_products(1 + 0.01 * x, dim)
    check(lambda x: x.logcumsumexp(dim), 5 * x)
    coarse = (4 * x).round()
    coarse.view(-1)[7] = float("nan")
    for other in (coarse, coarse.bfloat16(), (4 * x).to(torch.int64)):
        check(lambda x: x.cummax(dim)[1], other)
        check(lambda x: x.cummin(dim)[1], other)


def test_strides() -> None:
    x = values((300, 700), torch.float32)
    for view in (x.t(), x[:, 3:605], x[::2, ::3], x[:, :1].expand(300, 700)):
        for dim in (0, 1):
            check(lambda x, dim=dim: x.relu().cumsum(dim) - x, view)
