"""CUDA's library of device functions: what each float function is, and the error that NVIDIA documents for it."""

# ruff: noqa: E501  (tables: a function is a row)

from __future__ import annotations

import dataclasses
import math
from typing import Any

import mpmath as mp
import torch

from tests.ulp import Exact, everywhere, exactly, worst

inf, nan = math.inf, math.nan


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of floats; `ulp` for float32 and float64 (CUDA C++ Programming Guide, mathematical functions)."""

    exact: Exact
    ulp: tuple[float, float]
    ends: tuple[float, float, float, float] | None = None
    """At -inf, -0, 0 and inf; NaN gives NaN."""
    low: float = -inf
    high: float = inf
    """Arguments are tried between these."""
    absolute: tuple[float, float, float] | None = None
    """Beyond this size the error is documented as an absolute one, of float32 and of float64."""
    near_zero: float = 0.0
    """An error that counts as none: between its zeros a function of float64 is off by no more, at them by as much."""


def _root(x: Any) -> Any:
    return mp.sign(x) * mp.power(abs(x), mp.mpf(1) / 3)


def _erfcx(x: Any) -> Any:
    with mp.workdps(80):
        return mp.exp(x * x) * mp.erfc(x)


def _erfinv(y: Any) -> Any:
    return mp.erfinv(y) if abs(y) <= 1 else mp.nan


def _erfcinv(y: Any) -> Any:
    """From the asymptotic form of erfc down, by Newton's steps on log(erfc)."""
    if not 0 < y < 2:
        return mp.nan
    if y > mp.mpf(1) / 16:
        return mp.erfinv(1 - y)
    x = mp.sqrt(-mp.log(y))
    for _ in range(40):
        value = mp.erfc(x)
        step = (mp.log(value) - mp.log(y)) * value / (2 / mp.sqrt(mp.pi) * mp.exp(-x * x))
        x += step
        if abs(step) < mp.mpf(10) ** -40:
            break
    return x


def _normcdfinv(p: Any) -> Any:
    return -mp.sqrt(2) * _erfcinv(2 * p) if 0 < p < 1 else mp.nan


def _lgamma(x: Any) -> Any:
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.log(abs(mp.gamma(x))) if x < 1e5 else mp.loggamma(x)


