"""Elements in another order: transposed, joined, taken apart."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from torch_tile.language.core import current, emit, error, method, mlir_type, named, tensor
from torch_tile.language.dtypes import tile_type
from torch_tile.language.ops.shapes import SECTION, _sizes, reshape
from torch_tile.language.values import (
    as_axis,
    as_int,
    as_tensor,
    broadcast_to_dims,
    common_shape,
    unify,
)


@named(SECTION)
@method
def trans(input: Any, *dims: Any) -> tensor:
    """Reorders axes: without `dims`, swaps the last two.

    Args:
        input: tile of rank 2 or more.
        dims: axis `dims[k]` of `input` becomes axis k.

    Example:
        >>> kt = tl.trans(k)
    """
    x = as_tensor(input)
    order = _sizes(dims)
    if not order:
        if len(x.dims) < 2:
            raise error(f"tl.trans expected a tile of at least two axes, got {x.type}")
        order = (*builtins.range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2)
    return permute(x, order)


@named(SECTION)
@method
def permute(input: Any, *dims: Any) -> tensor:
    """Reorders axes: axis `dims[k]` of `input` becomes axis k.

    Raises:
        InvalidKernelError: `dims` is no permutation of all axes.
    """
    x = as_tensor(input)
    order = builtins.tuple(as_int(d, "tl.permute: axis") for d in _sizes(dims))
    rank = len(x.dims)
    if sorted(d % rank if rank and -rank <= d < rank else d for d in order) != [*builtins.range(rank)]:
        raise error(f"tl.permute expected a permutation of the axes 0 to {rank - 1} of {x.type}, got {list(order)}")
    order = builtins.tuple(d % rank for d in order)
    sizes = builtins.tuple(x.dims[d] for d in order)

    def build(run: Any) -> str:
        text = f"{mlir_type(x)} -> {tile_type(x.dtype, sizes).mlir}"
        return str(run.op("tile.trans", [x], text, after=f" perm [{', '.join(map(str, order))}]"))

    return emit(x.dtype, sizes, lambda: np.transpose(x.value, order), build, x.origin)


setattr(tensor, "T", property(lambda x: permute(x, *reversed(builtins.range(len(x.dims))))))  # noqa: B010


@named(SECTION)
def cat(input: Any, other: Any, can_reorder: bool = False, dim: Any = 0) -> tensor:
    """The elements of `other` after those of `input`, along an axis. The order is always kept.

    Raises:
        InvalidKernelError: the tiles differ in shape or type.
    """
    x, y = as_tensor(input), as_tensor(other)
    if x.dims != y.dims or x.dtype != y.dtype or not x.dims:
        raise error(f"tl.cat expected two tiles of one shape and type, got {x.type} and {y.type}")
    axis = as_axis(dim, len(x.dims), "tl.cat")
    if axis:
        order = (axis, *(a for a in builtins.range(len(x.dims)) if a != axis))
        back = builtins.tuple(order.index(a) for a in builtins.range(len(x.dims)))
        return permute(cat(permute(x, order), permute(y, order)), back)
    dims = (2 * x.dims[0], *x.dims[1:])
    return emit(
        x.dtype,
        dims,
        lambda: np.concatenate([x.value, y.value]),
        lambda run: run.op("tile.cat", [x, y], f"{mlir_type(x)} -> {tile_type(x.dtype, dims).mlir}"),
        x.origin if x.origin is y.origin else None,
    )


@named(SECTION)
def join(a: Any, b: Any) -> tensor:
    """A new last axis of size 2: `a` at 0, `b` at 1.

    Example:
        >>> interleaved = tl.join(a, b).reshape([2 * BLOCK])
    """
    x, y = as_tensor(a), as_tensor(b)
    if x.dtype != y.dtype:
        x, y = unify(x, y)
    dims = common_shape(x.dims, y.dims)
    x, y = broadcast_to_dims(x, dims), broadcast_to_dims(y, dims)
    wide = (*dims, 2)
    return emit(
        x.dtype,
        wide,
        lambda: np.stack([x.value, y.value], axis=-1),
        lambda run: run.op("tile.join", [x, y], f"{mlir_type(x)} -> {tile_type(x.dtype, wide).mlir}"),
        x.origin if x.origin is y.origin else None,
    )


@named(SECTION)
@method
def split(a: Any) -> Any:
    """Takes the last axis, of size 2, apart: two tiles without it.

    Raises:
        InvalidKernelError: the last axis has another size.
    """
    x = as_tensor(a)
    if not x.dims or x.dims[-1] != 2:
        raise error(f"tl.split expected a tile whose last axis has size 2, got {x.type}; reshape it first")
    dims = x.dims[:-1]
    run = current()
    if run.tracing and not dims:
        return builtins.tuple(reshape(part, ()) for part in split(reshape(x, (1, 2))))
    if run.tracing:
        names = run.multi("tile.split", [x], f"{mlir_type(x)} -> {tile_type(x.dtype, dims).mlir}", 2)
        return builtins.tuple(tensor(name, x.dtype, dims) for name in names)
    return builtins.tuple(tensor(x.value[..., k], x.dtype, dims, x.origin) for k in (0, 1))


@named(SECTION)
def interleave(a: Any, b: Any) -> tensor:
    """Elements of `a` and `b` in turn along the last axis."""
    joined = join(a, b)
    dims = joined.dims
    return joined if len(dims) == 1 else reshape(joined, (*dims[:-2], 2 * dims[-2]))
