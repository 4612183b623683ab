"""`triton.language.extra.libdevice` on CPU: Triton's own names for CUDA, whose functions the compiler knows, and
special functions from the formulas with which graphs decompose them, computed in float64."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from triton.language import core
from triton.language import math as tl_math
from triton.language.extra.cuda import libdevice as _cuda
from triton.language.extra.cuda.libdevice import *  # noqa: F403

from torch_tile.formulas import device_functions


class _Operand:
    """A tile in place of a torch.Tensor: what the formulas write, `torch.exp(x)` too, becomes Triton's operations."""

    def __init__(self, x: Any, semantic: Any) -> None:
        self.x = x
        self.semantic = semantic

    def _made(self, function: Callable[..., Any], *operands: Any) -> _Operand:
        return _Operand(function(*operands, _semantic=self.semantic), self.semantic)

    def abs(self) -> _Operand:
        return self._made(tl_math.abs, self.x)

    def isinf(self) -> _Operand:
        return _Operand(self.semantic.equal(self.abs().x, math.inf), self.semantic)

    def clamp(self, min: float | None = None, max: float | None = None) -> _Operand:
        s, x = self.semantic, self.x
        if min is not None:
            x = _where(s, s.less_than(x, min), min, x)
        return _Operand(x if max is None else _where(s, s.greater_than(x, max), max, x), s)

    def __neg__(self) -> _Operand:
        return _Operand(self.semantic.minus(self.x), self.semantic)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        semantic = next(a.semantic for a in args if isinstance(a, _Operand))
        operands = [a.x if isinstance(a, _Operand) else a for a in args]
        name = function.__name__
        if name in _MATH:
            return _Operand(_MATH[name](operands[0], _semantic=semantic), semantic)
        return _Operand(_FUNCTIONS[name](semantic, *operands), semantic)


def _where(s: Any, condition: Any, x: Any, y: Any) -> Any:
    sample = next(v for v in (x, y) if isinstance(v, core.tensor))
    x, y = (v if isinstance(v, core.tensor) else _constant(s, v, sample) for v in (x, y))
    return s.where(condition, x, y)


def _constant(s: Any, value: float, like: Any) -> Any:
    return (
        s.full(like.shape, float(value), like.dtype) if like.type.is_block() else s.scalar_constant(value, like.dtype)
    )


_BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda s, a, b: s.add(a, b, False),
    "sub": lambda s, a, b: s.sub(a, b, False),
    "mul": lambda s, a, b: s.mul(a, b, False),
    "truediv": lambda s, a, b: s.truediv(a, b),
    "lt": lambda s, a, b: s.less_than(a, b),
    "le": lambda s, a, b: s.less_equal(a, b),
    "gt": lambda s, a, b: s.greater_than(a, b),
    "ge": lambda s, a, b: s.greater_equal(a, b),
    "eq": lambda s, a, b: s.equal(a, b),
    "and": lambda s, a, b: s.and_(a, b),
    "or": lambda s, a, b: s.or_(a, b),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_BINARY,
    "where": _where,
    "copysign": lambda s, a, b: _cuda.copysign(a, b if isinstance(b, core.tensor) else _constant(s, b, a), _semantic=s),
    "full_like": lambda s, x, value: _constant(s, value, x),
}
_MATH: dict[str, Any] = {
    **{name: getattr(tl_math, name) for name in ("abs", "exp", "log", "sin", "cos", "sqrt", "rsqrt", "erf")},
    **{name: getattr(_cuda, name) for name in ("tan", "erfc")},
    "round": _cuda.rint,
}


def _dunder(function: Callable[..., Any], swapped: bool) -> Callable[[_Operand, Any], _Operand]:
    def call(a: _Operand, b: Any) -> _Operand:
        other = b.x if isinstance(b, _Operand) else b
        operands = (other, a.x) if swapped else (a.x, other)
        return _Operand(function(a.semantic, *operands), a.semantic)

    return call


for _name, _function in _BINARY.items():
    setattr(_Operand, f"__{_name}__", _dunder(_function, swapped=False))
    if hasattr(operator, _name) and _name in ("add", "sub", "mul", "truediv"):
        setattr(_Operand, f"__r{_name}__", _dunder(_function, swapped=True))


def _special(name: str) -> Any:
    def function(arg0: Any, _semantic: Any = None) -> Any:
        x = _semantic.to_tensor(arg0)
        wide = _semantic.cast(x, core.float64)
        return _semantic.cast(device_functions()[name](_Operand(wide, _semantic)).x, x.dtype)

    function.__name__ = function.__qualname__ = name
    return core.extern(function)


j0 = _special("j0")
j1 = _special("j1")
y0 = _special("y0")
y1 = _special("y1")
cyl_bessel_i0 = _special("cyl_bessel_i0")
cyl_bessel_i1 = _special("cyl_bessel_i1")
erfcx = _special("erfcx")
erfinv = _special("erfinv")
erfcinv = _special("erfcinv")
lgamma = _special("lgamma")
normcdfinv = _special("normcdfinv")
