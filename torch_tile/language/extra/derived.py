"""Functions of tl.extra.libdevice made of others, in float64 (torch_tile/formulas)."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language.casts import cast
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import float32, float64, int64
from torch_tile.language.extra.elementary import _unary
from torch_tile.language.values import as_tensor


def _special(name: str, text: str) -> Any:
    def function(arg0: Any, _builder: Any = None) -> tensor:
        from torch_tile.language.extra import formulas_on_tiles

        return formulas_on_tiles.apply(name, arg0)

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
erfcinv = _special("erfcinv", "Inverse of erfc")
erfcx = _special("erfcx", "exp(x * x) * erfc(x)")
normcdfinv = _special("normcdfinv", "Inverse of the normal distribution function")


def jn(arg0: Any, arg1: Any) -> Any:
    """Bessel function of the first kind, of order arg0 (int32); in float64."""
    from torch_tile.language.extra import bessel_kernels

    return bessel_kernels.jn(as_tensor(arg0), as_tensor(arg1))


def yn(arg0: Any, arg1: Any) -> Any:
    """Bessel function of the second kind, of order arg0 (int32); in float64."""
    from torch_tile.language.extra import bessel_kernels

    return bessel_kernels.yn(as_tensor(arg0), as_tensor(arg1))


def rcp64h(arg0: Any) -> tensor:
    """The upper 32 bits of 1 / arg0; the others are 0."""
    from torch_tile.language.casts import bitcast

    bits: Any = bitcast(1.0 / cast(as_tensor(arg0), float64), int64)
    return bitcast((bits >> 32) << 32, float64)


cbrt = _unary("cbrt", np.cbrt, "math.cbrt")


def rcbrt(arg0: Any, _builder: Any = None) -> tensor:
    """1 / cbrt(arg0). Floats."""
    x = as_tensor(arg0)
    type_ = x.dtype if x.dtype.is_floating() else float32
    return cast(1.0 / cbrt(cast(x, float64)), type_)


_TEXTS = {
    "cospi": "cos(pi * arg0)",
    "exp10": "10 to the power of arg0",
    "fdim": "arg0 - arg1 where that is positive, else 0",
    "hypot": "Length of the vector (arg0, arg1)",
    "ldexp": "arg0 times 2 to the power of an integer",
    "norm3d": "Length of a vector",
    "norm4d": "Length of a vector",
    "normcdf": "Distribution function of normal numbers",
    "remainder": "arg0 - n * arg1 for the whole number n nearest to arg0 / arg1",
    "rhypot": "1 / hypot(arg0, arg1)",
    "rnorm3d": "1 / norm3d(arg0, arg1, arg2)",
    "rnorm4d": "1 / norm4d(arg0, arg1, arg2, arg3)",
    "saturatef": "Each element moved into [0, 1]; 0 for NaN",
    "sinpi": "sin(pi * arg0)",
    "tgamma": "Gamma function",
}


def _made_of_others(name: str) -> Any:
    def function(*arguments: Any, _builder: Any = None) -> tensor:
        from torch_tile.language.extra import formulas_on_tiles

        return formulas_on_tiles.made_of_others(name, *arguments)

    function.__name__ = name
    function.__doc__ = f"{_TEXTS[name]}. Floats; computed in float64."
    return function


for _name in _TEXTS:
    globals()[_name] = _made_of_others(_name)
scalbn = globals()["ldexp"]
fast_exp10f = globals()["exp10"]
