"""Scans of a few neighbours on the CPU: partial sums and products of columns, as vectors, instead of step by step."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.frontend.sizes import has_strides_of

aten = torch.ops.aten

# Elements of a row, up to which columns are read as vectors in less time than a scan of the row takes.
_LONGEST = 4


def _wide(dtype: torch.dtype) -> torch.dtype:
    """What ATen adds in."""
    if dtype is torch.float32:
        return torch.float64
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def _scan(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def scan(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
        if x.dim() < 2 or x.device.type != "cpu" or x.dtype.is_complex or dim not in (-1, x.dim() - 1):
            return NotImplemented
        length = x.shape[-1]
        is_short = isinstance(length, int) and 2 <= length <= _LONGEST
        if not is_short or (dtype is not None and dtype.is_complex) or not has_strides_of(x, torch.contiguous_format):
            return NotImplemented
        is_integral = not x.dtype.is_floating_point
        result = dtype if dtype is not None else torch.int64 if is_integral else x.dtype
        if result is torch.bool or (result.itemsize > 1 and not result.is_signed):  # which ATen does not scan
            return NotImplemented
        columns = [column.to(_wide(result)) for column in x.to(result).unbind(-1)]
        if combine is operator.add and result.is_floating_point:
            columns[0] = columns[0] + 0.0  # sums begin with 0, so the first is no -0
        for place in range(1, len(columns)):
            columns[place] = combine(columns[place - 1], columns[place])
        return torch.stack([column.to(result) for column in columns], -1)

    return scan


def short_scans() -> dict[Any, Callable[..., Any]]:
    return {aten.cumsum.default: _scan(operator.add), aten.cumprod.default: _scan(operator.mul)}
