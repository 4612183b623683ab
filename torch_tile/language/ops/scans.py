"""Scans, gather and histograms along an axis."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from torch_tile.language import arith
from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, emit, error, method, mlir_type, named, tensor
from torch_tile.language.dtypes import float32, int1, int32, tile_type
from torch_tile.language.ops.reductions import (
    _COMBINED,
    _add,
    _call_combine,
    _check_numbers,
    _inputs,
    _multiply,
    _results,
    _sum_type,
    _take,
    check_takes,
)
from torch_tile.language.values import as_axis, as_int, as_tensor, broadcast_to_dims

SECTION = "Reductions and scans"


def _scan(tiles: list[tensor], axis: int, combine_fn: Any, reverse: bool, kind: str = "") -> list[tensor]:
    run = current()
    dims = tiles[0].dims
    if run.tracing:
        names = run.region(
            "tile.scan",
            tiles,
            f"axis {axis}{' reverse' if reverse else ''}",
            [t.dtype for t in tiles],
            dims,
            lambda left, right: _call_combine(combine_fn, left, right),
        )
        return [tensor(name, t.dtype, dims) for name, t in zip(names, tiles, strict=True)]
    source = tiles[0]
    if kind and not source.dtype.is_narrow_float and source.dtype is not int1:
        turned = np.flip(source.value, axis) if reverse else source.value
        value = arith.BINARY[kind][0].accumulate(turned, axis=axis, dtype=turned.dtype)
        return [tensor(np.flip(value, axis) if reverse else value, source.dtype, dims)]
    size = dims[axis]
    order = builtins.range(size - 1, -1, -1) if reverse else builtins.range(size)
    steps: dict[int, list[tensor]] = {}
    so_far: list[tensor] = []
    for k in order:
        here = [_take(t, axis, k) for t in tiles]
        so_far = _call_combine(combine_fn, so_far, here) if so_far else here
        steps[k] = so_far
    rest = dims[:axis] + dims[axis + 1 :]
    return [
        tensor(np.stack([np.broadcast_to(steps[k][n].value, rest) for k in builtins.range(size)], axis), t.dtype, dims)
        for n, t in enumerate(tiles)
    ]


@named(SECTION)
@method
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """Combines, for each element, all elements up to it along an axis.

    Args:
        input: tile, or a tuple of tiles of one shape.
        axis: axis along which to go.
        combine_fn: takes the values so far and the next ones, one of each tile; taken to be associative.
        reverse: begin at the end.

    Returns:
        A tile of the same shape, or a tuple of them.

    Example:
        >>> running_max = tl.associative_scan(x, 0, lambda a, b: tl.maximum(a, b))
    """
    tiles, is_single = _inputs(input, "tl.associative_scan")
    check_takes(combine_fn, 2 * len(tiles), "tl.associative_scan", _COMBINED)
    for x in tiles:
        if x.dims != tiles[0].dims or not x.dims:
            raise error(f"tl.associative_scan expected tiles of one shape, got {', '.join(str(t.type) for t in tiles)}")
    axis = as_axis(axis, len(tiles[0].dims), "tl.associative_scan")
    return _results(_scan(tiles, axis, combine_fn, bool(unwrap(reverse))), is_single)


def _cumulative(what: str, combine: Any, kind: str, x: Any, axis: Any, reverse: Any, dtype: Any) -> tensor:
    x = _check_numbers(as_tensor(x), what)
    if not x.dims:
        raise error(f"{what} expected a tile, got the scalar {x.type}")
    type_ = _sum_type(x, dtype)
    # What is carried along is float32 where elements are narrower, as in products.
    x = cast(cast(x, type_), float32 if type_.is_narrow_float else type_)
    return cast(_scan([x], as_axis(axis, len(x.dims), what), combine, bool(unwrap(reverse)), kind)[0], type_)


@named(SECTION)
@method
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> tensor:
    """Sum of all elements up to each one along an axis. float16 and bfloat16 are added in float32.

    The interpreter adds one after the other. Compiled code may add pieces of an axis first and join their sums, so
    last bits of float sums may differ.
    """
    return _cumulative("tl.cumsum", _add, "add", input, axis, reverse, dtype)


@named(SECTION)
@method
def cumprod(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> tensor:
    """Product of all elements up to each one along an axis, multiplied in the order in which tl.cumsum adds."""
    return _cumulative("tl.cumprod", _multiply, "mul", input, axis, reverse, dtype)


@named(SECTION)
@method
def histogram(input: Any, num_bins: Any, mask: Any = None) -> tensor:
    """How often each of 0, 1, ..., num_bins - 1 occurs.

    Args:
        input: tile of 32-bit integers of one axis; values outside are not counted.
        num_bins: a power of two.
        mask: conditions of the same shape; elements where it is false are not counted.

    Returns:
        Tile of int32, shape [num_bins].
    """
    x = as_tensor(input)
    bins = as_int(num_bins, "tl.histogram: num_bins")
    if len(x.dims) != 1 or not x.dtype.is_int() or x.dtype.primitive_bitwidth != 32:
        raise error(f"tl.histogram expected a tile of 32-bit integers of one axis, got {x.type}")
    if bins < 1 or bins & (bins - 1):
        raise error(f"tl.histogram expected a number of bins that is a power of two, got {bins}")
    if mask is not None:
        mask = broadcast_to_dims(cast(as_tensor(mask), int1), x.dims)

    def eager() -> Any:
        inside = (x.value >= 0) & (x.value < bins)
        if mask is not None:
            inside &= mask.value
        return np.bincount(x.value[inside].astype(np.int64), minlength=bins).astype(np.int32)

    def build(run: Any) -> str:
        masked = f" mask {run.ref(mask)} : {mlir_type(mask)}" if mask is not None else ""
        return str(run.text(f"tile.histogram {run.ref(x)}{masked} : {mlir_type(x)} -> tensor<{bins}xi32>"))

    return emit(int32, (bins,), eager, build)


@named(SECTION)
@method
def gather(src: Any, index: Any, axis: Any) -> tensor:
    """Elements of a tile at computed places along an axis.

    Args:
        src: tile of any type.
        index: tile of integers in [0, size of `axis`); sizes agree with `src` on the other axes.
        axis: axis of `src` that is indexed.

    Returns:
        Tile of the shape of `index`.
    """
    x, at = as_tensor(src), as_tensor(index)
    if not at.dtype.is_int():
        raise error(f"tl.gather expected integers as index, got {at.type}")
    if len(at.dims) != len(x.dims) or not x.dims:
        raise error(f"tl.gather expected an index of the rank of its source, got {at.type} for {x.type}")
    axis = as_axis(axis, len(x.dims), "tl.gather")
    for k, (m, n) in enumerate(zip(x.dims, at.dims, strict=True)):
        if k != axis and m != n:
            raise error(f"tl.gather expected equal sizes on axis {k}, got {m} and {n}")

    def eager() -> Any:
        places = at.value.astype(np.int64)
        if ((places < 0) | (places >= x.dims[axis])).any():
            raise error(
                f"tl.gather expected indices in [0, {x.dims[axis]}), got {int(places.min())} to "
                f"{int(places.max())} in program {current().program}"
            )
        return np.take_along_axis(np.asarray(x.value), places, axis)

    def build(run: Any) -> str:
        result = tile_type(x.dtype, at.dims).mlir
        return str(
            run.text(f"tile.take {run.ref(x)}[{run.ref(at)}] axis {axis} : {mlir_type(x)}, {mlir_type(at)} -> {result}")
        )

    return emit(x.dtype, at.dims, eager, build, x.origin)


@named(SECTION)
def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """Applies a function of scalars, with any control flow, to each element.

    Args:
        scalar_fn: takes `pack` neighbours of each tile in order, returns `pack` values of each result.
        args: tiles; they are broadcast to one shape.
        pack: how many neighbours the function takes at once.

    Returns:
        A tile, or a tuple of them.
    """
    from torch_tile.language.values import common_shape

    tiles = [as_tensor(a) for a in args]
    dims: Any = ()
    for t in tiles:
        dims = common_shape(dims, t.dims)
    tiles = [broadcast_to_dims(t, dims) for t in tiles]
    pack = as_int(pack, "tl.map_elementwise: pack")
    run = current()
    function = unwrap(scalar_fn)
    what = f"{pack} neighbours of each tile" if pack > 1 else "one of each tile"
    check_takes(function, pack * len(tiles), "tl.map_elementwise", what)
    if run.tracing:
        return run.map(tiles, pack, dims, function)
    flat = [np.reshape(t.value, (-1, pack)) for t in tiles]
    columns: list[list[Any]] = []
    types: list[Any] = []
    for k in builtins.range(flat[0].shape[0]):
        scalars = [tensor(v[k, p], t.dtype) for v, t in zip(flat, tiles, strict=True) for p in builtins.range(pack)]
        got = function(*scalars)
        results = [as_tensor(r) for r in (got if isinstance(got, (list, builtins.tuple)) else [got])]
        if len(results) % pack:
            raise error(f"tl.map_elementwise expected a multiple of {pack} results, got {len(results)}")
        types = [r.dtype for r in results[::pack]]
        columns.append([r.value for r in results])
    table = [
        np.array([row[n * pack + p] for row in columns for p in builtins.range(pack)], t.carrier).reshape(dims)
        for n, t in enumerate(types)
    ]
    outputs = [tensor(v, t, dims) for v, t in zip(table, types, strict=True)]
    return outputs[0] if len(outputs) == 1 else builtins.tuple(outputs)
