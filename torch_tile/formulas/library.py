"""Composite functions of CUDA's device library, in arithmetic and functions of torch.

Operands are in float64. Where those of a call were float32 the result is off by its own rounding alone; `is_double`
says that they were not, and that the formula has to care for float64's own ends and roundings.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.formulas.rounding import two_product
from torch_tile.formulas.special_functions import STIRLING, polynomial

# Sizes whose squares stay normal, and factors that bring others there.
_SQUARES = {
    torch.float64: (2.0**500, 2.0**-600, 2.0**-450, 2.0**600),
    torch.float32: (2.0**60, 2.0**-70, 2.0**-50, 2.0**100),
}


def _length(operands: tuple[Any, ...], dtype: torch.dtype | None) -> tuple[Any, Any]:
    """The length of a vector times a power of two, and that power; without a dtype nothing overflows."""
    sizes = [x.abs() for x in operands]
    scale = torch.full_like(sizes[0], 1.0)
    if dtype is not None:
        largest = functools.reduce(lambda a, b: torch.where(a < b, b, a), sizes)
        above, down, below, up = _SQUARES[dtype]
        scale = torch.where(largest > above, down, torch.where(largest < below, up, scale))
        sizes = [x * scale for x in sizes]
    return torch.sqrt(functools.reduce(lambda a, b: a + b, [x * x for x in sizes])), scale


def _is_infinite(operands: tuple[Any, ...]) -> Any:
    return functools.reduce(lambda a, b: a | b, [x.isinf() for x in operands])


def norm(operands: tuple[Any, ...], dtype: torch.dtype | None) -> Any:
    """Length of a vector; infinite where a component is, whatever the others are."""
    root, scale = _length(operands, dtype)
    return torch.where(_is_infinite(operands), math.inf, root / scale)


def _norm(*operands: Any, is_double: bool) -> Any:
    return norm(operands, torch.float64 if is_double else None)


def _inverse_norm(*operands: Any, is_double: bool) -> Any:
    root, scale = _length(operands, torch.float64 if is_double else None)
    return torch.where(_is_infinite(operands), 0.0, scale / root)


def _fdim(a: Any, b: Any, is_double: bool) -> Any:
    return torch.where(a <= b, 0.0, a - b)


def _saturated(x: Any, is_double: bool) -> Any:
    return torch.where(x > 0.0, torch.where(x < 1.0, x, 1.0), 0.0)


def _ldexp(x: Any, steps: Any, is_double: bool) -> Any:
    """x * 2^steps, rounded once."""
    if is_double:
        # Sizes near 1 first, exactly, so that one product alone may leave the normal numbers.
        for k in (512.0, 256.0, 128.0, 64.0, 32.0):
            size = x.abs()
            is_large, is_small = size >= 2.0**k, size < 2.0**-k
            x = torch.where(is_large, x * 2.0**-k, torch.where(is_small, x * 2.0**k, x))
            steps = torch.where(is_large, steps + k, torch.where(is_small, steps - k, steps))
        first = steps.clamp(-900.0, 900.0)
        x = x * torch.exp2(first)
        steps = steps - first
    return x * torch.exp2(steps.clamp(-900.0, 900.0))


def _is_odd(count: Any) -> Any:
    half = count * 0.5
    return (half - torch.round(half)).abs() > 0.25


def _half_turns(x: Any) -> tuple[Any, Any]:
    """x as a whole number of halves, and pi times the rest, in [-pi/4, pi/4]."""
    count = torch.round(x * 2.0)
    return count, (x - count * 0.5) * math.pi


def _sine(count: Any, angle: Any) -> Any:
    """sin(angle + count * pi / 2)."""
    value = torch.where(_is_odd(count), torch.cos(angle), torch.sin(angle))
    whole = torch.where(_is_odd(count), count - 1.0, count) * 0.5
    return torch.where(_is_odd(whole), -value, value)


def _sinpi(x: Any, is_double: bool = True) -> Any:
    value = _sine(*_half_turns(x))
    return torch.where(value == 0.0, torch.copysign(value, x), value)


def _cospi(x: Any, is_double: bool) -> Any:
    count, angle = _half_turns(x.abs())
    return _sine(count + 1.0, angle) + 0.0  # not -0


def _exp10(x: Any, is_double: bool) -> Any:
    return torch.pow(torch.full_like(x, 10.0), x)


# 1 / sqrt(2), and what its rounding misses.
_ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)


def _normcdf(x: Any, is_double: bool) -> Any:
    near = x * -_ROOT_HALF[0]
    value = torch.erfc(near)
    if is_double:
        # erfc multiplies a relative error of its argument by twice its square.
        missing = two_product(x, torch.full_like(x, -_ROOT_HALF[0]))[1] - x * _ROOT_HALF[1]
        slope = torch.exp(-(near * near)) * (-2.0 / math.sqrt(math.pi))
        value = torch.where(near.abs() < 30.0, value + slope * missing, value)
    return value * 0.5


def _remainder(x: Any, y: Any, is_double: bool) -> Any:
    """x - n * y for the whole number n nearest to x / y, exactly."""
    divisor = y.abs()
    rest = torch.fmod(x, divisor + divisor).abs()
    half = divisor * 0.5
    # Half of a subnormal number may be none, twice a large one either.
    is_beyond = torch.where(divisor < 1.0, rest + rest, rest) > torch.where(divisor < 1.0, divisor, half)
    once = torch.where(is_beyond, rest - divisor, rest)
    is_twice = torch.where(divisor < 1.0, once + once, once) >= torch.where(divisor < 1.0, divisor, half)
    value = torch.where(is_beyond & is_twice, once - divisor, once)
    return value * torch.copysign(torch.full_like(x, 1.0), x)


def _tgamma(x: Any, is_double: bool) -> Any:
    """Stirling's formula from 10 on, where factors lead to; reflected below 0."""
    size = x.abs()
    z, product = size, torch.full_like(x, 1.0)
    for k in range(10):
        is_small = z < 10.0
        product = torch.where(is_small, product * (size + float(k)), product)
        z = torch.where(is_small, size + float(k + 1), z)
    # What the sum lost, times the digamma function.
    lost = torch.where(size < 10.0, size - (z - torch.round(z - size)), 0.0)
    # In two factors, which do not overflow.
    power = torch.pow(z, 0.5 * z - 0.25)
    inverse = 1.0 / z
    series = polynomial(inverse * inverse, STIRLING) * inverse + lost * (torch.log(z) - 0.5 * inverse)
    rest = power * torch.exp(-z) * math.sqrt(2.0 * math.pi)
    rest = (rest + rest * (torch.exp(series) - 1.0)) / product
    turned = -math.pi / _sinpi(size) / rest / power / size
    value = torch.where(x < 0.0, turned, power * rest)
    value = torch.where(x > 172.0, math.inf, value)
    value = torch.where(x < -190.0, 0.0, value)
    value = torch.where((x < 0.0) & (torch.round(x) == x), math.nan, value)
    return torch.where(size < 1e-300, 1.0 / x, value)


# Name in CUDA's library -> the formula, and its number of operands. The last one of ldexp is an integer.
FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "cospi": (_cospi, 1),
    "exp10": (_exp10, 1),
    "fdim": (_fdim, 2),
    "hypot": (_norm, 2),
    "ldexp": (_ldexp, 2),
    "norm3d": (_norm, 3),
    "norm4d": (_norm, 4),
    "normcdf": (_normcdf, 1),
    "remainder": (_remainder, 2),
    "rhypot": (_inverse_norm, 2),
    "rnorm3d": (_inverse_norm, 3),
    "rnorm4d": (_inverse_norm, 4),
    "saturatef": (_saturated, 1),
    "sinpi": (_sinpi, 1),
    "tgamma": (_tgamma, 1),
}
