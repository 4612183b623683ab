"""Reductions and scans."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from torch_tile.errors import InvalidKernelError
from torch_tile.language import arith
from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, error, method, named, tensor
from torch_tile.language.dtypes import float32, int1, int32, uint32
from torch_tile.language.ops.math import where
from torch_tile.language.ops.shapes import _expand, arange, ravel, reshape
from torch_tile.language.values import as_axis, as_tensor, broadcast_to_dims, describe

SECTION = "Reductions and scans"


def _call_combine(combine_fn: Any, left: list[tensor], right: list[tensor]) -> list[tensor]:
    function = unwrap(combine_fn)
    if not callable(function):
        raise error(f"expected a function that combines two values, got {describe(function)}")
    try:
        got = function(*left, *right)
    except InvalidKernelError:
        # One that branches takes scalars. The compiler computes both sides for all elements.
        if current().tracing or not left[0].dims:
            raise
        return _combine_one_by_one(combine_fn, left, right)
    results = list(got) if isinstance(got, (list, builtins.tuple)) else [got]
    if len(results) != len(left):
        raise error(f"expected a combine function that returns {len(left)} values, got {len(results)}")
    for result, operand in zip(results, left, strict=True):
        if not isinstance(result, tensor):
            raise error(f"expected a combine function that returns values of the tile language, got {describe(result)}")
        if result.dtype != operand.dtype:
            raise error(
                f"expected a combine function that keeps the type {operand.dtype}, got {result.dtype}; cast its result"
            )
    return results


_COMBINED = "one of each tile from the left and one of each from the right"


def check_takes(function: Any, count: int, what: str, values: str) -> None:
    """Refuses a function that does not take `count` values; `values` says what those are."""
    function = unwrap(function)
    if not callable(function):
        raise error(f"{what} expected a function, got {describe(function)}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # of C
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        name = getattr(function, "__name__", "the function")
        raise error(f"{what} expected a function of {count} values, {values}, got {name}{signature}") from None


def _combine_one_by_one(combine_fn: Any, left: list[tensor], right: list[tensor]) -> list[tensor]:
    made = [np.empty(x.dims, x.dtype.carrier) for x in left]
    for place in np.ndindex(*left[0].dims):
        scalars = [[tensor(x.value[place], x.dtype) for x in side] for side in (left, right)]
        for values, result in zip(made, _call_combine(combine_fn, *scalars), strict=True):
            values[place] = result.value
    return [tensor(values, x.dtype, x.dims) for values, x in zip(made, left, strict=True)]


def _take(x: tensor, axis: int, part: builtins.slice | int) -> tensor:
    value = x.value[(builtins.slice(None),) * axis + (part,)]
    return tensor(value, x.dtype, np.shape(value))


def _halve(
    tiles: list[tensor], axis: int, combine: Callable[[list[tensor], list[tensor]], list[tensor]]
) -> list[tensor]:
    """Combines the halves of an axis until one is left; compiled code does so too, for axes that fit its lanes."""
    size = tiles[0].dims[axis]
    while size > 1:
        half = size // 2
        left = [_take(t, axis, builtins.slice(0, half)) for t in tiles]
        right = [_take(t, axis, builtins.slice(half, size)) for t in tiles]
        tiles, size = combine(left, right), half
    return [_take(t, axis, 0) for t in tiles]


def _reduce(tiles: list[tensor], axis: int, combine_fn: Any, kind: str = "") -> list[tensor]:
    """One axis. `kind` names a binary operation that the combine function is known to be."""
    dims = tiles[0].dims[:axis] + tiles[0].dims[axis + 1 :]
    run = current()
    if run.tracing:
        names = run.region(
            "tile.reduce",
            tiles,
            f"axis {axis}",
            [t.dtype for t in tiles],
            dims,
            lambda left, right: _call_combine(combine_fn, left, right),
        )
        return [tensor(name, t.dtype, dims) for name, t in zip(names, tiles, strict=True)]
    ufunc = arith.BINARY[kind][0] if kind else None
    source = tiles[0]
    # Orders that make no difference are numpy's own.
    if ufunc is not None and (source.dtype.is_int() or kind in ("maximum", "minimum")) and source.dtype is not int1:
        value = ufunc.reduce(source.value, axis=axis, dtype=source.value.dtype)
        return [tensor(value, source.dtype, dims)]
    return _halve(tiles, axis, lambda left, right: _call_combine(combine_fn, left, right))


def reduce_tiles(
    inputs: list[tensor], axis: Any, combine_fn: Any, keep_dims: Any, what: str, kind: str = ""
) -> list[tensor]:
    dims = inputs[0].dims
    for x in inputs:
        if x.dims != dims:
            raise error(f"{what} expected tiles of one shape, got {', '.join(str(t.type) for t in inputs)}")
    axis = unwrap(axis)
    if not dims:
        raise error(f"{what} expected a tile, got the scalar {inputs[0].type}")
    if axis is None:
        results = _reduce([ravel(x) for x in inputs], 0, combine_fn, kind)
        return [reshape(r, (1,) * len(dims)) for r in results] if unwrap(keep_dims) else results
    axis = as_axis(axis, len(dims), what)
    results = _reduce(inputs, axis, combine_fn, kind)
    return [_expand(r, axis) for r in results] if unwrap(keep_dims) else results


def _results(results: list[tensor], is_single: bool) -> Any:
    return results[0] if is_single else builtins.tuple(results)


def _inputs(x: Any, what: str) -> tuple[list[tensor], bool]:
    x = unwrap(x)
    if isinstance(x, (list, builtins.tuple)):
        return [as_tensor(v, f"operands of {what}") for v in x], False
    return [as_tensor(x, f"an operand of {what}")], True


@named(SECTION)
@method
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Combines all elements along an axis.

    Args:
        input: tile, or a tuple of tiles of one shape.
        axis: axis to remove; None for all of them.
        combine_fn: takes one value of each tile from the left and one of each from the right, returns one of each.
            It is taken to be associative and commutative: pieces of the axis are combined in any order.
        keep_dims: keep the axis with size 1.

    Returns:
        A tile, or a tuple of them.

    Raises:
        InvalidKernelError: `axis` is out of range, the shapes differ, or the combine function changes a type.

    Example:
        >>> largest = tl.reduce(x, 0, lambda a, b: tl.maximum(a, b))
    """
    tiles, is_single = _inputs(input, "tl.reduce")
    check_takes(combine_fn, 2 * len(tiles), "tl.reduce", _COMBINED)
    return _results(reduce_tiles(tiles, axis, combine_fn, keep_dims, "tl.reduce"), is_single)


