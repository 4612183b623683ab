"""Interpolations of known sizes: those that copy a dimension are left whole (`frontend/interpolations.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.formulas.interpolation import is_copied

aten = torch.ops.aten

_COPYING = (
    aten.upsample_bilinear2d,
    aten.upsample_linear1d,
    aten.upsample_nearest2d,
    aten.upsample_nearest3d,
    aten.upsample_trilinear3d,
)


def _unless_copied(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(x: torch.Tensor, size: Any, *options: Any, **kwargs: Any) -> Any:
        factors = [option for option in options if option is None or isinstance(option, (float, torch.SymFloat))]
        is_scaled = (
            x.device.type == "cpu" and not any(option is True for option in options) and len(factors) == len(size)
        )
        if is_scaled and any(is_copied(*scaled) for scaled in zip(size, x.shape[2:], factors, strict=True)):
            return NotImplemented
        return function(x, size, *options, **kwargs)

    return decomposition


def interpolation(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table` that leave whole what ATen copies."""
    return {packet.default: _unless_copied(table[packet.default]) for packet in _COPYING if packet.default in table}
