"""Special functions as arithmetic and elementary functions of torch: for graphs, and for kernels of both languages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def device_functions() -> dict[str, Callable[[Any], Any]]:
    """Name in CUDA's library of device functions -> the formula, for an operand in float64.

    Infinite arguments give limits, where ATen's functions give NaN, and zeros keep their sign.
    """
    import torch

    from torch_tile.formulas import bessel, special_functions

    def odd(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: torch.copysign(function(x), x)  # where it is not negative for positive x

    def limited(function: Callable[[Any], Any], limit: float, is_odd: bool = False) -> Callable[[Any], Any]:
        def formula(x: Any) -> Any:
            end = torch.copysign(torch.full_like(x, limit), x) if is_odd else torch.full_like(x, limit)
            return torch.where(x.isinf(), end, function(x))

        return formula

    def of_positive(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: torch.where(x == math.inf, 0.0, function(x))

    return {
        "j0": limited(bessel.j0, 0.0),
        "j1": limited(bessel.j1, 0.0, is_odd=True),
        "y0": of_positive(bessel.y0),
        "y1": of_positive(bessel.y1),
        "cyl_bessel_i0": limited(special_functions.i0, math.inf),
        "cyl_bessel_i1": limited(odd(special_functions.i1), math.inf, is_odd=True),
        "erfcx": special_functions.erfcx,
        "erfinv": special_functions.erfinv,
        "erfcinv": special_functions.erfcinv,
        "lgamma": special_functions.lgamma,
        "normcdfinv": special_functions.ndtri,
    }
