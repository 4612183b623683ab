"""Arithmetic of two and three operands."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from torch_tile.language import arith
from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, emit, error, method, named, tensor
from torch_tile.language.dtypes import tile_type, uint32, uint64
from torch_tile.language.values import as_tensor, broadcast_to_dims, common_shape, operand, unify

SECTION = "Math"


class PropagateNan(enum.Enum):
    NONE = 0
    ALL = 1


def _nan(propagate_nan: Any) -> str:
    value = unwrap(propagate_nan)
    name = value if isinstance(value, str) else getattr(value, "name", str(value))
    return "_nan" if str(name).upper().endswith("ALL") else ""


@named(SECTION)
def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """The greater of two elements. Where one is NaN, the other; with PropagateNan.ALL, NaN."""
    return _extremum("maximum", x, y, propagate_nan)


@named(SECTION)
def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """The lesser of two elements. Where one is NaN, the other; with PropagateNan.ALL, NaN."""
    return _extremum("minimum", x, y, propagate_nan)


def _extremum(kind: str, x: Any, y: Any, propagate_nan: Any) -> tensor:
    suffix = _nan(propagate_nan)
    x, y = operand(x), operand(y)
    if not isinstance(x, tensor) and not isinstance(y, tensor):
        x = as_tensor(x)
    a, b = unify(x, y)
    return arith.apply(kind + (suffix if a.dtype.is_floating() else ""), a, b)


@named(SECTION)
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """Each element of `x`, moved into [min, max]. Floats.

    Raises:
        InvalidKernelError: `x` holds integers.
    """
    first = as_tensor(x)
    if not first.dtype.is_floating():
        raise error(f"tl.clamp expected floats, got {first.type}; use tl.minimum and tl.maximum")
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


@named(SECTION)
def fma(x: Any, y: Any, z: Any) -> tensor:
    """x * y + z, rounded once. Floats."""
    a, b, c = unify(*[as_tensor(v) if not isinstance(v, (int, float)) else v for v in (x, y, z)])
    if not a.dtype.is_floating():
        raise error(f"tl.fma expected floats, got {a.type}")
    if a.dtype.is_fp8():
        raise error(f"arithmetic on {a.dtype} is not supported: expected a wider type; cast first, `.to(tl.float16)`")
    dims = common_shape(common_shape(a.dims, b.dims), c.dims)

    def eager() -> Any:
        run = current()
        if a.dtype.carrier == np.float64:
            import math

            if hasattr(math, "fma"):
                return np.vectorize(math.fma, otypes=[np.float64])(a.value, b.value, c.value)[()]
            exact = np.multiply(a.value, b.value, dtype=np.longdouble) + c.value
            return exact.astype(np.float64)
        wide = _fused_float32(a.value, b.value, c.value)
        return run.round(a.dtype, wide) if a.dtype.is_narrow_float else wide.astype(np.float32)

    def build(run: Any) -> str:
        operands = [broadcast_to_dims(v, dims) for v in (a, b, c)]
        return str(run.op("math.fma", operands, tile_type(a.dtype, dims).mlir))

    return emit(a.dtype, dims, eager, build)


def _fused_float32(a: Any, b: Any, c: Any) -> Any:
    """a * b + c in float64, rounded to odd, so that rounding to float32 rounds once."""
    product = np.multiply(a, b, dtype=np.float64)
    addend = np.asarray(c).astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    error_ = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = (error_ != 0) & np.isfinite(total) & ((bits & 1) == 0)
    step = np.where((error_ > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64).reshape(np.shape(total))[()]


@named(SECTION)
def umulhi(x: Any, y: Any) -> tensor:
    """The upper half of the product of unsigned integers of 32 or 64 bits."""
    a, b = unify(x, y) if not (isinstance(x, int) and isinstance(y, int)) else unify(as_tensor(x), as_tensor(y))
    if not a.dtype.is_int() or a.dtype.primitive_bitwidth not in (32, 64):
        raise error(f"tl.umulhi expected integers of 32 or 64 bits, got {a.type}")
    dims = common_shape(a.dims, b.dims)

    def eager() -> Any:
        if a.dtype.primitive_bitwidth == 32:
            wide = np.multiply(
                np.asarray(a.value).astype(np.uint32), np.asarray(b.value).astype(np.uint32), dtype=np.uint64
            )
            return (wide >> np.uint64(32)).astype(a.dtype.carrier)
        u, v = (np.asarray(w.value).astype(np.uint64) for w in (a, b))
        mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
        low = (u & mask) * (v & mask)
        left = (u >> half) * (v & mask) + (low >> half)
        right = (u & mask) * (v >> half) + (left & mask)
        return ((u >> half) * (v >> half) + (left >> half) + (right >> half)).astype(a.dtype.carrier)[()]

    def build(run: Any) -> str:
        if a.dtype.primitive_bitwidth == 32:
            wide = [cast(cast(v, uint32), uint64) for v in (a, b)]
            return str(cast(cast((wide[0] * wide[1]) >> 32, uint32), a.dtype).value)
        # From halves: what carries from the lower products goes up.
        u, v = (cast(w, uint64) for w in (a, b))
        low = (u & 0xFFFFFFFF) * (v & 0xFFFFFFFF)
        left = (u >> 32) * (v & 0xFFFFFFFF) + (low >> 32)
        right = (u & 0xFFFFFFFF) * (v >> 32) + (left & 0xFFFFFFFF)
        high = (u >> 32) * (v >> 32) + (left >> 32) + (right >> 32)
        return str(run.ref(cast(high, a.dtype)))

    return emit(a.dtype, dims, eager, build)


@named(SECTION)
def fdiv(x: Any, y: Any, ieee_rounding: bool = False, approx: bool = False) -> tensor:
    """x / y of floats; with `ieee_rounding` the nearest float, else on GPU two units in the last place off at most."""
    kind = "truediv_rn" if unwrap(ieee_rounding) else "truediv"
    result = arith.arithmetic(kind, as_tensor(x) if not isinstance(y, tensor) else x, y)
    if as_tensor(x).dtype.is_int() and as_tensor(y).dtype.is_int():
        raise error(f"tl.fdiv expected floats, got {as_tensor(x).type} and {as_tensor(y).type}")
    return result


@named(SECTION)
def div_rn(x: Any, y: Any) -> tensor:
    """x / y of floats, correctly rounded."""
    return fdiv(x, y, ieee_rounding=True)


@named(SECTION)
@method
def cdiv(x: Any, div: Any) -> Any:
    """(x + div - 1) // div: how many pieces of `div` hold `x`. A plain integer if both are.

    Example:
        >>> for k in range(tl.cdiv(K, BLOCK_K)):
    """
    x, div = unwrap(x), unwrap(div)
    return (x + (div - 1)) // div


@named(SECTION)
def add(x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """x + y."""
    return arith.arithmetic("add", x, y)


@named(SECTION)
def sub(x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """x - y."""
    return arith.arithmetic("sub", x, y)


@named(SECTION)
def mul(x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """x * y."""
    return arith.arithmetic("mul", x, y)


@named(SECTION)
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Renumbers an order of rows into one of groups of `size_g` rows, column by column inside a group.

    Returns:
        New indices (i, j) of the program at (i, j) in a grid of size_i x size_j.
    """
    linear = i * size_j + j
    per_group = size_g * size_j
    group = linear // per_group
    first = group * size_g
    height = minimum(size_i - first, size_g)
    inside = linear % per_group
    return first + inside % height, inside // height
