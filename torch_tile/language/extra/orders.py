"""Bessel functions of any whole order, for tl.extra.libdevice: kernels that loop over the order, in float64."""

from __future__ import annotations

from typing import Any

from torch_tile import language
from torch_tile.language.extra import derived
from torch_tile.language.jit import jit

tl: Any = language


def _largest(n: Any) -> Any:
    return tl.max(n) if n.dims else n


@jit
def yn(n: Any, argument: Any) -> Any:
    x = argument.to(tl.float64)
    before, now = derived.y0(x), derived.y1(x)
    result = tl.where(n == 0, before, now)
    for k in range(1, _largest(n)):
        after = now * (2.0 * k) / x - before
        before, now = now, after
        result = tl.where(n == k + 1, now, result)
    return tl.where((n < 0) | (x < 0), float("nan"), result).to(argument.dtype)


@jit
def jn(n: Any, argument: Any) -> Any:
    x = tl.abs(argument.to(tl.float64))
    largest = _largest(n)
    before, now = derived.j0(x), derived.j1(x)
    up = tl.where(n == 0, before, now)
    for k in range(1, largest):
        after = now * (2.0 * k) / x - before
        before, now = now, after
        up = tl.where(n == k + 1, now, up)
    # Orders above the argument come down from a greater one, and are scaled by the sum of all even ones.
    high, here, total, down = x * 0.0, x * 0.0 + 1.0, x * 0.0, x * 0.0
    top = (largest + tl.sqrt(160.0 * largest).to(tl.int32)) // 2 * 2
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
