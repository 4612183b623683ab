"""Bessel functions of any whole order, for tl.extra.libdevice."""

from __future__ import annotations

from typing import Any

from torch_tile import language
from torch_tile.formulas import orders
from torch_tile.language.extra import derived
from torch_tile.language.jit import jit


def _largest(n: Any) -> Any:
    return language.max(n) if n.dims else n  # type: ignore[attr-defined]


_names = {"tl": language, "bessel": derived, "largest": _largest}
yn = jit(orders.bound(orders.yn, **_names))
jn = jit(orders.bound(orders.jn, **_names))
