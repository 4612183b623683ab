"""Order along an axis: sort, topk, flip. Compiled code uses bitonic networks, whose result does not depend on how."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language.casts import bitcast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, emit, error, method, mlir_type, named, tensor
from torch_tile.language.ops.arithmetic import PropagateNan, maximum
from torch_tile.language.ops.math import where
from torch_tile.language.ops.reductions import min, reduce
from torch_tile.language.ops.scans import gather
from torch_tile.language.ops.shapes import _expand, arange
from torch_tile.language.values import as_axis, as_int, as_tensor, broadcast_to_dims

SECTION = "Order"


def _last_axis(x: tensor, dim: Any, what: str) -> int:
    rank = len(x.dims)
    if not rank or x.dtype.is_ptr():
        raise error(f"{what} expected a tile of numbers, got {x.type}")
    axis = rank - 1 if unwrap(dim) is None else as_axis(dim, rank, what)
    if axis != rank - 1:
        raise error(f"{what} expected the last axis, {rank - 1}, got {axis}; use tl.permute first")
    return axis


def _partner(x: tensor, mask: int) -> tensor:
    """Element i ^ mask at i, of a tile whose last axis has more elements than `mask`."""

    def eager() -> Any:
        places = np.arange(x.dims[-1]) ^ mask
        return np.asarray(x.value)[..., places]

    def build(run: Any) -> str:
        return str(run.text(f"tile.shuffle_xor {run.ref(x)} by {mask} : {mlir_type(x)}"))

    return emit(x.dtype, x.dims, eager, build, x.origin)


def _swap(x: tensor, at: tensor, stride: int, block: int, descending: bool) -> tensor:
    """One step of a bitonic network on the last axis, along which `at` counts: pairs `stride` apart, ordered upward in
    even blocks."""
    partner = _partner(x, stride)
    is_high = (at & stride) != 0
    # The order turns with the number of the block in which a pair lies.
    turn = is_high ^ ((at & block) != 0) if block < x.dims[-1] else is_high
    turn = turn ^ descending
    if x.dtype.is_int():
        return where((x > partner) ^ turn, partner, x)
    # NaN comes after all numbers, as in the interpreter. Equal elements stay, zeros of both signs with them.
    low, high = where(is_high, partner, x), where(is_high, x, partner)
    is_ordered = (low <= high) | (high != high)
    return where((is_ordered ^ turn ^ is_high ^ True) & (x != partner), partner, x)


def sort_with_places(keys: tensor, places: tensor) -> tuple[tensor, tensor]:
    """Integers along the last axis in ascending order, and with each the place that it had, an integer; equal ones in
    the order of their places."""
    *outer, size = keys.dims
    at = broadcast_to_dims(_count(size, len(outer)), keys.dims)
    block = 2
    while block <= size:
        stride = block // 2
        while stride:
            other, place = _partner(keys, stride), _partner(places, stride)
            is_after = (keys > other) | ((keys == other) & (places > place))
            turn = ((at & stride) != 0) ^ ((at & block) != 0) if block < size else (at & stride) != 0
            takes = is_after ^ turn
            keys, places = where(takes, other, keys), where(takes, place, places)
            stride //= 2
        block *= 2
    return keys, places


def _count(size: int, outer: int) -> tensor:
    """The index along the last of `outer` + 1 axes."""
    at = arange(0, size)
    for _ in range(outer):
        at = _expand(at, 0)
    return at


def _bitonic(x: tensor, descending: bool) -> tensor:
    *outer, size = x.dims
    at = broadcast_to_dims(_count(size, len(outer)), x.dims)
    block = 2
    while block <= size:
        stride = block // 2
        while stride:
            x = _swap(x, at, stride, block, descending)
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
    """The elements along the last axis in ascending order, NaN after all numbers.

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


def _greater(a: Any, b: Any) -> tensor:
    """NaN where there is one: it comes after all numbers."""
    return maximum(a, b, PropagateNan.ALL)


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
        if not is_descending:
            return min(x, axis, keep_dims=True)
        return reduce(x, axis, _greater, keep_dims=True)
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
