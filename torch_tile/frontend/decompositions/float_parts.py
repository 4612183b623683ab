"""Mantissa, exponent and neighbour of a floating-point number, by exact arithmetic with powers of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

# Bits of the mantissa, and the exponent of the smallest number above 0.
_FORMATS = {torch.float64: (53, -1074), torch.float32: (24, -149), torch.float16: (11, -24), torch.bfloat16: (8, -133)}
_SHIFT = 200


def _small_power_of_two(n: torch.Tensor) -> torch.Tensor:
    """2^n for integers n of -1022 to 1023, factor by factor."""
    size = n.abs()
    value = torch.ones_like(n, dtype=torch.float64)
    for k in range(10):
        value = torch.where((size >> k) & 1 == 1, value * 2.0 ** (2**k), value)
    return torch.where(n < 0, 1.0 / value, value)


def _scaled(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """x * 2^n, in two steps that neither overflow nor vanish where the result does not."""
    half = n >> 1
    return x * _small_power_of_two(half) * _small_power_of_two(n - half)


def _parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mantissa of at least 0.5 and less than 1, and exponent, of finite float64 numbers other than 0."""
    is_tiny = x.abs() < 2.0**-1000
    x = torch.where(is_tiny, x * 2.0**_SHIFT, x)
    exponent = torch.floor(torch.log2(x.abs())).to(torch.int64) + 1  # off by one at most
    mantissa = _scaled(x, -exponent)
    is_large, is_small = mantissa.abs() >= 1.0, mantissa.abs() < 0.5
    mantissa = torch.where(is_large, mantissa * 0.5, torch.where(is_small, mantissa * 2.0, mantissa))
    exponent = exponent + is_large.to(torch.int64) - is_small.to(torch.int64)
    return mantissa, torch.where(is_tiny, exponent - _SHIFT, exponent)


def _frexp(x: torch.Tensor) -> Any:
    if x.device.type != "cpu" or x.dtype not in _FORMATS:
        return NotImplemented
    wide = x.to(torch.float64)
    is_ordinary = (wide != 0.0) & ~wide.isinf() & ~wide.isnan()
    mantissa, exponent = _parts(torch.where(is_ordinary, wide, 1.0))
    return (
        torch.where(is_ordinary, mantissa, wide).to(x.dtype),
        torch.where(is_ordinary, exponent, 0).to(torch.int32),
    )


def _nextafter(x: torch.Tensor, other: torch.Tensor) -> Any:
    if x.device.type != "cpu" or x.dtype not in _FORMATS or other.dtype is not x.dtype:
        return NotImplemented
    bits, lowest = _FORMATS[x.dtype]
    a, b = x.to(torch.float64), other.to(torch.float64)
    largest = torch.finfo(x.dtype).max
    is_ordinary = (a != 0.0) & ~a.isinf() & ~a.isnan()
    mantissa, exponent = _parts(torch.where(is_ordinary, a, 1.0))
    is_away = (b > a) == (a > 0.0)
    # Below a power of two numbers lie twice as close.
    is_power = (mantissa.abs() == 0.5) & ~is_away
    step = _scaled(torch.ones_like(a), (exponent - bits - is_power.to(torch.int64)).clamp(min=lowest))
    moved = torch.copysign(torch.where(is_away, a.abs() + step, a.abs() - step), a)
    moved = torch.where(a == 0.0, torch.copysign(torch.full_like(a, 2.0**lowest), b), moved)
    moved = torch.where(a.isinf(), torch.copysign(torch.full_like(a, largest), a), moved)
    moved = torch.where(a == b, b, moved)
    return torch.where(a.isnan() | b.isnan(), a + b, moved).to(x.dtype)


def float_parts() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.frexp.Tensor: _frexp, aten.nextafter.default: _nextafter}
