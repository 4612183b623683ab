"""Which Python numbers ATen converts to a dtype: a decomposition leaves to it a number that it refuses."""

from __future__ import annotations

import math

import torch


def is_in_range(number: int | float, dtype: torch.dtype) -> bool:
    """Infinities and NaN are floats of every width; of unsigned integers the negatives are taken, and wrap around."""
    if dtype is torch.bool or dtype.is_complex:
        return True
    if dtype.is_floating_point:
        return not math.isfinite(number) or abs(number) <= torch.finfo(dtype).max
    limits = torch.iinfo(dtype)
    if isinstance(number, float):
        return limits.min <= number < float(limits.max) + 1
    least = -limits.max if limits.min == 0 else limits.min
    return least <= number <= limits.max
