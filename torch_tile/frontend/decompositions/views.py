"""Writes into part of a tensor, where the importer has no form of its own, as reads at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions

from torch_tile.frontend.sizes import guarded

aten, prims = torch.ops.aten, torch.ops.prims

_EXPANDED, _UNKNOWN = 1, 2  # of torch._debug_has_internal_overlap


def may_overlap(x: torch.Tensor) -> bool:
    """Whether elements of x may share memory, other than in expanded dimensions.

    ATen copies such a tensor with its strides and writes into the copy, so that a write shows in other elements too.
    """
    if torch._debug_has_internal_overlap(x) != _UNKNOWN:
        return False  # a copy of an expanded tensor is contiguous
    extents = [(stride, size) for stride, size in zip(x.stride(), x.shape, strict=True) if size != 1]
    last = 0
    for stride, size in sorted(extents):
        if not stride > last:
            return True
        last = last + (size - 1) * stride
    return False


def _in_place_of_part(x: torch.Tensor, source: torch.Tensor, dim: int, start: Any, end: Any, step: Any) -> torch.Tensor:
    """x, but source at positions start, start + step, ... before `end` of `dim`."""
    size = x.shape[dim]
    position = torch.arange(size, device=x.device)
    distance = position - start
    chosen = (distance >= 0) & (position < end) & (torch.remainder(distance, step) == 0)
    at = torch.div(distance, step, rounding_mode="floor").clamp(0, max(source.shape[dim] - 1, 0))
    indices: list[Any] = [None] * dim + [at]
    shape = [1] * x.dim()
    shape[dim] = size
    written = torch.where(chosen.view(shape), aten._unsafe_index.Tensor(source, indices), x)
    result: torch.Tensor = aten.copy.default(x, written)  # laid out as x is
    return result


def _clamped(position: Any, size: Any) -> Any:
    if position < 0:
        position = position + size
    return max(0, min(position, size))


def are_numbers(start: Any, end: Any, step: Any, size: Any) -> bool:
    """Whether the positions of a slice with a step are known, but for where the dimension ends."""
    are_known = isinstance(step, int) and all(isinstance(n, (int, type(None))) for n in (start, end))
    return are_known and (isinstance(size, int) or all(n is None or n >= 0 for n in (start, end)))


def _slice_scatter(
    x: torch.Tensor, source: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Any:
    if step == 1 or x.dtype.is_complex:
        return NotImplemented  # the importer's own; kernels have no complex numbers
    if aten.slice.Tensor(x, dim, start, end, step).shape != source.shape:
        return NotImplemented  # ATen refuses it
    if source.shape[dim] == 0:
        return aten.copy.default(x, x)  # laid out as x is
    if are_numbers(start, end, step, x.shape[dim]):
        return NotImplemented  # part_writes/
    return _strided_scatter(x, source, dim, start, end, step)


def _strided_scatter(x: torch.Tensor, source: torch.Tensor, dim: int, start: Any, end: Any, step: Any) -> Any:
    if step == 1 or may_overlap(x):
        return NotImplemented
    dim = dim % x.dim()
    size = x.shape[dim]
    if source.shape[dim] == 0:
        return aten.copy.default(x, x)  # laid out as x is
    first = 0 if start is None else _clamped(start, size)
    last = size if end is None else _clamped(end, size)
    return _in_place_of_part(x, source.to(x.dtype), dim, first, last, step)


def _slice_backward(grad: torch.Tensor, input_sizes: Any, dim: int, start: Any, end: Any, step: Any) -> Any:
    if step == 1 or grad.dtype.is_complex:
        return NotImplemented
    return _strided_scatter(grad.new_zeros(input_sizes), grad, dim, start, end, step)


def diagonal_scatter(x: torch.Tensor, source: torch.Tensor, offset: int, dim1: int, dim2: int) -> Any:
    """As a choice for each element of `x`, whose elements have memory of their own; dimensions are not negative. Used
    where the graph does not write the diagonal alone (frontend/part_writes)."""
    rows = torch.arange(x.shape[dim1], device=x.device)
    columns = torch.arange(x.shape[dim2], device=x.device)
    length = source.shape[-1]
    if length == 0:
        return aten.copy.default(x, x)  # laid out as x is
    at = (rows - max(-offset, 0)).clamp(0, length - 1)
    # The diagonal is the last dimension of `source`; dim1 and dim2 are where they are in x.
    spread = aten._unsafe_index.Tensor(source.to(x.dtype), [None] * (source.dim() - 1) + [at])
    spread = spread.unsqueeze(-1)
    others = [d for d in range(x.dim()) if d not in (dim1, dim2)]
    order = [0] * x.dim()
    for place, d in enumerate((*others, dim1, dim2)):
        order[d] = place
    spread = spread.permute(order)
    shape1, shape2 = [1] * x.dim(), [1] * x.dim()
    shape1[dim1], shape2[dim2] = -1, -1
    chosen = columns.view(shape2) - rows.view(shape1) == offset
    return aten.copy.default(x, torch.where(chosen, spread, x))  # laid out as x is


def _as_strided_scatter(x: torch.Tensor, source: torch.Tensor, size: Any, stride: Any, offset: Any = None) -> Any:
    if torch._debug_has_internal_overlap(x) != _EXPANDED:
        return NotImplemented
    return aten.as_strided_scatter.default(x.contiguous(), source, size, stride, offset)  # ATen writes into such a copy


def _as_strided_copy(x: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    return torch.as_strided(x, size, stride, storage_offset).clone(memory_format=torch.contiguous_format)


def _view_copy(x: torch.Tensor, size: Any) -> Any:
    # As ATen's, it also takes what cannot be viewed in place.
    return torch.reshape(x, size).clone(memory_format=torch.contiguous_format)


def _roll(x: torch.Tensor, shifts: Any, dims: Any = ()) -> torch.Tensor:
    """Two slices in the other order, whose loads are contiguous; torch's own computes an index per element."""
    shifts = list(shifts) if isinstance(shifts, Sequence) else [shifts]
    dims = list(dims) if isinstance(dims, Sequence) else [dims]
    if not dims and len(shifts) == 1:
        return _roll(x.reshape(-1), shifts, [0]).view(x.shape)
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if not all(isinstance(shift, int) for shift in shifts):
        result: torch.Tensor = get_decompositions([aten.roll])[aten.roll.default](x, shifts, dims)
        return result
    if x.numel() == 0:
        return x.clone()
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        start = _first_of_roll(size, shift)
        x = torch.cat((x.narrow(dim, start, size - start), x.narrow(dim, 0, start)), dim)
    return x


