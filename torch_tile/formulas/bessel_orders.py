"""Bessel functions of any whole order, as kernels of both languages: they loop over the order, in float64.

What these functions name is a language's: `bound` gives them `tl`, `bessel` (j0, j1, y0, y1) and `largest` (the
greatest element of a tile, or the scalar itself).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

tl: Any = None
bessel: Any = None
largest: Any = None


def bound(function: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """A copy of the function whose globals have these names; its source stays where it is."""
    assert isinstance(function, types.FunctionType)
    scope = {**function.__globals__, **names}
    return types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)


# Triton's front end reads these functions; annotations of theirs would be those of constants.


def yn(n, argument):  # type: ignore[no-untyped-def]
    x = argument.to(tl.float64)
    before, now = bessel.y0(x), bessel.y1(x)
    result = tl.where(n == 0, before, now)
    for k in range(1, largest(n)):
        after = now * (2.0 * k) / x - before
        before, now = now, after
        result = tl.where(n == k + 1, now, result)
    return tl.where((n < 0) | (x < 0), float("nan"), result).to(argument.dtype)


def jn(n, argument):  # type: ignore[no-untyped-def]
    x = tl.abs(argument.to(tl.float64))
    most = largest(n)
    before, now = bessel.j0(x), bessel.j1(x)
    up = tl.where(n == 0, before, now)
    for k in range(1, most):
        after = now * (2.0 * k) / x - before
        before, now = now, after
        up = tl.where(n == k + 1, now, up)
    # Orders above the argument come down from a greater one, and are scaled by the sum of all even ones.
    high, here, total, down = x * 0.0, x * 0.0 + 1.0, x * 0.0, x * 0.0
    top = (most + tl.sqrt(160.0 * most).to(tl.int32)) // 2 * 2
    for step in range(top):
        k = top - step
        lower = here * (2.0 * k) / x - high
        high, here = here, lower
        shrink = tl.where(tl.abs(here) > 1e10, 1e-10, 1.0)
        high, here, total, down = high * shrink, here * shrink, total * shrink, down * shrink
        total += here * ((k - 1) % 2 == 0).to(tl.float64)
        down = tl.where(n == k, high, down)
    down = tl.where(x == 0, 0.0, down / (2.0 * total - here))
    result = tl.where((n < 2) | (x >= n), up, down)
    result = tl.where((argument < 0) & (n % 2 == 1), -result, result)
    return tl.where(n < 0, float("nan"), result).to(argument.dtype)
