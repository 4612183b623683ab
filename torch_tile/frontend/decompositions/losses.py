"""Losses of two dtypes that have that of the input, as ATen computes them; torch's decompositions promote."""

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


def _soft_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN) -> Any:
    """ATen computes it in the memory of a negated input, which sets its sizes too, and rounds each step."""
    if torch.broadcast_tensors(x, target)[0].shape != x.shape:  # type: ignore[no-untyped-call]
        return NotImplemented
    wide = torch.promote_types(x.dtype, torch.float32)
    exponential = torch.exp((-x * target).to(x.dtype).to(wide)).to(x.dtype)
    loss = torch.log1p(exponential.to(wide)).to(x.dtype)
    return loss.mean() if reduction == _MEAN else loss.sum() if reduction == _SUM else loss


def losses() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.soft_margin_loss.default: _soft_margin_loss}
