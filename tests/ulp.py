"""Errors in units in the last place (ulp), against mpmath."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import torch

PRECISION = 50
_MANTISSA = {torch.float64: (53, -1074), torch.float32: (24, -149), torch.float16: (11, -24), torch.bfloat16: (8, -133)}
Exact = Callable[..., Any]


@functools.lru_cache(maxsize=100_000)  # two results are compared with each value
def exactly(function: Exact, *arguments: float) -> Any:
    """The real value at these numbers, NaN where there is none."""
    with mp.workdps(PRECISION):
        try:
            value = function(*map(mp.mpf, arguments))
        except (ValueError, ZeroDivisionError, OverflowError, mp.libmp.NoConvergence):
            return mp.nan
        return mp.nan if isinstance(value, mp.mpc) and value.imag != 0 else mp.re(value)


def error(got: float, exact: Any, dtype: torch.dtype) -> float:
    """Distance in units of the exact value's last place in `dtype`; infinite where one is NaN or infinite alone."""
    if mp.isnan(exact):
        return 0.0 if math.isnan(got) else math.inf
    if math.isnan(got):
        return math.inf
    bits, lowest = _MANTISSA[dtype]
    largest = torch.finfo(dtype).max
    with mp.workdps(PRECISION):
        if abs(exact) > largest:
            # A result that overflows counts as the number after the largest.
            return 0.0 if abs(got) >= largest and (got > 0) == (exact > 0) else math.inf
        if math.isinf(got):
            got = math.copysign(largest * (1 + 2.0 ** (1 - bits)), got) if largest < 1e308 else got
            if math.isinf(got):
                return 1.0 if abs(exact) > largest * 0.9999999999999990 else math.inf
        exponent = mp.frexp(exact)[1] - bits if exact != 0 else lowest
        return float(abs(mp.mpf(got) - exact) / mp.ldexp(1, max(exponent, lowest)))


def worst(got: torch.Tensor, arguments: list[torch.Tensor], function: Exact) -> tuple[float, tuple[float, ...], float]:
    """The largest error, and where it is: (error, arguments, result)."""
    found: tuple[float, tuple[float, ...], float] = (0.0, (), 0.0)
    for result, *at in zip(got.tolist(), *(t.tolist() for t in arguments), strict=True):
        each = error(result, exactly(function, *at), got.dtype)
        if each > found[0]:
            found = (each, tuple(at), result)
    return found


def everywhere(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Numbers of both signs, of all exponents, and around 1."""
    random = np.random.default_rng(seed)
    info = torch.finfo(dtype)
    exponents = random.uniform(math.log2(info.tiny) - 5, math.log2(info.max), count // 4)
    spread = np.exp2(exponents) * random.choice((-1.0, 1.0), count // 4)
    near = np.concatenate([random.normal(0, scale, count // 4) for scale in (1.0, 10.0)])
    tiny = np.exp2(random.uniform(-20, 0, count - 3 * (count // 4))) * random.choice(
        (-1.0, 1.0), count - 3 * (count // 4)
    )
    return torch.from_numpy(np.concatenate([spread, near, tiny])).to(dtype)
