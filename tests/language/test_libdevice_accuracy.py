"""Every float function of tl.extra.libdevice against mpmath: within the errors that NVIDIA documents, and C's results
at zeros, infinities and NaN."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests import libdevice_table as table
from tests.ulp import everywhere, worst
from torch_tile.language.extra import libdevice


@torch_tile.jit
def unary(x_ptr, o_ptr, N, FUNCTION: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, getattr(libdevice, FUNCTION)(tl.load(x_ptr + i, mask=i < N)), mask=i < N)


@torch_tile.jit
def binary(x_ptr, y_ptr, o_ptr, N, FUNCTION: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(x_ptr + i, mask=i < N), tl.load(y_ptr + i, mask=i < N)
    tl.store(o_ptr + i, getattr(libdevice, FUNCTION)(x, y), mask=i < N)


def apply(name: str, *operands: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(operands[0])
    size = 1 << (len(result) - 1).bit_length()
    kernel: Any = unary if len(operands) == 1 else binary
    kernel[(1,)](*operands, result, len(result), FUNCTION=name, B=size)
    return result


def assert_ends(got: torch.Tensor, expected: list[float], at: Any) -> None:
    want = torch.tensor(expected, dtype=torch.float64).to(got.dtype)
    same = torch.isclose(got, want, rtol=4 * torch.finfo(got.dtype).eps, atol=0, equal_nan=True)
    same &= (got.signbit() == want.signbit()) | want.isnan()
    assert same.all(), (at, got.tolist(), want.tolist())


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@DTYPES
@pytest.mark.parametrize("name", table.UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    function = table.UNARY[name]
    x = table.arguments(function, dtype, 200)
    error, at, result = table.worst_of(name, function, apply(name, x), x)
    assert error <= 1.0, f"{error:.3g} of the documented error at {at}: {result}"
    assert function.ends
    ends = [-math.inf, -0.0, 0.0, math.inf, math.nan]
    assert_ends(apply(name, torch.tensor(ends, dtype=dtype)), [*function.ends, math.nan], ends)


@DTYPES
@pytest.mark.parametrize("name", table.BINARY)
def test_binary(name: str, dtype: torch.dtype) -> None:
    function = table.BINARY[name]
    x, y = everywhere(dtype, 400), everywhere(dtype, 400, seed=1)
    if name in ("hypot", "rhypot", "remainder", "fmod", "fdim"):  # operands of one size, too
        y[::2] = x[::2] * torch.linspace(0.3, 3, 200, dtype=dtype)
    if name == "pow":
        x, y = (
            x.abs(),
            (torch.log(torch.tensor(torch.finfo(dtype).max)) / x.abs().log()).to(dtype)
            * torch.linspace(-1, 1, 400, dtype=dtype),
        )
    ok = y.isfinite() & (y != 0) & (x != 0)
    x, y = x[ok], y[ok]
    error, at, result = worst(apply(name, x, y), [x, y], function.exact)
    assert error <= function.ulp[0 if dtype is torch.float32 else 1], f"{error:.3g} ulp at {at}: {result}"


@DTYPES
@pytest.mark.parametrize("name", table.CORNERS)
def test_corners(name: str, dtype: torch.dtype) -> None:
    x, y, expected = zip(*table.CORNERS[name], strict=True)
    assert_ends(apply(name, torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)), list(expected), (x, y))


def test_scaling_rounds_once() -> None:
    """Also to subnormal numbers."""
    x, steps, expected = zip(*table.SCALED, strict=True)
    integers = torch.tensor(steps, dtype=torch.int32)
    assert_ends(apply("ldexp", torch.tensor(x), integers), list(expected), (x, steps))
    wide = everywhere(torch.float64, 1000)
    integers = torch.randint(-2200, 2200, (1000,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    got = apply("ldexp", wide, integers)
    for value, step, each in zip(wide.tolist(), integers.tolist(), got.tolist(), strict=True):
        try:
            assert each == math.ldexp(value, step)
        except OverflowError:
            assert each == math.copysign(math.inf, value)
