"""Functions of tl.extra.libdevice made of others, in float64."""

from __future__ import annotations

from typing import Any

from torch_tile.language.casts import cast
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import float32, float64, int64
from torch_tile.language.extra.elementary import (
    _power,
    abs,
    copysign,
    cos,
    erfc,
    exp,
    exp2,
    floor,
    fmod,
    log2,
    rint,
    sin,
    sqrt,
    trunc,
)
from torch_tile.language.ops.math import where
from torch_tile.language.values import as_tensor, constant


def _special(name: str, text: str) -> Any:
    def function(arg0: Any, _builder: Any = None) -> tensor:
        from torch_tile.language.extra import special

        return special.apply(name, arg0)

    function.__name__ = name
    function.__doc__ = f"{text}. Floats; computed in float64."
    return function


j0 = _special("j0", "Bessel function of the first kind, order 0")
j1 = _special("j1", "Bessel function of the first kind, order 1")
y0 = _special("y0", "Bessel function of the second kind, order 0")
y1 = _special("y1", "Bessel function of the second kind, order 1")
cyl_bessel_i0 = _special("cyl_bessel_i0", "Modified Bessel function of the first kind, order 0")
cyl_bessel_i1 = _special("cyl_bessel_i1", "Modified Bessel function of the first kind, order 1")
lgamma = _special("lgamma", "Logarithm of the magnitude of the gamma function")
erfinv = _special("erfinv", "Inverse of erf")
erfcx = _special("erfcx", "exp(x * x) * erfc(x)")
normcdfinv = _special("normcdfinv", "Inverse of the normal distribution function")


def jn(arg0: Any, arg1: Any) -> Any:
    """Bessel function of the first kind, of order arg0 (int32); in float64."""
    from torch_tile.language.extra import orders

    return orders.jn(as_tensor(arg0), as_tensor(arg1))


def yn(arg0: Any, arg1: Any) -> Any:
    """Bessel function of the second kind, of order arg0 (int32); in float64."""
    from torch_tile.language.extra import orders

    return orders.yn(as_tensor(arg0), as_tensor(arg1))


def rcp64h(arg0: Any) -> tensor:
    """The upper 32 bits of 1 / arg0; the others are 0."""
    from torch_tile.language.casts import bitcast

    bits: Any = bitcast(1.0 / cast(as_tensor(arg0), float64), int64)
    return bitcast((bits >> 32) << 32, float64)


def _wide(function: Any) -> Any:
    """A function of float64 operands for operands of any float type."""

    def call(*arguments: Any, _builder: Any = None) -> tensor:
        operands = [as_tensor(a) for a in arguments]
        type_ = operands[0].dtype if operands[0].dtype.is_floating() else float32
        return cast(function(*[cast(x, float64) for x in operands]), type_)

    call.__name__ = function.__name__
    call.__doc__ = f"{function.__doc__} Floats; computed in float64."
    return call


@_wide
def erfcinv(x: tensor) -> Any:
    """Inverse of erfc."""
    return normcdfinv(x * 0.5) * -0.7071067811865476


@_wide
def normcdf(x: tensor) -> Any:
    """Distribution function of normal numbers."""
    return erfc(x * -0.7071067811865476) * 0.5


@_wide
def tgamma(x: tensor) -> Any:
    """Gamma function."""
    whole = floor(x)
    is_odd = floor(whole * 0.5) * 2.0 != whole
    size = exp(lgamma(x))
    value = where((x < 0) & is_odd, -size, size)
    return where((x < 0) & (x == whole), float("nan"), where(x == 0, copysign(size, x), value))


@_wide
def cbrt(x: tensor) -> Any:
    """Cube root."""
    size = abs(x)
    root = exp2(log2(size) * (1.0 / 3.0))
    root = root - (root * root * root - size) / (3.0 * root * root)
    return where((x == 0) | (size == float("inf")) | (x != x), x, copysign(root, x))


@_wide
def rcbrt(x: tensor) -> Any:
    """1 / cbrt(x)."""
    return 1.0 / cbrt(x)


@_wide
def exp10(x: tensor) -> Any:
    """10 to the power of each element."""
    return _power(constant(10.0, float64), x)


fast_exp10f = exp10


@_wide
def sinpi(x: tensor) -> Any:
    """sin(pi * x)."""
    near = rint(x)
    sine = sin((x - near) * 3.141592653589793)
    return where(floor(near * 0.5) * 2.0 != near, -sine, sine)


@_wide
def cospi(x: tensor) -> Any:
    """cos(pi * x)."""
    near = rint(x)
    cosine = cos((x - near) * 3.141592653589793)
    return where(floor(near * 0.5) * 2.0 != near, -cosine, cosine)


def _length(x: Any, *others: Any) -> Any:
    total = x * x
    for y in others:
        total = total + y * y
    return sqrt(total)


@_wide
def norm3d(a: Any, b: Any, c: Any) -> Any:
    """Length of a vector."""
    return _length(a, b, c)


@_wide
def norm4d(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Length of a vector."""
    return _length(a, b, c, d)


@_wide
def rhypot(a: Any, b: Any) -> Any:
    """1 / hypot(a, b)."""
    return 1.0 / _length(a, b)


@_wide
def rnorm3d(a: Any, b: Any, c: Any) -> Any:
    """1 / norm3d(a, b, c)."""
    return 1.0 / _length(a, b, c)


@_wide
def rnorm4d(a: Any, b: Any, c: Any, d: Any) -> Any:
    """1 / norm4d(a, b, c, d)."""
    return 1.0 / _length(a, b, c, d)


@_wide
def remainder(x: Any, y: Any) -> Any:
    """x - n * y for the whole number n nearest to x / y."""
    rest = fmod(x, y)
    size, half = abs(rest), abs(y)
    is_odd = fmod(abs(trunc(x / y)), constant(2.0, float64)) == 1.0
    beyond = (size * 2.0 > half) | ((size * 2.0 == half) & is_odd)
    return where(beyond, rest - copysign(half, rest), rest)