def _sum_type(x: tensor, dtype: Any) -> Any:
    dtype = unwrap(dtype)
    if dtype is not None:
        return dtype
    if x.dtype.is_int() and x.dtype.primitive_bitwidth < 32:
        return int32 if x.dtype.is_int_signed() else uint32
    return x.dtype


def _check_numbers(x: tensor, what: str) -> tensor:
    if x.dtype.is_ptr():
        raise error(f"{what} expected numbers, got {x.type}")
    return x


def _add(a: Any, b: Any) -> Any:
    return a + b


def _multiply(a: Any, b: Any) -> Any:
    return a * b


def _xor(a: Any, b: Any) -> Any:
    return a ^ b


def _or(a: Any, b: Any) -> Any:
    return a | b


@named(SECTION)
@method
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Any:
    """Adds the elements along an axis.

    Args:
        input: tile. Integers narrower than 32 bits are added as 32 bits; floats in their own type.
        axis: axis to remove; None for all of them.
        keep_dims: keep the axis with size 1.
        dtype: type in which to add.

    The order of additions is fixed per shape. The interpreter adds halves of the axis until one is left; compiled code
    adds pieces of a long axis first, so last bits of float sums may differ.

    Example:
        >>> total = tl.sum(x, axis=0)
    """
    x = _check_numbers(as_tensor(input), "tl.sum")
    x = cast(x, _sum_type(x, dtype))
    return reduce_tiles([x], axis, _add, keep_dims, "tl.sum", "add")[0]


