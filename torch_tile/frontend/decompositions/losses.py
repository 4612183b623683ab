"""Huber's loss of two dtypes has that of the input, as ATen's kernel has it; torch's decomposition promotes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
_MEAN, _SUM = 1, 2


def of_input_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Each loss is rounded to the dtype of the input before they are added up."""

    @functools.wraps(function)
    def decomposition(input: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN, delta: float = 1.0) -> Any:
        wide = torch.result_type(input, target)
        if wide == input.dtype:
            return function(input, target, reduction, delta)
        if not torch.can_cast(wide, input.dtype):
            return NotImplemented  # ATen says why
        loss = function(input.to(wide), target.to(wide), 0, delta).to(input.dtype)
        return loss.mean() if reduction == _MEAN else loss.sum() if reduction == _SUM else loss

    return decomposition
