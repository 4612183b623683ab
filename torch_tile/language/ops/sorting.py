"""Order along an axis: sort, topk, flip. Compiled code uses bitonic networks, whose result does not depend on how."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language.casts import bitcast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, error, method, named, tensor
from torch_tile.language.ops.math import where
from torch_tile.language.ops.rearranging import split
from torch_tile.language.ops.reductions import max, min
from torch_tile.language.ops.scans import gather
from torch_tile.language.ops.shapes import _expand, arange, reshape
from torch_tile.language.values import as_axis, as_int, as_tensor, broadcast_to_dims, constant

SECTION = "Order"


def _last_axis(x: tensor, dim: Any, what: str) -> int:
    rank = len(x.dims)
    if not rank or x.dtype.is_ptr():
        raise error(f"{what} expected a tile of numbers, got {x.type}")
    axis = rank - 1 if unwrap(dim) is None else as_axis(dim, rank, what)
    if axis != rank - 1:
        raise error(f"{what} expected the last axis, {rank - 1}, got {axis}; use tl.permute first")
    return axis


def _swap(x: tensor, stride: int, block: int, descending: bool) -> tensor:
    """One step of a bitonic network on the last axis: pairs `stride` apart, ordered upward in even blocks."""
    *outer, size = x.dims
    pairs = reshape(x, (*outer, size // (2 * stride), 2, stride))
    order = [*range(len(outer) + 1), len(outer) + 2, len(outer) + 1]
    low, high = split(pairs.permute(*order))
    # The order turns with the number of the block in which a pair lies; `low` is indexed by (pair block, offset).
    turn: Any = descending
    if block < size:
        blocks = arange(0, size // (2 * stride)) // (block // (2 * stride))
        turn = (blocks % 2 == 1) ^ descending
        turn = _expand(turn, 1)
        for _ in outer:
            turn = _expand(turn, 0)
        turn = broadcast_to_dims(turn, low.dims)
    else:
        turn = constant(descending, (low > high).dtype, low.dims)
    exchange = (low > high) ^ turn
    # Equal elements stay, so that exchange keeps both of them.
    exchange = exchange & (low != high)
    from torch_tile.language.ops.rearranging import join

    first, second = where(exchange, high, low), where(exchange, low, high)
    return reshape(join(first, second).permute(*order), x.dims)


def _bitonic(x: tensor, descending: bool) -> tensor:
    size = x.dims[-1]
    block = 2
    while block <= size:
        stride = block // 2
        while stride:
            x = _swap(x, stride, block, descending)
            stride //= 2
        block *= 2
    return x


def _sort(x: tensor, descending: bool) -> tensor:
    if current().tracing:
        return _bitonic(x, descending)
    value = np.sort(x.value, axis=-1)
    return tensor(value[..., ::-1] if descending else value, x.dtype, x.dims)


@named(SECTION)
@method
def sort(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """The elements along the last axis in ascending order.

    Args:
        x: tile of numbers.
        dim: the last axis, or None.
        descending: the greatest first.

    Raises:
        InvalidKernelError: another axis than the last.
    """
    x = as_tensor(x)
    _last_axis(x, dim, "tl.sort")
    return _sort(x, bool(unwrap(descending)))


@named(SECTION)
@method
def topk(x: Any, k: Any, dim: Any = None, descending: Any = True) -> tensor:
    """The `k` greatest elements along the last axis, the greatest first; with descending=False the least.

    Args:
        x: tile of numbers.
        k: a power of two, at most the size of the axis.
    """
    x = as_tensor(x)
    axis = _last_axis(x, dim, "tl.topk")
    k = as_int(k, "tl.topk: k")
    if k < 1 or k & (k - 1) or k > x.dims[axis]:
        raise error(f"tl.topk expected k to be a power of two up to {x.dims[axis]}, got {k}")
    is_descending = bool(unwrap(descending))
    if k == 1 and x.dtype.primitive_bitwidth >= 32:
        return max(x, axis, keep_dims=True) if is_descending else min(x, axis, keep_dims=True)
    ordered = _sort(x, is_descending)
    if not current().tracing:
        return tensor(ordered.value[..., :k], x.dtype, (*x.dims[:-1], k))
    at = arange(0, k)
    for _ in x.dims[:-1]:
        at = _expand(at, 0)
    return gather(ordered, broadcast_to_dims(at, (*x.dims[:-1], k)), axis)


@named(SECTION)
def bitonic_merge(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """Puts a bitonic sequence (one that rises, then falls) along the last axis in order."""
    x = as_tensor(x)
    _last_axis(x, dim, "tl.bitonic_merge")
    return _sort(x, bool(unwrap(descending)))


@named(SECTION)
@method
def flip(x: Any, dim: Any = None) -> tensor:
    """The elements along an axis, the last by default, in the opposite order."""
    x = as_tensor(x)
    if not x.dims:
        raise error(f"tl.flip expected a tile, got {x.type}")
    axis = len(x.dims) - 1 if unwrap(dim) is None else as_axis(dim, len(x.dims), "tl.flip")
    if not current().tracing:
        return tensor(np.flip(x.value, axis), x.dtype, x.dims)
    at = x.dims[axis] - 1 - arange(0, x.dims[axis])
    for k in range(len(x.dims)):
        if k != axis:
            at = _expand(at, k)
    return gather(x, broadcast_to_dims(at, x.dims), axis)


def same_bits(x: tensor, to: Any) -> tensor:
    return bitcast(x, to)
