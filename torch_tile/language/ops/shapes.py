"""Making tiles, and changing their shape."""

from __future__ import annotations

import builtins
import functools
from typing import Any

import numpy as np

from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import emit, error, method, mlir_type, named, tensor
from torch_tile.language.dtypes import dtype_of_number, int32, tile_type
from torch_tile.language.values import (
    as_axis,
    as_dtype,
    as_int,
    as_shape,
    as_tensor,
    broadcast_to_dims,
    common_shape,
    constant,
    describe,
    is_number,
    repeats_to,
)

SECTION = "Tiles and shapes"


@functools.lru_cache(maxsize=256)
def _iota(start: int, end: int) -> Any:
    numbers = np.arange(start, end, dtype=np.int32)
    numbers.flags.writeable = False
    return numbers


@named(SECTION)
def arange(start: Any, end: Any) -> tensor:
    """start, start + 1, ..., end - 1.

    Args:
        start, end: integers known when the kernel is compiled; end - start is a power of two.

    Returns:
        Tile of int32, shape [end - start].

    Raises:
        InvalidKernelError: the range is empty, not a power of two long, or known at run time only.

    Example:
        >>> offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    """
    start, end = as_int(start, "tl.arange: start"), as_int(end, "tl.arange: end")
    size = end - start
    if size <= 0:
        raise error(f"tl.arange expected end to be greater than start, got {start} and {end}")
    if size & (size - 1):
        raise error(
            f"tl.arange expected a range whose size is a power of two, got {size} ({start} to {end}); round up "
            "with `torch_tile.next_power_of_2` and mask the rest"
        )

    def build(run: Any) -> str:
        iota = tensor(run.text(f"tile.iota : tensor<{size}xi32>"), int32, (size,))
        return str((iota + start).value if start else iota.value)

    return emit(int32, (size,), lambda: _iota(start, end), build)


@named(SECTION)
def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """A tile that holds one value everywhere.

    Args:
        shape: sizes, powers of two.
        value: number or scalar.
        dtype: element type.

    Raises:
        InvalidKernelError: a size is no power of two, or `value` is a tile.

    Example:
        >>> lowest = tl.full([BLOCK], -float("inf"), tl.float32)
    """
    dims = as_shape(shape, "tl.full")
    dtype = as_dtype(dtype, "tl.full: dtype")
    value = unwrap(value)
    if not isinstance(value, tensor):
        if not is_number(value):
            raise error(f"tl.full expected a number as value, got {describe(value)}")
        return constant(value, dtype, dims)
    if value.dims and value.numel > 1:
        raise error(f"tl.full expected a number or scalar as value, got {value.type}")
    return broadcast_to_dims(cast(value if not value.dims else reshape(value, ()), dtype), dims)


@named(SECTION)
def zeros(shape: Any, dtype: Any) -> tensor:
    """A tile of zeros.

    Args:
        shape: sizes, powers of two.
        dtype: element type.

    Example:
        >>> acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    """
    return full(shape, 0, dtype)


@named(SECTION)
def zeros_like(input: Any) -> tensor:
    """Zeros of the shape and type of `input`."""
    input = as_tensor(input)
    return constant(0, input.dtype, input.dims)


@named(SECTION)
def to_tensor(x: Any) -> tensor:
    """A number as a scalar of the kernel: int32 for integers that fit, float32 for floats."""
    return as_tensor(x)


@named(SECTION)
@method
def expand_dims(input: Any, axis: Any) -> tensor:
    """New axes of size 1; the same as indexing with None.

    Args:
        input: tile of any type.
        axis: position, or a list of positions, in the result.

    Example:
        >>> column = tl.expand_dims(rows, 1)
    """
    x = as_tensor(input)
    axis = unwrap(axis)
    axes = [unwrap(a) for a in axis] if isinstance(axis, (list, builtins.tuple)) else [axis]
    rank = len(x.dims) + len(axes)
    for a in sorted(as_axis(a, rank, "tl.expand_dims") for a in axes):
        x = _expand(x, a)
    return x


def _expand(x: tensor, axis: int) -> tensor:
    dims = (*x.dims[:axis], 1, *x.dims[axis:])

    def build(run: Any) -> str:
        type_ = tile_type(x.dtype, dims).mlir
        if not x.dims:
            return str(run.op("tile.splat", [x], f"{mlir_type(x)} -> {type_}"))
        return str(run.op("tile.expand_dims", [x], f"{mlir_type(x)} -> {type_}", after=f" axis {axis}"))

    return emit(x.dtype, dims, lambda: np.reshape(x.value, dims), build, x.origin)