def _first_of_roll(size: Any, shift: int) -> Any:
    """Which element comes first. Differences are easier to order, and to divide by a size, than remainders."""
    if isinstance(size, torch.SymInt) and guarded(size >= max(abs(shift), 1)):
        if shift <= 0:
            return -shift
        # Of a symbol the compiler knows the guard.
        return size - shift if size.node.expr.is_Symbol else torch.sym_max(size - shift, 0)  # type: ignore[no-untyped-call]
    return -shift % torch.sym_max(size, 1)  # type: ignore[no-untyped-call]


# Views that torch's own decompositions are written with. A body of a higher-order operator that AOTAutograd traces for
# its gradient goes through its functionalization again, which refuses views of other namespaces than `aten`.
_PRIMS = (
    prims.broadcast_in_dim.default,
    prims.collapse_view.default,
    prims.split_dim.default,
    prims.squeeze.default,
    prims.transpose.default,
    prims.view_of.default,
)


def views() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.as_strided_copy.default: _as_strided_copy,
        aten.as_strided_scatter.default: _as_strided_scatter,
        aten.roll.default: _roll,
        aten.slice_backward.default: _slice_backward,
        aten.slice_scatter.default: _slice_scatter,
        aten.view_copy.default: _view_copy,
        **{op: op.impl_aten for op in _PRIMS},  # type: ignore[attr-defined]
    }
