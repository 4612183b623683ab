"""Functions of each element."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from torch_tile.language import arith
from torch_tile.language.core import (
    as_tensor,
    broadcast_to_dims,
    cast,
    common_shape,
    constant,
    current,
    emit,
    error,
    method,
    mlir_type,
    named,
    operand,
    tensor,
    unify,
    unwrap,
)
from torch_tile.language.dtypes import float32, int1, int_type, tile_type

SECTION = "Math"


class PropagateNan(enum.Enum):
    NONE = 0
    ALL = 1


def unary_float(name: str, x: Any, eager: Callable[[Any], Any], mlir: str) -> tensor:
    """A function of floats. float16, bfloat16 and integers are computed as the language says: in their own type."""
    x = as_tensor(x, f"an operand of tl.{name}")
    if not x.dtype.is_floating():
        raise error(f"tl.{name} expected floats, got {x.type}; cast first, `.to(tl.float32)`")
    run = current()
    if run.tracing:
        if x.dtype.is_fp8():
            return cast(
                tensor(run.op(mlir, [cast(x, float32)], tile_type(float32, x.dims).mlir), float32, x.dims), x.dtype
            )
        return tensor(run.op(mlir, [x], mlir_type(x)), x.dtype, x.dims)
    value = eager(x.value)
    if x.dtype.is_narrow_float:
        value = run.round(x.dtype, value)
    if run.checks_nan:
        run.check_nan(value, (x.value,))
    return tensor(value, x.dtype, x.dims)


def through_torch(name: str) -> Callable[[Any], Any]:
    """A function that numpy lacks."""

    def compute(value: Any) -> Any:
        import torch

        function: Any = getattr(torch.special, name, None) or getattr(torch, name)
        return function(torch.from_numpy(np.array(value, copy=True, ndmin=1))).numpy().reshape(np.shape(value))[()]

    return compute


_erf = through_torch("erf")


def _rsqrt(value: Any) -> Any:
    return value.dtype.type(1) / np.sqrt(value)


@named(SECTION)
@method
def exp(x: Any) -> tensor:
    """e to the power of each element. Floats; the type of the result is that of `x`."""
    return unary_float("exp", x, np.exp, "math.exp")


@named(SECTION)
@method
def exp2(x: Any) -> tensor:
    """2 to the power of each element. Floats."""
    return unary_float("exp2", x, np.exp2, "math.exp2")


@named(SECTION)
@method
def log(x: Any) -> tensor:
    """Natural logarithm. Floats; NaN below 0, -inf at 0."""
    return unary_float("log", x, np.log, "math.log")


@named(SECTION)
@method
def log2(x: Any) -> tensor:
    """Logarithm to base 2. Floats."""
    return unary_float("log2", x, np.log2, "math.log2")


@named(SECTION)
@method
def sin(x: Any) -> tensor:
    """Sine. Floats."""
    return unary_float("sin", x, np.sin, "math.sin")


@named(SECTION)
@method
def cos(x: Any) -> tensor:
    """Cosine. Floats."""
    return unary_float("cos", x, np.cos, "math.cos")


@named(SECTION)
@method
def sqrt(x: Any) -> tensor:
    """Square root, correctly rounded. Floats."""
    return unary_float("sqrt", x, np.sqrt, "math.sqrt")


@named(SECTION)
@method
def sqrt_rn(x: Any) -> tensor:
    """Square root, correctly rounded. Floats."""
    return unary_float("sqrt_rn", x, np.sqrt, "math.sqrt")


@named(SECTION)
@method
def rsqrt(x: Any) -> tensor:
    """1 / sqrt(x). Floats."""
    return unary_float("rsqrt", x, _rsqrt, "math.rsqrt")


@named(SECTION)
@method
def erf(x: Any) -> tensor:
    """Error function. Floats."""
    return unary_float("erf", x, _erf, "math.erf")


@named(SECTION)
@method
def floor(x: Any) -> tensor:
    """Largest whole number not above each element. Floats."""
    return unary_float("floor", x, np.floor, "math.floor")


@named(SECTION)
@method
def ceil(x: Any) -> tensor:
    """Smallest whole number not below each element. Floats."""
    return unary_float("ceil", x, np.ceil, "math.ceil")


@named(SECTION)
@method
def abs(x: Any) -> tensor:
    """Magnitude. Any number type; of the lowest signed integer, itself."""
    x = as_tensor(x, "an operand of tl.abs")
    if x.dtype.is_ptr():
        raise error(f"tl.abs expected numbers, got {x.type}")
    if x.dtype.is_int() and not x.dtype.is_signed_number():
        return x
    name = "math.absf" if x.dtype.is_floating() else "math.absi"
    return emit(x.dtype, x.dims, lambda: np.abs(x.value), lambda run: run.op(name, [x], mlir_type(x)))


@named(SECTION)
@method
def sigmoid(x: Any) -> tensor:
    """1 / (1 + exp(-x)). Floats."""
    x = as_tensor(x)
    return cast(1 / (1 + exp(-x)), x.dtype) if x.dtype.is_narrow_float else 1 / (1 + exp(-x))


@named(SECTION)
@method
def softmax(x: Any, dim: Any = None, keep_dims: Any = None, ieee_rounding: bool = False) -> tensor:
    """exp(x - max) / sum(exp(x - max)) along an axis, 0 by default. Floats."""
    from torch_tile.language.ops.reductions import max, sum

    x = as_tensor(x)
    axis = 0 if unwrap(dim) is None else dim
    e = exp(x - max(x, axis, keep_dims=True))
    return e / sum(e, axis, keep_dims=True)


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
def where(condition: Any, x: Any, y: Any) -> tensor:
    """`x` where the condition holds, else `y`. Both are computed.

    Args:
        condition: tile or scalar of conditions.
        x, y: numbers, scalars or tiles; they are brought to a common type and shape.

    Example:
        >>> relu = tl.where(x > 0, x, 0.0)
    """
    condition = as_tensor(condition, "a condition of tl.where")
    if condition.dtype is not int1:
        condition = cast(condition, int1)
    x, y = operand(x), operand(y)
    x_is_pointer = isinstance(x, tensor) and x.dtype.is_ptr()
    y_is_pointer = isinstance(y, tensor) and y.dtype.is_ptr()
    if x_is_pointer or y_is_pointer:
        a, b = as_tensor(x), as_tensor(y)
        if a.dtype != b.dtype:
            raise error(f"tl.where expected two pointers of one type, got {a.type} and {b.type}")
        return arith.select(condition, a, b)
    if not isinstance(x, tensor) and not isinstance(y, tensor):
        a, b = unify(as_tensor(x), as_tensor(y))
    else:
        a, b = unify(x, y)
    return arith.select(condition, a, b)


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
        names = run.multi(
            "arith.mului_extended", [broadcast_to_dims(v, dims) for v in (a, b)], str(tile_type(a.dtype, dims).mlir), 2
        )
        return str(names[1])

    return emit(a.dtype, dims, eager, build)


@named(SECTION)
def fdiv(x: Any, y: Any, ieee_rounding: bool = False, approx: bool = False) -> tensor:
    """x / y of floats, correctly rounded."""
    result = arith.arithmetic("truediv", as_tensor(x) if not isinstance(y, tensor) else x, y)
    if as_tensor(x).dtype.is_int() and as_tensor(y).dtype.is_int():
        raise error(f"tl.fdiv expected floats, got {as_tensor(x).type} and {as_tensor(y).type}")
    return result


@named(SECTION)
def div_rn(x: Any, y: Any) -> tensor:
    """x / y of floats, correctly rounded."""
    return fdiv(x, y)


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


def bits_type(x: tensor, signed: bool = True) -> Any:
    return int_type(x.dtype.primitive_bitwidth, signed)


def number(value: Any, like: tensor) -> tensor:
    return constant(value, like.dtype)
