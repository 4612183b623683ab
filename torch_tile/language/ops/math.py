"""Functions of each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torch_tile.language import arith
from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, emit, error, method, mlir_type, named, tensor
from torch_tile.language.dtypes import float32, int1, int_type, tile_type
from torch_tile.language.values import as_tensor, constant, operand, unify

SECTION = "Math"


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
        from torch.utils._python_dispatch import _disable_current_modes

        function: Any = getattr(torch.special, name, None) or getattr(torch, name)
        with _disable_current_modes():  # a graph that is compiled may have fake tensors switched on
            numbers = torch.from_numpy(np.array(value, copy=True, ndmin=1))
            return function(numbers).numpy().reshape(np.shape(value))[()]

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


def bits_type(x: tensor, signed: bool = True) -> Any:
    return int_type(x.dtype.primitive_bitwidth, signed)


def number(value: Any, like: tensor) -> tensor:
    return constant(value, like.dtype)