UNARY = {
    "acos": Function(mp.acos, (2, 2), (nan, math.pi / 2, math.pi / 2, nan), -1.5, 1.5),
    "acosh": Function(mp.acosh, (4, 3), (nan, nan, nan, inf), 0.5),
    "asin": Function(mp.asin, (2, 2), (nan, -0.0, 0.0, nan), -1.5, 1.5),
    "asinh": Function(mp.asinh, (3, 3), (-inf, -0.0, 0.0, inf)),
    "atan": Function(mp.atan, (2, 2), (-math.pi / 2, -0.0, 0.0, math.pi / 2)),
    "atanh": Function(mp.atanh, (3, 2), (nan, -0.0, 0.0, nan), -1.5, 1.5),
    "cbrt": Function(_root, (1, 1), (-inf, -0.0, 0.0, inf)),
    "ceil": Function(mp.ceil, (0, 0), (-inf, -0.0, 0.0, inf)),
    "cos": Function(mp.cos, (2, 2), (nan, 1.0, 1.0, nan)),
    "cosh": Function(mp.cosh, (2, 1), (inf, 1.0, 1.0, inf), -750.0, 750.0),
    "cospi": Function(mp.cospi, (1, 2), (nan, 1.0, 1.0, nan), -1e15, 1e15),
    "cyl_bessel_i0": Function(lambda x: mp.besseli(0, x), (6, 6), (inf, 1.0, 1.0, inf), -720.0, 720.0),
    "cyl_bessel_i1": Function(lambda x: mp.besseli(1, x), (6, 6), (-inf, -0.0, 0.0, inf), -720.0, 720.0),
    "erf": Function(mp.erf, (2, 2), (-1.0, -0.0, 0.0, 1.0), -40.0, 40.0),
    "erfc": Function(mp.erfc, (4, 5), (2.0, 1.0, 1.0, 0.0), -40.0, 40.0),
    "erfcinv": Function(_erfcinv, (4, 6), (nan, inf, inf, nan), 0.0, 2.0),
    "erfcx": Function(_erfcx, (4, 4), (inf, 1.0, 1.0, 0.0), -27.0, 1e6),
    "erfinv": Function(_erfinv, (2, 5), (nan, -0.0, 0.0, nan), -0.999999, 0.999999),
    "exp": Function(mp.exp, (2, 1), (0.0, 1.0, 1.0, inf), -760.0, 760.0),
    "exp10": Function(lambda x: mp.power(10, x), (2, 1), (0.0, 1.0, 1.0, inf), -340.0, 340.0),
    "exp2": Function(lambda x: mp.power(2, x), (2, 1), (0.0, 1.0, 1.0, inf), -1100.0, 1100.0),
    "expm1": Function(mp.expm1, (1, 1), (-1.0, -0.0, 0.0, inf), -760.0, 760.0),
    "floor": Function(mp.floor, (0, 0), (-inf, -0.0, 0.0, inf)),
    "j0": Function(lambda x: mp.besselj(0, x), (9, 7), (0.0, 1.0, 1.0, 0.0), -1e4, 1e4, absolute=(8.0, 2.2e-6, 5e-12), near_zero=2e-15),
    "j1": Function(lambda x: mp.besselj(1, x), (9, 7), (-0.0, -0.0, 0.0, 0.0), -1e4, 1e4, absolute=(8.0, 2.2e-6, 5e-12), near_zero=2e-15),
    "lgamma": Function(_lgamma, (6, 4), (inf, inf, inf, inf), -2.0),
    "log": Function(lambda x: mp.log(x) if x > 0 else mp.nan, (1, 1), (nan, -inf, -inf, inf), -1.0),
    "log10": Function(lambda x: mp.log10(x) if x > 0 else mp.nan, (2, 1), (nan, -inf, -inf, inf), -1.0),
    "log1p": Function(lambda x: mp.log1p(x) if x > -1 else (-mp.inf if x == -1 else mp.nan), (1, 1), (nan, -0.0, 0.0, inf), -2.0),
    "log2": Function(lambda x: mp.log(x, 2) if x > 0 else mp.nan, (1, 1), (nan, -inf, -inf, inf), -1.0),
    "normcdf": Function(lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, (5, 5), (0.0, 0.5, 0.5, 1.0), -40.0, 40.0),
    "normcdfinv": Function(_normcdfinv, (5, 8), (nan, -inf, -inf, nan), 0.0, 1.0),
    "rcbrt": Function(lambda x: 1 / _root(x), (1, 1.5), (-0.0, -inf, inf, 0.0)),
    "rcp_rn": Function(lambda x: 1 / x, (0.5, 0.5), (-0.0, -inf, inf, 0.0)),
    "rint": Function(mp.nint, (0, 0), (-inf, -0.0, 0.0, inf)),
    "rsqrt": Function(lambda x: 1 / mp.sqrt(x) if x > 0 else mp.nan, (2, 1.5), (nan, -inf, inf, 0.0), -1.0),
    "sin": Function(mp.sin, (2, 2), (nan, -0.0, 0.0, nan)),
    "sinh": Function(mp.sinh, (3, 2), (-inf, -0.0, 0.0, inf), -750.0, 750.0),
    "sinpi": Function(mp.sinpi, (1, 2), (nan, -0.0, 0.0, nan), -1e15, 1e15),
    "sqrt": Function(lambda x: mp.sqrt(x) if x > 0 else mp.nan, (0.5, 0.5), (nan, -0.0, 0.0, inf), -1.0),
    "tan": Function(mp.tan, (4, 2), (nan, -0.0, 0.0, nan)),
    "tanh": Function(mp.tanh, (2, 2), (-1.0, -0.0, 0.0, 1.0)),
    "tgamma": Function(mp.gamma, (5, 10), (nan, -inf, inf, inf), -180.0, 180.0),
    "trunc": Function(lambda x: mp.sign(x) * mp.floor(abs(x)), (0, 0), (-inf, -0.0, 0.0, inf)),
    "y0": Function(lambda x: mp.bessely(0, x) if x > 0 else mp.nan, (9, 7), (nan, -inf, -inf, 0.0), -1.0, 1e4,
                   absolute=(8.0, 2.2e-6, 5e-12), near_zero=2e-15),
    "y1": Function(lambda x: mp.bessely(1, x) if x > 0 else mp.nan, (9, 7), (nan, -inf, -inf, 0.0), -1.0, 1e4,
                   absolute=(8.0, 2.2e-6, 5e-12), near_zero=2e-15),
}  # fmt: skip
BINARY = {
    "atan2": Function(mp.atan2, (3, 2)),
    "copysign": Function(lambda x, y: abs(x) if y > 0 else -abs(x), (0, 0)),
    "fdim": Function(lambda x, y: x - y if x > y else mp.mpf(0), (0.5, 0.5)),
    "fmod": Function(lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)), (0, 0)),
    "hypot": Function(lambda x, y: mp.sqrt(x * x + y * y), (3, 2)),
    "pow": Function(lambda x, y: mp.power(x, y) if x > 0 or y == mp.floor(y) else mp.nan, (4, 2)),
    "remainder": Function(lambda x, y: mp.mpf(math.remainder(float(x), float(y))), (0, 0)),
    "rhypot": Function(lambda x, y: 1 / mp.sqrt(x * x + y * y), (2, 2)),
}
# What C says where an operand is 0, infinite or NaN.
CORNERS = {
    "atan2": [(0.0, -0.0, math.pi), (-0.0, -0.0, -math.pi), (-0.0, 0.0, -0.0), (inf, -inf, 3 * math.pi / 4),
              (inf, inf, math.pi / 4), (1.0, -inf, math.pi), (-1.0, inf, -0.0), (nan, 1.0, nan)],
    "fdim": [(inf, inf, 0.0), (-inf, -inf, 0.0), (inf, -inf, inf), (nan, 1.0, nan), (1.0, nan, nan), (-1.0, 0.0, 0.0)],
    "fmax": [(nan, 1.0, 1.0), (1.0, nan, 1.0), (nan, nan, nan), (-inf, inf, inf)],
    "fmin": [(nan, 1.0, 1.0), (1.0, nan, 1.0), (nan, nan, nan), (-inf, inf, -inf)],
    "fmod": [(inf, 1.0, nan), (1.0, 0.0, nan), (1.0, inf, 1.0), (-0.0, 1.0, -0.0), (nan, 1.0, nan), (-3.0, 1.5, -0.0)],
    "hypot": [(0.0, 3e38, 3e38), (inf, nan, inf), (nan, -inf, inf), (nan, 1.0, nan), (-0.0, -0.0, 0.0), (3.0, 4.0, 5.0),
              (3e38, 3e-38, 3e38), (1e-40, 0.0, 1e-40)],
    "pow": [(0.0, -1.0, inf), (-0.0, -1.0, -inf), (-0.0, -2.0, inf), (-0.0, -0.5, inf), (-inf, 0.5, inf), (-0.0, 0.5, 0.0),
            (nan, 0.0, 1.0), (1.0, nan, 1.0), (-1.0, inf, 1.0), (-1.0, -inf, 1.0), (0.5, inf, 0.0), (2.0, -inf, 0.0),
            (-inf, 3.0, -inf), (-inf, -3.0, -0.0), (-inf, 2.0, inf), (-2.0, 0.5, nan), (inf, -0.5, 0.0), (nan, 1.0, nan)],
    "remainder": [(inf, 1.0, nan), (1.0, 0.0, nan), (1.0, inf, 1.0), (-0.0, 1.0, -0.0), (nan, 1.0, nan), (5.0, 2.0, 1.0),
                  (7.0, 2.0, -1.0), (-5.0, 2.0, -1.0), (3e38, 2e38, -1e38), (2.5, 1.0, 0.5), (1.5, 1.0, -0.5)],
    "rhypot": [(0.0, 0.0, inf), (inf, nan, 0.0), (nan, 1.0, nan), (0.0, -inf, 0.0), (3e38, 0.0, 1 / 3e38)],
}  # fmt: skip
# x, an integer, x * 2^integer.
SCALED = [
    (0.0, 150, 0.0), (-0.0, -2000, -0.0), (inf, -2000, inf), (1.0, 127, 2.0**127), (1.0, 2000, inf), (-1.0, 2**31 - 1, -inf),
    (1.0, -149, 2.0**-149), (1.5, -149, 2.0**-148), (2.0**-149, 276, 2.0**127), (1.0, -(2**31), 0.0), (nan, 3, nan),
    (0.75, -3, 0.09375),
]  # fmt: skip


