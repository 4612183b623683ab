"""Distances of rows: a reduction over the difference of each pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _norm(difference: torch.Tensor, p: float) -> torch.Tensor:
    """Over the last dimension."""
    size = difference.abs()
    if p == 0:
        return size.ceil().clamp(max=1).sum(-1)  # NaN stays
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return torch.sqrt((difference * difference).sum(-1))
    if p == math.inf:
        return size.amax(-1)
    return torch.pow(torch.pow(size, p).sum(-1), 1.0 / p)


def _cdist(a: torch.Tensor, b: torch.Tensor, p: float, compute_mode: int | None) -> Any:
    rows, others, width = a.shape[-2], b.shape[-2], a.shape[-1]
    if any(isinstance(n, int) and n == 0 for n in (rows, others, width)):
        return NotImplemented
    # As products of matrices, which ATen prefers for many rows.
    if p == 2 and (compute_mode == 1 or (compute_mode in (None, 0) and (rows > 25 or others > 25))):
        return NotImplemented
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    if p == math.inf:  # a comparison, which drops NaN
        difference = torch.where(torch.isnan(difference), 0, difference)
    return _norm(difference, p)


def _pdist(x: torch.Tensor, p: float = 2.0) -> Any:
    count = x.shape[0]
    if not isinstance(count, int) or count < 2 or x.shape[1] == 0:
        return NotImplemented
    first, second = torch.triu_indices(count, count, 1, device=x.device).unbind(0)
    return _norm(aten._unsafe_index.Tensor(x, [first]) - aten._unsafe_index.Tensor(x, [second]), p)


def distances() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten._cdist_forward.default: _cdist, aten._pdist_forward.default: _pdist}
