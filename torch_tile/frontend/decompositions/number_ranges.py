"""Which Python numbers ATen converts to a dtype: a decomposition leaves to it a number that it refuses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


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


# Operators whose kernels convert each of their numbers to the dtype of the first operand.
_CONVERTING = (
    aten.addmv,
    aten.addr,
    aten.celu,
    aten.clamp_max,
    aten.clamp_min,
    aten.elu,
    aten.elu_backward,
    aten.hardtanh,
    aten.hardtanh_backward,
    aten.leaky_relu,
    aten.leaky_relu_backward,
    aten.softplus,
    aten.softplus_backward,
    aten.softshrink,
)


def _of_numbers_in_range(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        numbers = (value for value in (*args, *kwargs.values()) if type(value) in (int, float))
        if not all(is_in_range(number, x.dtype) for number in numbers):
            return NotImplemented
        return function(x, *args, **kwargs)

    return decomposition


def of_numbers_in_range(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table` that leave numbers which ATen refuses to it."""
    overloads = (getattr(packet, name) for packet in _CONVERTING for name in packet.overloads())  # type: ignore[no-untyped-call]
    return {op: _of_numbers_in_range(table[op]) for op in overloads if op in table}
