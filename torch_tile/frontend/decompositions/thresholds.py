"""`threshold` and its backward, with numbers as ATen has them: integers for integers, float32 for narrower floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.frontend.decompositions.number_ranges import is_in_range

aten = torch.ops.aten


def _as_element(number: Any, dtype: torch.dtype) -> Any:
    """The number as an element of this dtype; NotImplemented where ATen refuses it, or where it is a symbol."""
    if not isinstance(number, (int, float)):
        return NotImplemented
    if not is_in_range(number, dtype):
        return NotImplemented
    if dtype.is_floating_point:
        return number
    limits = torch.iinfo(dtype)
    if limits.min == 0 and number < 0:
        return int(number) + limits.max + 1
    return math.trunc(number)


def _chosen(x: torch.Tensor, threshold: Any, value: Any, otherwise: torch.Tensor) -> Any:
    if x.dtype.is_complex or x.dtype is torch.bool:
        return NotImplemented
    threshold, value = _as_element(threshold, x.dtype), _as_element(value, x.dtype)
    if threshold is NotImplemented or value is NotImplemented:
        return NotImplemented
    # Whole numbers of bfloat16's 8 bits are the same in all.
    is_exact = float(threshold).is_integer() and abs(threshold) <= 256
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) and not is_exact else x
    return torch.where(wide <= threshold, value, otherwise)


def _threshold(x: torch.Tensor, threshold: Any, value: Any) -> Any:
    return _chosen(x, threshold, value, x)


def _threshold_backward(grad: torch.Tensor, x: torch.Tensor, threshold: Any) -> Any:
    return _chosen(x, threshold, 0, grad)


def thresholds() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.threshold.default: _threshold, aten.threshold_backward.default: _threshold_backward}
