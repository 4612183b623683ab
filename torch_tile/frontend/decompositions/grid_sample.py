"""Samples of a volume at the points of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1


def _reflected(x: torch.Tensor, low: float, high: Any) -> torch.Tensor:
    """Folded back into [low / 2, high / 2] as often as it takes."""
    span = (high - low) / 2
    offset = low / 2
    x = (x - offset).abs()
    extra = torch.fmod(x, span)
    is_even = torch.remainder(torch.floor(x / span), 2) == 0
    return torch.where(is_even, extra + offset, span - extra + offset)


def _position(x: torch.Tensor, size: Any, padding_mode: int, align_corners: bool) -> torch.Tensor:
    """From [-1, 1] to elements."""
    x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if padding_mode == _ZEROS:
        return x
    if padding_mode != _BORDER:
        if size == 1 and align_corners:
            x = torch.zeros_like(x)
        else:
            x = _reflected(x, 0, 2 * (size - 1)) if align_corners else _reflected(x, -1, 2 * size - 1)
    return x.clamp(0, size - 1)


def _grid_sampler_3d(
    x: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    if interpolation_mode not in (_BILINEAR, _NEAREST) or any(isinstance(n, int) and n == 0 for n in x.shape):
        return NotImplemented
    dtype = x.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    sizes = x.shape[2:]
    # The grid's last dimension holds x, y, z: from the innermost dimension on.
    at = [_position(grid.select(-1, 2 - k).to(wide), sizes[k], padding_mode, align_corners) for k in range(3)]
    batch = torch.arange(x.shape[0], device=x.device).view(-1, 1, 1, 1, 1)
    channel = torch.arange(x.shape[1], device=x.device).view(1, -1, 1, 1, 1)

    def element(place: list[torch.Tensor]) -> torch.Tensor:
        inside: Any = None
        indices = [batch, channel]
        for k in range(3):
            valid = (place[k] >= 0) & (place[k] < sizes[k])
            inside = valid if inside is None else inside & valid
            index = torch.where(valid, place[k], 0).to(torch.int64)
            indices.append(index.unsqueeze(1))
        value = aten._unsafe_index.Tensor(x, indices).to(wide)
        return torch.where(inside.unsqueeze(1), value, 0.0)

    if interpolation_mode == _NEAREST:
        return element([torch.round(p) for p in at]).to(dtype)
    low = [torch.floor(p) for p in at]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=3):
        weight: Any = None
        for k in range(3):
            part = at[k] - low[k] if corner[k] else low[k] + 1 - at[k]
            weight = part if weight is None else weight * part
        value = element([low[k] + corner[k] for k in range(3)]) * weight.unsqueeze(1)
        total = value if total is None else total + value
    return total.to(dtype)


def grid_sample() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.grid_sampler_3d.default: _grid_sampler_3d}
