"""Special functions as arithmetic and elementary functions of torch: for graphs, and for kernels of both languages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def device_functions() -> dict[str, Callable[[Any], Any]]:
    """Name in CUDA's library of device functions -> the formula, for an operand in float64."""
    from torch_tile.formulas import bessel, special

    return {
        "j0": bessel.j0,
        "j1": bessel.j1,
        "y0": bessel.y0,
        "y1": bessel.y1,
        "cyl_bessel_i0": special.i0,
        "cyl_bessel_i1": special.i1,
        "erfcx": special.erfcx,
        "erfinv": special.erfinv,
        "erfcinv": lambda x: special.ndtri(x * 0.5) * -math.sqrt(0.5),
        "lgamma": special.lgamma,
        "normcdfinv": special.ndtri,
    }
