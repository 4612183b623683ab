"""Operators of FX graphs on tiles of kernels of the tile language.

Values are tiles, scalars of a kernel, and Python numbers. Their types are those that the values have: an operand may be
wider than the graph says, as where a product is float32 until it is stored.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from torch_tile import language
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import dtype_of_torch

aten = torch.ops.aten
# Its values are of types that Python does not see.
tl: Any = language


class UnsupportedFunctionError(Exception):
    """An operator that tiles have no form of."""


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, tensor) and value.dtype is tl.int1)


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, tensor) and value.dtype.is_floating())


def _number(value: Any) -> Any:
    """Conditions as numbers, since arithmetic of torch counts them."""
    if not _is_bool(value):
        return value
    return int(value) if isinstance(value, bool) else value.to(tl.int32)


def _real(value: Any) -> Any:
    """As float functions of torch see it: integers in float32, 16 bits in float32."""
    value = _number(value)
    if isinstance(value, tensor):
        return value if value.dtype is tl.float64 else value.to(tl.float32)
    return float(value)


def _cast(value: Any, dtype: torch.dtype | None) -> Any:
    if dtype is None:
        return value
    if isinstance(value, tensor):
        return value != 0 if dtype is torch.bool else value.to(dtype_of_torch(dtype))
    kind = bool if dtype is torch.bool else float if dtype.is_floating_point else int
    return kind(value)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compute(x: Any, y: Any, alpha: Any = 1) -> Any:
        y = _number(y)
        return function(_number(x), y if alpha == 1 else y * alpha)

    return compute


def _unary(on_tiles: Callable[[Any], Any], on_numbers: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of a float; its result has the type of a 16-bit operand."""

    def compute(x: Any, **_: Any) -> Any:
        if not isinstance(x, tensor):
            return on_numbers(float(x))
        result = on_tiles(_real(x))
        return result.to(x.dtype) if x.dtype.is_floating() else result

    return compute


def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    x, y = _number(x), _number(y)
    is_integer = not _is_float(x) and not _is_float(y)
    if rounding_mode is None:
        return _real(x) / _real(y) if is_integer else x / y
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    if is_integer:
        return x // y
    quotient = tl.div_rn(x, y)
    return tl.where(quotient < 0, tl.math.ceil(quotient), tl.math.floor(quotient))


def _floor_divide(x: Any, y: Any) -> Any:
    x, y = _number(x), _number(y)
    if not isinstance(x, tensor) and not isinstance(y, tensor):
        return x // y
    if _is_float(x) or _is_float(y):
        return tl.math.floor(tl.div_rn(x, y))
    quotient = x // y  # towards zero
    rest = x - quotient * y
    return tl.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)


def _remainder(x: Any, y: Any) -> Any:
    x, y = _number(x), _number(y)
    if not isinstance(x, tensor) and not isinstance(y, tensor):
        return x % y
    is_float = _is_float(x) or _is_float(y)
    rest = tl.math.fmod(_real(x), _real(y)) if is_float else x - (x // y) * y
    return tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _negate(x: Any) -> Any:
    return -_number(x)


def _where(condition: Any, x: Any, y: Any) -> Any:
    if not isinstance(condition, tensor):
        return x if condition else y
    return tl.where(condition, x, y)


def _extremum(on_tiles: Callable[..., Any], on_numbers: Callable[..., Any]) -> Callable[..., Any]:
    def compute(x: Any, y: Any) -> Any:
        if isinstance(x, tensor) or isinstance(y, tensor):
            return on_tiles(x, y, propagate_nan=tl.PropagateNan.ALL)
        return on_numbers(x, y)

    return compute


_maximum, _minimum = _extremum(tl.maximum, max), _extremum(tl.minimum, min)


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        x = _maximum(x, min)
    return x if max is None else _minimum(x, max)


def _power(x: Any, y: Any) -> Any:
    if not isinstance(x, tensor) and not isinstance(y, tensor):
        return x**y
    if isinstance(y, (int, float)) and y in (1, 2, 3):
        x = _number(x)
        return x if y == 1 else x * x if y == 2 else x * x * x
    if isinstance(y, float) and y == 0.5:
        return _unary(tl.math.sqrt, math.sqrt)(x)
    if not _is_float(x) and not _is_float(y):
        raise UnsupportedFunctionError("an integer to the power of an integer")
    base, exponent = (_real(v) if isinstance(v, tensor) else tl.full((), float(v), tl.float32) for v in (x, y))
    return tl.math.pow(base, exponent)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + tl.math.exp(-x))


