"""Operators of exported programs that torch takes apart by formulas that are not those of ATen's kernels.

Export keeps calls whole that `torch.compile` replaces before it traces (`frontend/interpolations.py`,
`frontend/affine_grids.py`), or runs in eager mode (`frontend/refused_calls.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.formulas.interpolation import Scaled, each_dimension, linear
from torch_tile.frontend import affine_grids

aten = torch.ops.aten
_Decomposition = Callable[..., Any]
_MISTAKEN = (aten.multilabel_margin_loss.default, aten.multilabel_margin_loss.out)
_LINEAR = (aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d)


def as_by_aten(table: dict[Any, _Decomposition], device: str) -> dict[Any, _Decomposition]:
    """A table of decompositions with those of this file.

    Args:
        table: of all operators that are taken apart.
        device: of the program, which need not be that of the tensors it is traced with.
    """
    table = {op: function for op, function in table.items() if op not in _MISTAKEN}
    table[aten.affine_grid_generator.default] = _grid
    for packet in _LINEAR:
        table[packet.vec] = _linear(table[packet.vec], device)
        table[packet.default] = _unless_unknown(table[packet.default])
    return table


def _grid(theta: torch.Tensor, size: Any, align_corners: bool) -> Any:
    is_known = theta.is_floating_point() and len(size) in (4, 5)
    return affine_grids.grid(theta, size, align_corners) if is_known else NotImplemented


def _may_be_kept(scaled: Scaled) -> bool:
    """Whether a factor leaves some sizes of a dimension as they are and changes others: eager mode copies the former,
    which a program of all sizes cannot know."""
    old, new, factor = scaled
    if isinstance(factor, float) and not 1 < factor < 2:
        return False
    is_told = statically_known_true(new != old) or (statically_known_true(new == old) and isinstance(old, int))
    return factor is not None and not is_told


def _linear(otherwise: _Decomposition, device: str) -> _Decomposition:
    def decomposition(x: torch.Tensor, output_size: Any, align_corners: bool, scale_factors: Any) -> Any:
        if not x.is_floating_point() or any(statically_known_true(size == 0) for size in x.shape):
            return otherwise(x, output_size, align_corners, scale_factors)
        # The factor is that of the sizes where corners are aligned.
        dimensions = each_dimension(x, output_size, scale_factors, align_corners)
        if any(map(_may_be_kept, dimensions)):
            return NotImplemented
        if device == "cpu":
            return linear(x, dimensions, align_corners)
        if all(statically_known_true(each.new == each.old) for each in dimensions):
            return x.clone()
        return otherwise(x, output_size, align_corners, scale_factors)

    return decomposition


def _unless_unknown(function: _Decomposition) -> _Decomposition:
    def decomposition(x: torch.Tensor, size: Any, align_corners: bool, *factors: Any, **kwargs: Any) -> Any:
        factors = (*factors, *kwargs.values())
        given = factors if not align_corners and len(factors) == len(size) else [None] * len(size)
        is_unknown = any(map(_may_be_kept, map(Scaled, x.shape[2:], size, given)))
        return NotImplemented if is_unknown else function(x, size, align_corners, *factors)

    return decomposition
