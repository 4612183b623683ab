"""Bessel functions of any whole order, for tl.extra.libdevice."""

from __future__ import annotations

from typing import Any

from torch_tile import language
from torch_tile.formulas import bessel_orders
from torch_tile.language.extra import derived
from torch_tile.language.jit import jit


def _largest(n: Any) -> Any:
    return language.max(n) if n.dims else n  # type: ignore[attr-defined]


_names = {"tl": language, "bessel": derived, "largest": _largest}
yn = jit(bessel_orders.bound(bessel_orders.yn, **_names))
jn = jit(bessel_orders.bound(bessel_orders.jn, **_names))