# Of gelu(x, approximate="tanh"), as in ATen.
_GELU_CUBIC, _GELU_SCALE = 0.044715, math.sqrt(2 / math.pi)


def _gelu(x: Any, approximate: str = "none") -> Any:
    """0.5 x (1 + erf(x / sqrt 2)), or with tanh (Hendrycks and Gimpel 2016)."""
    x = _real(x)
    if approximate == "tanh":
        inner = _GELU_SCALE * (x + _GELU_CUBIC * x * x * x)
        return 0.5 * x * (1.0 + _unary(tl.math.tanh, math.tanh)(inner))
    return 0.5 * x * (1.0 + _unary(tl.math.erf, math.erf)(x * math.sqrt(0.5)))


def _logical(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(_condition(x), _condition(y))


def _condition(x: Any) -> Any:
    return x if _is_bool(x) else x != 0


def _not(x: Any) -> Any:
    if isinstance(x, tensor):
        return x == 0 if x.dtype is tl.int1 else ~x
    return (not x) if isinstance(x, bool) else ~x


def _logical_not(x: Any) -> Any:
    return x == 0 if isinstance(x, tensor) else not x


def _tanh_backward(gradient: Any, result: Any) -> Any:
    return gradient * (1.0 - result * result)


def _sigmoid_backward(gradient: Any, result: Any) -> Any:
    return gradient * (1.0 - result) * result


def _threshold_backward(gradient: Any, x: Any, threshold: Any) -> Any:
    return tl.where(x <= threshold, 0.0, gradient)


def _absolute(x: Any) -> Any:
    return tl.math.abs(x) if isinstance(x, tensor) else abs(x)


def _sign(x: Any) -> Any:
    if not isinstance(x, tensor):
        return (x > 0) - (x < 0)
    return tl.where(x > 0, 1, tl.where(x < 0, -1, 0)).to(x.dtype)


def _full(*args: Any, **kwargs: Any) -> Any:
    return _cast(args[1], kwargs.get("dtype"))


def _full_like(like: Any, value: Any, dtype: torch.dtype | None = None, **_: Any) -> Any:
    if dtype is None and isinstance(like, tensor):
        return bool(value) if like.dtype is tl.int1 else float(value) if like.dtype.is_floating() else int(value)
    return _cast(value, dtype)


def _same(x: Any, *_: Any, **__: Any) -> Any:
    return x


def _to_copy(x: Any, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _cast(x, dtype)


def _compare(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(_number(x), _number(y))


def _both(name: str, function: Callable[..., Any]) -> dict[Any, Callable[..., Any]]:
    """The forms of an operator with a tensor or a number on the right."""
    packet = getattr(aten, name)
    return {getattr(packet, form): function for form in packet.overloads() if form in ("Tensor", "Scalar", "self")}


# Give their first operand.
SAME = (
    aten.alias.default,
    aten.clone.default,
    aten.detach.default,
    aten.expand.default,
    aten.view.default,
    aten.reshape.default,
    aten.lift_fresh_copy.default,
)
# Give a number, from their arguments.
CONSTANTS: dict[Any, Callable[..., Any]] = {
    aten.full.default: lambda size, value, *_: value,
    aten.full_like.default: lambda like, value, *_: value,
    aten.new_full.default: lambda like, size, value, *_: value,
    aten.new_ones.default: lambda *_: True,
    aten.ones.default: lambda *_: True,
    aten.ones_like.default: lambda *_: True,
    aten.scalar_tensor.default: lambda value: value,
}
OPERATORS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(SAME, _same),
    **_both("add", _arithmetic(operator.add)),
    **_both("sub", _arithmetic(operator.sub)),
    **_both("mul", _arithmetic(operator.mul)),
    **_both("rsub", _arithmetic(lambda x, y: y - x)),
    **_both("div", _divide),
    aten.div.Tensor_mode: _divide,
    aten.div.Scalar_mode: _divide,
    aten.floor_divide.default: _floor_divide,
    aten.floor_divide.Scalar: _floor_divide,
    **_both("remainder", _remainder),
    aten.remainder.Scalar_Tensor: _remainder,
    **_both("eq", _compare(operator.eq)),
    **_both("ne", _compare(operator.ne)),
    **_both("lt", _compare(operator.lt)),
    **_both("le", _compare(operator.le)),
    **_both("gt", _compare(operator.gt)),
    **_both("ge", _compare(operator.ge)),
    **_both("bitwise_and", operator.and_),
    **_both("bitwise_or", operator.or_),
    **_both("bitwise_xor", operator.xor),
    aten.bitwise_not.default: _not,
    aten.logical_and.default: _logical(operator.and_),
    aten.logical_or.default: _logical(operator.or_),
    aten.logical_xor.default: _logical(operator.xor),
    aten.logical_not.default: _logical_not,
    aten.neg.default: _negate,
    aten.abs.default: _absolute,
    aten.sign.default: _sign,
    aten.sgn.default: _sign,
    aten.where.self: _where,
    aten.where.ScalarSelf: _where,
    aten.where.ScalarOther: _where,
    aten.where.Scalar: _where,
    aten.masked_fill.Scalar: lambda x, mask, value: _where(mask, value, x),
    aten.masked_fill.Tensor: lambda x, mask, value: _where(mask, value, x),
    aten.maximum.default: _maximum,
    aten.minimum.default: _minimum,
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp,
    aten.clamp_min.default: lambda x, low: _maximum(x, low),
    aten.clamp_max.default: lambda x, high: _minimum(x, high),
    aten.relu.default: lambda x: _maximum(x, 0),
    aten.exp.default: _unary(tl.math.exp, math.exp),
    aten.exp2.default: _unary(tl.math.exp2, lambda x: 2.0**x),
    aten.log.default: _unary(tl.math.log, math.log),
    aten.log2.default: _unary(tl.math.log2, math.log2),
    aten.log1p.default: _unary(tl.math.log1p, math.log1p),
    aten.expm1.default: _unary(tl.math.expm1, math.expm1),
    aten.sqrt.default: _unary(tl.math.sqrt, math.sqrt),
    aten.rsqrt.default: _unary(tl.math.rsqrt, lambda x: 1 / math.sqrt(x)),
    aten.sin.default: _unary(tl.math.sin, math.sin),
    aten.cos.default: _unary(tl.math.cos, math.cos),
    aten.tanh.default: _unary(tl.math.tanh, math.tanh),
    aten.erf.default: _unary(tl.math.erf, math.erf),
    aten.sigmoid.default: _unary(_sigmoid, lambda x: 1 / (1 + math.exp(-x))),
    aten.floor.default: _unary(tl.math.floor, math.floor),
    aten.ceil.default: _unary(tl.math.ceil, math.ceil),
    aten.reciprocal.default: _unary(lambda x: 1.0 / x, lambda x: 1 / x),
    aten.gelu.default: _gelu,
    aten.square.default: lambda x: _number(x) * _number(x),
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power,
    aten.tanh_backward.default: _tanh_backward,
    aten.sigmoid_backward.default: _sigmoid_backward,
    aten.threshold_backward.default: _threshold_backward,
    aten._to_copy.default: _to_copy,
    torch.ops.prims.convert_element_type.default: _cast,
    aten.scalar_tensor.default: lambda value, dtype=None, **_: _cast(value, dtype),
    aten.full.default: _full,
    aten.full_like.default: _full_like,
    aten.zeros_like.default: lambda like, **kwargs: _full_like(like, 0, kwargs.get("dtype")),
    aten.ones_like.default: lambda like, **kwargs: _full_like(like, 1, kwargs.get("dtype")),
    aten.new_full.default: lambda like, size, value, **kwargs: _full_like(like, value, kwargs.get("dtype")),
    aten.new_ones.default: lambda like, size, **kwargs: _full_like(like, 1, kwargs.get("dtype")),
    aten.new_zeros.default: lambda like, size, **kwargs: _full_like(like, 0, kwargs.get("dtype")),
    aten.index.Tensor: _same,  # see flex/functions.py
    aten.select.int: _same,
}