@named(SECTION)
@method
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> Any:
    """Exclusive or of the elements along an axis. Integers."""
    x = as_tensor(input)
    if not x.dtype.is_int():
        raise error(f"tl.xor_sum expected integers, got {x.type}")
    return reduce_tiles([x], axis, _xor, keep_dims, "tl.xor_sum", "xor")[0]


@named(SECTION)
@method
def reduce_or(input: Any, axis: Any = None, keep_dims: Any = False) -> Any:
    """Bitwise or of the elements along an axis. Integers and conditions."""
    x = as_tensor(input)
    if not x.dtype.is_int():
        raise error(f"tl.reduce_or expected integers, got {x.type}")
    return reduce_tiles([x], axis, _or, keep_dims, "tl.reduce_or", "or")[0]


def _wide(x: tensor) -> tensor:
    if x.dtype.primitive_bitwidth >= 32:
        return x
    return cast(x, float32 if x.dtype.is_floating() else int32)


def _extremum(what: str, kind: str, x: Any, axis: Any, return_indices: Any, tie_left: Any, keep_dims: Any) -> Any:
    x = _check_numbers(as_tensor(x), what)
    if not unwrap(return_indices):
        return reduce_tiles([_wide(x)], axis, lambda a, b: arith.apply(kind, a, b), keep_dims, what, kind)[0]
    if unwrap(axis) is None:
        indices = "" if what.startswith("tl.arg") else " with return_indices"
        raise error(f"{what}{indices} expected an axis, got None; use x.ravel() first")
    place = as_axis(axis, len(x.dims), what)
    index = arange(0, x.dims[place])
    for k in builtins.range(len(x.dims)):
        if k != place:
            index = _expand(index, k)
    index = broadcast_to_dims(index, x.dims)
    comparison = "gt" if kind == "maximum" else "lt"

    def combine(v1: Any, i1: Any, v2: Any, i2: Any) -> Any:
        better = arith.compare(comparison, v1, v2)
        if unwrap(tie_left):
            better = better | ((v1 == v2) & (i1 < i2))
        return where(better, v1, v2), where(better, i1, i2)

    return builtins.tuple(reduce_tiles([x, index], place, combine, keep_dims, what))


@named(SECTION)
@method
def max(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The greatest element along an axis. Without indices, NaN are passed over.

    Args:
        input: tile. Without indices, types narrower than 32 bits become float32 or int32.
        axis: axis to remove; None for all of them.
        return_indices: also return where it is, as int32.
        return_indices_tie_break_left: of equal elements take the first.
        keep_dims: keep the axis with size 1.

    With indices, two elements are combined by a comparison, as in Triton: the left one is taken if it is greater. It
    never is beside NaN, so where a NaN stands decides what comes out: the NaN, or a number that need not be the
    greatest. Replace NaN first, `tl.where(x == x, x, float("-inf"))`.

    Example:
        >>> row_max = tl.max(row, axis=0)
    """
    return _extremum("tl.max", "maximum", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


@named(SECTION)
@method
def min(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The least element along an axis; as tl.max otherwise, beside NaN too."""
    return _extremum("tl.min", "minimum", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


@named(SECTION)
@method
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """Index of the greatest element along an axis, as int32; of equal ones the first.

    Where a NaN stands decides what comes out, as of tl.max with indices.
    """
    return _extremum("tl.argmax", "maximum", input, axis, True, tie_break_left, keep_dims)[1]


@named(SECTION)
@method
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """Index of the least element along an axis, as int32; of equal ones the first.

    Where a NaN stands decides what comes out, as of tl.max with indices.
    """
    return _extremum("tl.argmin", "minimum", input, axis, True, tie_break_left, keep_dims)[1]
