"""Operators that place elements where a mask or indices say, by scans, checked indexing and ordered writes."""

from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten


def _is_rearranged(x: torch.Tensor) -> bool:
    """Whether ATen's copies of x lie in another order than row by row."""
    return torch.empty_like(x).stride() != torch.empty_like(x, memory_format=torch.contiguous_format).stride()


def _max_unpool(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[Any]) -> torch.Tensor:
    rank = len(output_size)
    planes = list(x.shape[: x.dim() - rank])
    flat = x.new_zeros((*planes, math.prod(output_size)))
    result = flat.scatter(-1, indices.reshape((*planes, -1)), x.reshape((*planes, -1)))
    return result.view((*planes, *output_size))


def _max_unpool2d(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[Any]) -> Any:
    if x.numel() == 0:
        return NotImplemented
    result = _max_unpool(x, indices, output_size)
    # ATen's channels come last where the operand's do.
    return result.contiguous(memory_format=torch._prims_common.suggest_memory_format(x))


def _max_unpool3d(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[Any], stride: Any, padding: Any) -> Any:
    return NotImplemented if x.numel() == 0 else _max_unpool(x, indices, output_size)


def _masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> Any:
    """The k-th true element of the mask takes the k-th of the source; an index past its end is an error."""
    if x.dtype.is_complex or mask.dtype is not torch.bool or source.numel() == 0 or source.dtype is not x.dtype:
        return NotImplemented
    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    count = torch.cumsum(mask.reshape(-1), 0).view(mask.shape)
    place = torch.where(mask, count - 1, 0)
    return torch.where(mask, aten.index.Tensor(source.reshape(-1), [place]), x).contiguous()


def _put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> Any:
    if x.dtype.is_complex or x.numel() == 0 or index.numel() == 0 or _is_rearranged(x):
        return NotImplemented
    if not statically_known_true(index.numel() == source.numel()):
        return NotImplemented
    flat = aten.index_put.default(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.view(x.shape)


def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> Any:
    """Positions of what is not 0 are written in order to as many places as there are; one more takes the others."""
    if x.dtype.is_complex or not isinstance(size, int):
        return NotImplemented
    if x.dim() == 0 or x.numel() == 0:
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    is_wanted = (x != 0).reshape(-1)
    order = torch.cumsum(is_wanted, 0) - 1
    place = torch.where(is_wanted & (order < size), order, size)
    position = torch.arange(x.numel(), device=x.device)
    found = torch.full((size + 1,), -1, dtype=torch.int64, device=x.device).scatter(0, place, position)[:size]
    columns = []
    stride = x.numel()
    for length in x.shape:
        stride //= length
        columns.append(torch.where(found < 0, fill_value, (found // stride) % length))
    return torch.stack(columns, 1)


def _repeat_interleave(repeats: torch.Tensor, *, output_size: Any = None) -> Any:
    if output_size is None or repeats.shape[0] == 0:
        return NotImplemented
    ends = torch.cumsum(repeats, 0)
    if repeats.device.type == "cpu":  # CUDA checks nothing
        aten._assert_async.msg(ends[-1] == output_size, "allocated size does not match required size")
        aten._assert_async.msg((repeats >= 0).all(), "repeats can not be negative")
    position = torch.arange(output_size, dtype=ends.dtype, device=repeats.device)
    found = aten.searchsorted.Tensor(ends, position, right=True)
    return found.clamp(max=repeats.shape[0] - 1).to(repeats.dtype)


def _index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Any:
    """The one case that the graph dialect has no op for: a mask over leading dimensions, whose k-th true element takes
    the k-th of the values."""
    mask = indices[0] if indices else None
    if len(indices) != 1 or mask is None or mask.dtype is not torch.bool or x.dtype.is_complex:
        return NotImplemented
    rest = x.dim() - mask.dim()
    if mask.dim() == 0 or rest < 0 or values.dim() != rest + 1 or values.dtype is not x.dtype:
        return NotImplemented
    length = values.shape[0]
    if not isinstance(length, int) or length == 0 or values.shape[1:] != x.shape[mask.dim() :]:
        return NotImplemented
    count = torch.cumsum(mask.reshape(-1), 0)
    if length == 1:
        taken = values
    else:
        place = count.view(mask.shape) - 1
        if x.device.type == "cpu":
            message = f"shape mismatch: {length} values for another number of true elements of a mask"
            aten._assert_async.msg(count[-1] == length, message)
            place = place.clamp(max=length - 1)
        else:  # an index past the end
            place = torch.where(count[-1] == length, place, length)
        taken = aten.index.Tensor(values, [torch.where(mask, place, 0)])
    if accumulate:
        taken = x + taken
    return torch.where(mask.reshape((*mask.shape, *[1] * rest)), taken, x).contiguous()


def _embedding_dense_backward(
    grad: torch.Tensor, indices: torch.Tensor, num_weights: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Any:
    if not scale_grad_by_freq:
        return NotImplemented
    places, ones = indices.reshape(-1), torch.ones_like(indices).reshape(-1)
    counts = torch.zeros((num_weights,), dtype=indices.dtype, device=indices.device)
    counts = aten.index_put.default(counts, [places], ones, True)
    scale = aten.index.Tensor(counts, [indices]).to(grad.dtype).unsqueeze(-1)
    return aten.embedding_dense_backward.default(grad / scale, indices, num_weights, padding_idx, False)


# Whether the operator itself is asked for what a decomposition leaves to it.
_is_asked = contextvars.ContextVar("_is_asked", default=False)


def _embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """The bag of each index is an empty tensor where ATen's fast kernel adds rows, which it has for bfloat16, too. The
    operator's fake implementation forgets that. The backward operator takes either."""
    is_fast = mode == 0 and padding_idx < 0 and weight.stride(1) == 1
    if _is_asked.get() or weight.dtype != torch.bfloat16 or weight.device.type != "cpu" or not is_fast:
        return NotImplemented
    if per_sample_weights is not None and per_sample_weights.stride(0) != 1:
        return NotImplemented
    token = _is_asked.set(True)
    try:
        found = aten._embedding_bag.default(
            weight,
            indices,
            offsets,
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            include_last_offset,
            padding_idx,
        )
    finally:
        _is_asked.reset(token)
    return found[0], offsets.new_empty([0]), found[2], found[3]


def _eye(
    n: Any, m: Any, dtype: torch.dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    """torch's decomposition counts in uint16, for which it has no kernel of `arange`."""
    if layout not in (None, torch.strided) or pin_memory:
        return NotImplemented
    rows, columns = torch.arange(n, device=device).unsqueeze(-1), torch.arange(m, device=device)
    return (rows == columns).to(dtype or torch.get_default_dtype())


def _eye_square(n: Any, **options: Any) -> Any:
    return _eye(n, n, **options)


def indexing() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten._embedding_bag.default: _embedding_bag,
        aten.eye.default: _eye_square,
        aten.eye.m: _eye,
        aten.embedding_dense_backward.default: _embedding_dense_backward,
        aten.index_put.default: _index_put,
        aten.masked_scatter.default: _masked_scatter,
        aten.max_unpool2d.default: _max_unpool2d,
        aten.max_unpool3d.default: _max_unpool3d,
        aten.nonzero_static.default: _nonzero_static,
        aten.put.default: _put,
        aten.repeat_interleave.Tensor: _repeat_interleave,
    }
