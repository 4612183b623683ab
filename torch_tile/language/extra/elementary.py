"""Functions of tl.extra.libdevice that are operations of tiles, or little more."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language import arith
from torch_tile.language.casts import cast
from torch_tile.language.core import emit, error, mlir_type, tensor
from torch_tile.language.dtypes import float32, int32
from torch_tile.language.ops import arithmetic as _arithmetic
from torch_tile.language.ops import math as _math
from torch_tile.language.ops.math import through_torch, unary_float, where
from torch_tile.language.values import as_tensor, constant, unify


def _unary(name: str, eager: Any, mlir: str) -> Any:
    def function(arg0: Any, _builder: Any = None) -> tensor:
        x = as_tensor(arg0)
        return unary_float(name, cast(x, float32) if x.dtype.is_int() else x, eager, mlir)

    function.__name__ = name
    function.__doc__ = f"{name} of each element. Floats."
    return function


tan = _unary("tan", np.tan, "math.tan")
asin = _unary("asin", np.arcsin, "math.asin")
acos = _unary("acos", np.arccos, "math.acos")
atan = _unary("atan", np.arctan, "math.atan")
sinh = _unary("sinh", np.sinh, "math.sinh")
cosh = _unary("cosh", np.cosh, "math.cosh")
tanh = _unary("tanh", np.tanh, "math.tanh")
asinh = _unary("asinh", np.arcsinh, "math.asinh")
acosh = _unary("acosh", np.arccosh, "math.acosh")
atanh = _unary("atanh", np.arctanh, "math.atanh")
expm1 = _unary("expm1", np.expm1, "math.expm1")
log1p = _unary("log1p", np.log1p, "math.log1p")
log10 = _unary("log10", np.log10, "math.log10")
erfc = _unary("erfc", through_torch("erfc"), "math.erfc")
trunc = _unary("trunc", np.trunc, "math.trunc")
rint = _unary("rint", np.rint, "math.roundeven")
exp = _unary("exp", np.exp, "math.exp")
exp2 = _unary("exp2", np.exp2, "math.exp2")
log = _unary("log", np.log, "math.log")
log2 = _unary("log2", np.log2, "math.log2")
sin = _unary("sin", np.sin, "math.sin")
cos = _unary("cos", np.cos, "math.cos")
sqrt = _unary("sqrt", np.sqrt, "math.sqrt")
rsqrt = _unary("rsqrt", _math._rsqrt, "math.rsqrt")
erf = _unary("erf", _math._erf, "math.erf")
floor = _unary("floor", np.floor, "math.floor")
ceil = _unary("ceil", np.ceil, "math.ceil")
fast_expf, fast_exp2f, fast_logf, fast_log2f, fast_log10f = exp, exp2, log, log2, log10
fast_sinf, fast_cosf, fast_tanf, fast_tanhf = sin, cos, tan, tanh
nearbyint = rint
sqrt_rn = sqrt
abs = _math.abs
fabs = _math.abs
fma = _arithmetic.fma


def round(arg0: Any) -> tensor:
    """Nearest whole number, halves away from zero. Floats."""
    x = as_tensor(arg0)
    whole = trunc(x)
    return where(abs(x - whole) >= 0.5, whole + copysign(constant(1.0, x.dtype), x), whole)


def _binary(name: str, eager: Any, mlir: str) -> Any:
    def function(arg0: Any, arg1: Any, _builder: Any = None) -> tensor:
        from torch_tile.language.dtypes import tile_type
        from torch_tile.language.values import broadcast_to_dims, common_shape

        a, b = unify(as_tensor(arg0), as_tensor(arg1))
        if not a.dtype.is_floating():
            raise error(f"libdevice.{name} expected floats, got {a.type}")
        dims = common_shape(a.dims, b.dims)

        def compute() -> Any:
            from torch_tile.language.core import current

            value = eager(a.value, b.value)
            return current().round(a.dtype, value) if a.dtype.is_narrow_float else value

        def build(run: Any) -> str:
            operands = [broadcast_to_dims(v, dims) for v in (a, b)]
            return str(run.op(mlir, operands, tile_type(a.dtype, dims).mlir))

        return emit(a.dtype, dims, compute, build)

    function.__name__ = name
    function.__doc__ = f"{name} of elements of two tiles. Floats."
    return function


_power = _binary("pow", np.power, "math.powf")
atan2 = _binary("atan2", np.arctan2, "math.atan2")
copysign = _binary("copysign", np.copysign, "math.copysign")
fmod = _binary("fmod", np.fmod, "arith.remf")


def pow(arg0: Any, arg1: Any) -> tensor:
    """arg0 to the power of arg1. Floats; an integer exponent is converted."""
    x = as_tensor(arg0)
    return _power(x, cast(as_tensor(arg1), x.dtype))


fast_powf = pow


def fmax(arg0: Any, arg1: Any) -> tensor:
    """The greater of two elements; where one is NaN, the other."""
    return _arithmetic.maximum(arg0, arg1)


def fmin(arg0: Any, arg1: Any) -> tensor:
    """The lesser of two elements; where one is NaN, the other."""
    return _arithmetic.minimum(arg0, arg1)


max, min = fmax, fmin


def isnan(arg0: Any) -> tensor:
    """Whether each element is NaN."""
    x = as_tensor(arg0)
    return arith.compare("ne", x, x)


def isinf(arg0: Any) -> tensor:
    """Whether each element is infinite."""
    return arith.compare("eq", abs(as_tensor(arg0)), float("inf"))


def isfinited(arg0: Any) -> tensor:
    """Whether each element is a number, and finite."""
    return arith.compare("lt", abs(as_tensor(arg0)), float("inf"))


finitef = isfinited


def signbit(arg0: Any) -> tensor:
    """Whether the sign bit is set."""
    from torch_tile.language.casts import bitcast

    x = as_tensor(arg0)
    return bitcast(x, _math.bits_type(x)) < 0


def div_rn(arg0: Any, arg1: Any) -> tensor:
    """arg0 / arg1, correctly rounded."""
    return _arithmetic.div_rn(arg0, arg1)


def fast_dividef(arg0: Any, arg1: Any) -> tensor:
    """arg0 / arg1."""
    return _arithmetic.fdiv(arg0, arg1)


umulhi = _arithmetic.umulhi
mulhi = _arithmetic.umulhi


def mul_rn(arg0: Any, arg1: Any) -> tensor:
    """arg0 * arg1, correctly rounded."""
    return _arithmetic.mul(arg0, arg1)


def add_rn(arg0: Any, arg1: Any) -> tensor:
    """arg0 + arg1, correctly rounded."""
    return _arithmetic.add(arg0, arg1)


def llrint(arg0: Any) -> tensor:
    """Nearest whole number as int64."""
    from torch_tile.language.dtypes import int64

    return cast(rint(arg0), int64)


def ffs(arg0: Any) -> tensor:
    """Position of the lowest bit that is set, counted from 1; 0 for 0."""
    x = as_tensor(arg0)
    return where(x == 0, 0, popc((x & -x) - 1) + 1)


def popc(arg0: Any) -> tensor:
    """Number of bits that are set."""
    x = as_tensor(arg0)
    bits = x.dtype.primitive_bitwidth

    def eager() -> Any:
        count = np.zeros(np.shape(x.value), np.int32)
        value = np.asarray(x.value).astype(f"uint{bits}")
        for k in range(bits):
            count = count + ((value >> value.dtype.type(k)) & value.dtype.type(1)).astype(np.int32)
        return count[()] if isinstance(count, np.ndarray) else count

    def build(run: Any) -> str:
        counted = tensor(run.op("math.ctpop", [x], mlir_type(x)), x.dtype, x.dims)
        return str(run.ref(cast(counted, int32)))

    return emit(int32, x.dims, eager, build)