def index(x: tensor, key: Any) -> Any:
    """x[None, :], x[:, None]: new axes. Single elements exist for a debugger only."""
    from torch_tile.language.core import _is_debugger

    items = key if isinstance(key, builtins.tuple) else (key,)
    items = builtins.tuple(unwrap(k) for k in items)
    everything = builtins.slice(None)
    if not all(k is None or k is Ellipsis or (isinstance(k, builtins.slice) and k == everything) for k in items):
        if not isinstance(x.value, str) and _is_debugger(2):
            return x.value[key]
        raise error(
            f"unsupported tensor index [{', '.join(map(_index_text, items))}]: a tile is indexed with None and `:` "
            "only; to take elements use tl.gather, tl.where with tl.sum, or load them from memory"
        )
    if Ellipsis in items:
        at = items.index(Ellipsis)
        rest = len(x.dims) - sum(k is not None for k in items) + 1
        items = items[:at] + (everything,) * rest + items[at + 1 :]
    taken = sum(k is not None for k in items)
    if taken > len(x.dims):
        raise error(f"expected at most {len(x.dims)} `:` for {x.type}, got {taken}")
    for position, k in enumerate(items):
        if k is None:
            x = _expand(x, position)
    return x


def _index_text(k: Any) -> str:
    if isinstance(k, builtins.slice):
        return ":".join("" if v is None else str(v) for v in (k.start, k.stop))
    return str(k)


setattr(tensor, "__getitem__", index)  # noqa: B010


@named(SECTION)
@method
def broadcast_to(input: Any, *shape: Any) -> tensor:
    """Repeats along axes of size 1 until the shape is `shape`.

    Raises:
        InvalidKernelError: a size differs and is not 1.
    """
    x = as_tensor(input)
    dims = as_shape(_sizes(shape), "tl.broadcast_to")
    if not repeats_to(x.dims, dims):
        raise error(f"tl.broadcast_to expected a shape to which {list(x.dims)} can be repeated, got {list(dims)}")
    return broadcast_to_dims(x, dims)


@named(SECTION)
def broadcast(input: Any, other: Any) -> Any:
    """Both operands, repeated to their common shape."""
    x, y = as_tensor(input), as_tensor(other)
    dims = common_shape(x.dims, y.dims)
    return broadcast_to_dims(x, dims), broadcast_to_dims(y, dims)


def _sizes(shape: Any) -> Any:
    """Sizes given one by one or as one list."""
    if len(shape) == 1 and isinstance(unwrap(shape[0]), (list, builtins.tuple)):
        return unwrap(shape[0])
    return shape


@named(SECTION)
@method
def reshape(input: Any, *shape: Any, can_reorder: bool = False) -> tensor:
    """The same elements in row-major order under another shape.

    Args:
        input: tile of any type.
        shape: sizes, powers of two, of the same number of elements.

    Raises:
        InvalidKernelError: the numbers of elements differ.

    Example:
        >>> pairs = tl.reshape(x, [BLOCK // 2, 2])
    """
    x = as_tensor(input)
    dims = as_shape(_sizes(shape), "tl.reshape")
    count = functools.reduce(lambda a, b: a * b, dims, 1)
    if count != x.numel:
        raise error(f"tl.reshape expected a shape of {x.numel} elements for {x.type}, got {list(dims)} of {count}")

    def build(run: Any) -> str:
        if x.dims == dims:
            return str(run.ref(x))
        if not x.dims:
            return str(run.op("tile.splat", [x], f"{mlir_type(x)} -> {tile_type(x.dtype, dims).mlir}"))
        if not dims:
            return str(run.unsplat(x))
        return str(run.op("tile.reshape", [x], f"{mlir_type(x)} -> {tile_type(x.dtype, dims).mlir}"))

    return emit(
        x.dtype, dims, lambda: np.reshape(x.value, dims) if dims else np.reshape(x.value, ())[()], build, x.origin
    )


@named(SECTION)
@method
def item(input: Any) -> tensor:
    """The only element of a tile, as a scalar."""
    return reshape(as_tensor(input), ())


@named(SECTION)
@method
def view(input: Any, *shape: Any) -> tensor:
    """The same as reshape."""
    return reshape(input, *shape)


@named(SECTION)
@method
def ravel(x: Any, can_reorder: bool = False) -> tensor:
    """All elements along one axis, in row-major order."""
    x = as_tensor(x)
    return reshape(x, (x.numel,))


@named(SECTION)
@method
def squeeze(x: Any, dim: Any) -> tensor:
    """Removes an axis of size 1."""
    x = as_tensor(x)
    axis = as_axis(dim, len(x.dims), "tl.squeeze")
    if x.dims[axis] != 1:
        raise error(f"tl.squeeze expected an axis of size 1, got axis {axis} of {x.type}")
    return reshape(x, x.dims[:axis] + x.dims[axis + 1 :])


@named(SECTION)
@method
def unsqueeze(x: Any, dim: Any) -> tensor:
    """Inserts an axis of size 1 at `dim`."""
    return expand_dims(x, dim)


def number_type(value: Any) -> Any:
    return dtype_of_number(value)