def arguments(function: Function, dtype: torch.dtype, count: int) -> torch.Tensor:
    """Numbers of its domain, of all exponents and near whole and half numbers, and the ends of the type."""
    info = torch.finfo(dtype)
    x = everywhere(dtype, count)
    halves = torch.arange(-12, 13, dtype=torch.float64).to(dtype) / 2
    parts = [
        x,
        halves,
        halves + halves * info.eps,
        torch.tensor([info.tiny, info.tiny / 4, 1e-30, info.max / 2, 0.7, 0.9999, 1.0001]).to(dtype),
    ]
    low, high = max(function.low, -info.max), min(function.high, info.max)
    if math.isfinite(function.low) or math.isfinite(function.high):
        generator = torch.Generator().manual_seed(2)
        width = min(high, 50.0 * max(1.0, abs(low)) if function.high == inf else high)
        parts.append(low + (width - low) * torch.rand(count // 2, generator=generator, dtype=torch.float64).to(dtype))
    x = torch.cat(parts)
    return x[(x > low) & (x < high) & (x != 0)]


def worst_of(
    name: str, function: Function, got: torch.Tensor, x: torch.Tensor
) -> tuple[float, tuple[float, ...], float]:
    """The largest error of a unary function, as a multiple of the documented one, with its place."""
    index = 0 if got.dtype is torch.float32 else 1
    if function.absolute:
        is_far = x.abs() >= function.absolute[0]
        allowed = function.absolute[1 + index]
        differences = [
            abs(a - float(exactly(function.exact, b)))
            for a, b in zip(got[is_far].tolist(), x[is_far].tolist(), strict=True)
        ]
        assert max(differences, default=0.0) <= allowed, (name, max(differences))
        got, x = got[~is_far], x[~is_far]
    if function.near_zero and index:
        is_near = [
            abs(a - float(exactly(function.exact, b))) <= function.near_zero
            for a, b in zip(got.tolist(), x.tolist(), strict=True)
        ]
        got, x = got[~torch.tensor(is_near)], x[~torch.tensor(is_near)]
    error, at, result = worst(got, [x], function.exact)
    return (error / function.ulp[index] if function.ulp[index] else error), at, result
