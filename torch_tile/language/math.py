"""tl.math: functions of each element; those of tl.extra.libdevice are found here too."""

# ruff: noqa: F401

from __future__ import annotations

from typing import Any

from torch_tile.language.extra import libdevice
from torch_tile.language.ops.arithmetic import cdiv, clamp, div_rn, fdiv, fma, maximum, minimum, umulhi
from torch_tile.language.ops.math import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    rsqrt,
    sigmoid,
    sin,
    softmax,
    sqrt,
    sqrt_rn,
)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(libdevice, name)
