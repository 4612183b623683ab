"""Functions of tl.extra.libdevice against torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from torch_tile.language.extra import libdevice


@torch_tile.jit
def unary(x_ptr, o_ptr, FUNCTION: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, getattr(libdevice, FUNCTION)(tl.load(x_ptr + i)))


@torch_tile.jit
def binary(x_ptr, y_ptr, o_ptr, FUNCTION: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, getattr(libdevice, FUNCTION)(tl.load(x_ptr + i), tl.load(y_ptr + i)))


SPECIAL = {
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "lgamma": torch.lgamma,
    "erfinv": torch.erfinv,
    "erfcx": torch.special.erfcx,
    "normcdfinv": torch.special.ndtri,
    "normcdf": torch.special.ndtr,
    "erfcinv": lambda x: torch.erfinv(1 - x),
    "tgamma": lambda x: torch.exp(torch.lgamma(x)) * torch.where((x < 0) & (x.floor() % 2 != 0), -1, 1),
    "cbrt": lambda x: x.abs().pow(1 / 3).copysign(x),
    "exp10": lambda x: 10**x,
    "sinpi": lambda x: torch.sin(math.pi * x),
    "cospi": lambda x: torch.cos(math.pi * x),
    "logb": lambda x: torch.frexp(x).exponent.double() - 1,
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_functions(launch: Callable[..., Any], name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    x = torch.cat([torch.randn(200), torch.rand(56) * 12 + 0.05]).to(dtype)
    if name in ("erfinv", "normcdfinv", "erfcinv"):
        x = torch.rand(256, dtype=dtype) * 0.98 + 0.01
    o = torch.empty_like(x)
    launch(unary)[(1,)](x, o, FUNCTION=name, B=256)
    expected = SPECIAL[name](x.double()).to(dtype)
    # torch's own Bessel functions of float64 are off by up to 5e-7.
    tolerance = 2e-6 if dtype is torch.float32 or name in ("j0", "j1", "y0", "y1") else 1e-11
    torch.testing.assert_close(o, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_infinities_and_zero(launch: Callable[..., Any]) -> None:
    x = torch.tensor([0.0, -0.0, math.inf, math.nan])
    o = torch.empty_like(x)
    for name, expected in {
        "cbrt": [0.0, -0.0, math.inf, math.nan],
        "lgamma": [math.inf, math.inf, math.inf, math.nan],
        "logb": [-math.inf, -math.inf, math.inf, math.nan],
        "saturatef": [0.0, 0.0, 1.0, 0.0],
    }.items():
        launch(unary)[(1,)](x, o, FUNCTION=name, B=4)
        torch.testing.assert_close(o, torch.tensor(expected), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbours_and_remainders(launch: Callable[..., Any], dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, -1.0, 0.0, 5.5, 2.5, -3.5, 7.0, 1e-40], dtype=dtype)
    y = torch.tensor([2.0, 0.0, -1.0, 2.0, 1.0, 1.0, 7.0, 1.0], dtype=dtype)
    o = torch.empty_like(x)
    launch(binary)[(1,)](x, y, o, FUNCTION="nextafter", B=8)
    assert torch.equal(o, torch.nextafter(x, y))
    launch(binary)[(1,)](x, y, o, FUNCTION="fdim", B=8)
    assert torch.equal(o, (x - y).clamp(min=0))
    launch(binary)[(1,)](x[:8], y.where(y != 0, 3), o, FUNCTION="remainder", B=8)
    expected = [math.remainder(a, b) for a, b in zip(x.tolist(), y.where(y != 0, 3).tolist(), strict=True)]
    assert o.tolist() == torch.tensor(expected, dtype=dtype).tolist()


@pytest.mark.parametrize("name", ["float2int_rn", "float2int_rz", "float2int_rd", "float2int_ru", "llround", "ilogb"])
def test_conversions(launch: Callable[..., Any], name: str) -> None:
    x = torch.tensor([0.5, 1.5, -1.5, 2.4, -2.6, 8.0, 7.99, 3.0])
    o = torch.empty(8, dtype=torch.int64)
    launch(unary)[(1,)](x, o, FUNCTION=name, B=8)
    expected: Any = {
        "float2int_rn": x.round,
        "float2int_rz": x.trunc,
        "float2int_rd": x.floor,
        "float2int_ru": x.ceil,
        "llround": lambda: (x.abs() + 0.5).floor().copysign(x),
        "ilogb": lambda: x.abs().log2().floor(),
    }[name]()
    assert o.tolist() == expected.long().tolist()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_bits_of_integers(launch: Callable[..., Any], dtype: torch.dtype) -> None:
    bits = torch.iinfo(dtype).bits
    x = torch.tensor([0, 1, -1, 5, 1 << 20, -(1 << (bits - 1)), 12345, -77], dtype=dtype)
    o = torch.empty_like(x)
    words = [v & ((1 << bits) - 1) for v in x.tolist()]
    launch(unary)[(1,)](x, o, FUNCTION="clz", B=8)
    assert o.tolist() == [bits - v.bit_length() for v in words]
    launch(unary)[(1,)](x, o, FUNCTION="brev", B=8)
    assert [v & ((1 << bits) - 1) for v in o.tolist()] == [int(f"{v:0{bits}b}"[::-1], 2) for v in words]
    y = torch.tensor([3, 7, -1, 8, 2, -(1 << (bits - 1)), 2, 5], dtype=dtype)
    for name, rounding in (("hadd", 0), ("rhadd", 1)):
        launch(binary)[(1,)](x, y, o, FUNCTION=name, B=8)
        assert o.tolist() == [(a + b + rounding) >> 1 for a, b in zip(x.tolist(), y.tolist(), strict=True)]


@torch_tile.jit
def parts(x_ptr, n_ptr, o_ptr, p_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x, n = tl.load(x_ptr + i), tl.load(n_ptr + i)
    tl.store(o_ptr + i, libdevice.ldexp(x, n))
    wide = x.to(tl.float64)
    tl.store(p_ptr + i, libdevice.hiloint2double(libdevice.double2hiint(wide), libdevice.double2loint(wide)))


def test_parts_of_floats(launch: Callable[..., Any]) -> None:
    x, n = torch.randn(8), torch.tensor([0, 1, -1, 10, -30, 100, 130, -140], dtype=torch.int32)
    o, p = torch.empty(8), torch.empty(8, dtype=torch.float64)
    launch(parts)[(1,)](x, n, o, p, B=8)
    assert torch.equal(o, torch.ldexp(x.double(), n).float()) and torch.equal(p, x.double())


def test_bytes_are_chosen(launch: Callable[..., Any]) -> None:
    @torch_tile.jit
    def kernel(o_ptr, a, b, c):
        tl.store(o_ptr, libdevice.byte_perm(a, b, c))
        tl.store(o_ptr + 1, libdevice.mul24(a, 3))
        tl.store(o_ptr + 2, libdevice.sad(a, b, 1))

    o = torch.empty(3, dtype=torch.int32)
    launch(kernel)[(1,)](o, 0x33221100, 0x77665544, 0x7160)
    assert o[0].item() == 0x77116600
    assert o[1].item() == 0x221100 * 3 and o[2].item() == 0x44444444 + 1


def bessel(n: int, x: float, second: bool) -> float:
    """By the integral that defines it, from 0 to pi, and for the second kind one more from 0 on."""
    angle = torch.linspace(0, math.pi, 20001, dtype=torch.float64)
    if not second:
        return float(torch.trapezoid(torch.cos(n * angle - x * angle.sin()), angle)) / math.pi
    far = torch.linspace(0, 8, 400001, dtype=torch.float64)
    decaying = ((n * far).exp() + (-1) ** n * (-n * far).exp()) * (-x * far.sinh()).exp()
    first = torch.trapezoid(torch.sin(x * angle.sin() - n * angle), angle)
    return float(first - torch.trapezoid(decaying, far)) / math.pi


@pytest.mark.parametrize("name", ["jn", "yn"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bessel_functions_of_any_order(launch: Callable[..., Any], name: str, dtype: torch.dtype) -> None:
    orders = torch.tensor([0, 1, 2, 3, 5, 8, 12, 2, 7, 1, 4, 9, 3, 0, 6, 2], dtype=torch.int32)
    x = torch.tensor([0.7, 1.5, 1.0, 2.5, 9.0, 3.0, 4.0, 20.0, 8.0, 30.0, 4.0, 10.0, 0.5, 11.0, 2.0, 6.5], dtype=dtype)
    o = torch.empty_like(x)
    launch(binary)[(1,)](orders, x, o, FUNCTION=name, B=16)
    expected = [bessel(n, v, name == "yn") for n, v in zip(orders.tolist(), x.tolist(), strict=True)]
    limit = 1e-5 if dtype is torch.float32 else 1e-6
    torch.testing.assert_close(o, torch.tensor(expected, dtype=dtype), rtol=limit, atol=limit)
    launch(binary)[(1,)](-orders, -x, o, FUNCTION=name, B=16)
    assert o[1:13].isnan().all()


def test_every_name_of_cuda_is_there() -> None:
    cuda = pytest.importorskip("triton.language.extra.cuda.libdevice")
    names = [k for k, v in vars(cuda).items() if callable(v) and getattr(v, "__module__", "") == cuda.__name__]
    assert len(names) > 150
    assert [name for name in names if not hasattr(libdevice, name)] == []
