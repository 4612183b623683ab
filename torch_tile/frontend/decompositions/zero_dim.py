"""Operators along a dimension of a 0-d tensor: ATen treats it as a tensor of one element. Softmaxes without elements,
which ATen takes of every dtype."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.errors import UnsupportedError

aten = torch.ops.aten


def _is_empty_integer(x: torch.Tensor) -> bool:
    return not x.dtype.is_floating_point and not x.dtype.is_complex and statically_known_true(x.numel() == 0)


def of_floats(softmax: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of a softmax, which leaves other dtypes to ATen, apart from integers without elements."""

    @functools.wraps(softmax)
    def decomposition(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
        if _is_empty_integer(x):
            return torch.empty_like(x)
        return softmax(x, dim, half_to_float) if x.dtype.is_floating_point else NotImplemented

    return decomposition


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    if x.dim():
        return torch.empty_like(x) if _is_empty_integer(x) else NotImplemented
    return aten._softmax.default(x.unsqueeze(0), 0, half_to_float).squeeze(0)


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    if x.dim():
        return torch.empty_like(x) if _is_empty_integer(x) else NotImplemented
    return aten._log_softmax.default(x.unsqueeze(0), 0, half_to_float).squeeze(0)


def _softmax_backward(grad: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype) -> Any:
    if output.dim():
        return NotImplemented
    return aten._softmax_backward_data.default(grad.unsqueeze(0), output.unsqueeze(0), 0, input_dtype).squeeze(0)


def _log_softmax_backward(grad: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype) -> Any:
    if output.dim():
        return NotImplemented
    return aten._log_softmax_backward_data.default(grad.unsqueeze(0), output.unsqueeze(0), 0, input_dtype).squeeze(0)


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False) -> Any:
    if x.dim() and index.dim():
        return NotImplemented
    wide = x if x.dim() else x.unsqueeze(0)
    result = aten.gather.default(wide, 0, index if index.dim() else index.unsqueeze(0))
    return result if index.dim() else result.squeeze(0)


def _index_select(x: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    if x.dim() and index.dim():
        return NotImplemented
    wide = x if x.dim() else x.unsqueeze(0)
    result = aten.index_select.default(wide, dim, index if index.dim() else index.unsqueeze(0))
    return result if x.dim() else result.squeeze(0)


def _logcumsumexp(x: torch.Tensor, dim: int) -> Any:
    return NotImplemented if x.dim() else aten.logcumsumexp.default(x.unsqueeze(0), dim).squeeze(0)


def _lifted(op: Any) -> Callable[..., Any]:
    """For (x, dim, index, source, ...): operands that have no dimension get one, the result loses it if x had none."""

    def decomposition(x: torch.Tensor, dim: int, *rest: Any, **kwargs: Any) -> Any:
        index, *others = rest
        if op in _FILLS and index.dtype is not torch.int64:  # of which fake tensors know nothing
            raise UnsupportedError("import", f"index_fill at an index of {index.dtype}, which eager mode refuses")
        source = others[0] if others and op is not aten.index_fill.int_Tensor else None
        operands = [t for t in (x, index, source) if isinstance(t, torch.Tensor)]
        if all(t.dim() for t in operands):
            is_copied = op in _FILLS and not is_non_overlapping_and_dense_or_false(x)
            return op(x.clone(), dim, *rest, **kwargs) if is_copied else NotImplemented  # laid out as ATen's copy of x
        rest = tuple(t.unsqueeze(0) if any(t is each for each in operands) and not t.dim() else t for t in rest)
        if x.dim():
            return op(x, dim, *rest, **kwargs)
        return op(x.unsqueeze(0), 0, *rest, **kwargs).squeeze(0)

    return decomposition


_FILLS = (aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)

# Writes at positions that a tensor names.
_WRITES = (
    aten.index_add.default,
    aten.index_copy.default,
    *_FILLS,
    aten.index_reduce.default,
    aten.scatter.reduce,
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter.value_reduce,
    aten.scatter_add.default,
    aten.scatter_reduce.two,
)


def zero_dim() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        **{op: _lifted(op) for op in _WRITES},
        aten._log_softmax.default: _log_softmax,
        aten._log_softmax_backward_data.default: _log_softmax_backward,
        aten._softmax.default: _softmax,
        aten._softmax_backward_data.default: _softmax_backward,
        aten.gather.default: _gather,
        aten.index_select.default: _index_select,
        aten.logcumsumexp.default: _logcumsumexp,
    }
