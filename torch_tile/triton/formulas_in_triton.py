"""Functions of Triton's library of device functions that are operations of Triton: special functions from the formulas
with which graphs decompose them, computed in float64, arithmetic by rounding mode, and conversions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from triton.language import core
from triton.language import math as tl_math
from triton.language.extra.cuda import libdevice as _cuda

from torch_tile.formulas import device_functions, library, rounding


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

    def float(self) -> _Operand:
        return _Operand(self.semantic.cast(self.x, core.float32), self.semantic)

    def double(self) -> _Operand:
        return _Operand(self.semantic.cast(self.x, core.float64), self.semantic)

    def clamp(self, min: Any = None, max: Any = None) -> _Operand:
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
    "fmod": lambda s, a, b: _cuda.fmod(a, b, _semantic=s),
    "pow": lambda s, a, b: _cuda.pow(a, b, _semantic=s),
    "where": _where,
    "copysign": lambda s, a, b: _cuda.copysign(a, b if isinstance(b, core.tensor) else _constant(s, b, a), _semantic=s),
    "full_like": lambda s, x, value: _constant(s, value, x),
}
_MATH: dict[str, Any] = {
    **{name: getattr(tl_math, name) for name in ("abs", "exp", "exp2", "log", "sin", "cos", "sqrt", "rsqrt", "erf")},
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


def _computed(name: str, count: int, formula: Callable[[bool, list[_Operand]], _Operand]) -> Any:
    """A function of `count` operands of one shape, in the type of those that are floats; the formula is given whether
    that is float64, and the operands in float64."""

    def compute(operands: tuple[Any, ...], s: Any) -> Any:
        tiles = [s.to_tensor(a) for a in operands]
        is_double = any(x.dtype.is_fp64() for x in tiles)
        narrow = core.float64 if is_double else core.float32
        shape = next((x.shape for x in tiles if x.type.is_block()), None)
        if shape is not None:
            tiles = [s.broadcast_impl_shape(x, shape) if x.type.is_block() else s.splat(x, shape) for x in tiles]
        tiles = [s.cast(x, narrow) if x.dtype.is_floating() else x for x in tiles]
        wide = [_Operand(s.cast(x, core.float64), s) for x in tiles]
        return s.cast(formula(is_double, wide).x, narrow)

    # Triton counts a function's arguments.
    one: Any = lambda arg0, _semantic=None: compute((arg0,), _semantic)  # noqa: E731
    two: Any = lambda arg0, arg1, _semantic=None: compute((arg0, arg1), _semantic)  # noqa: E731
    three: Any = lambda arg0, arg1, arg2, _semantic=None: compute((arg0, arg1, arg2), _semantic)  # noqa: E731
    four: Any = lambda arg0, arg1, arg2, arg3, _semantic=None: compute((arg0, arg1, arg2, arg3), _semantic)  # noqa: E731
    function = (one, two, three, four)[count - 1]
    function.__name__ = function.__qualname__ = name
    return core.extern(function)


def _directed(name: str, count: int) -> Any:
    """Arithmetic that rounds as its name says."""
    return _computed(name, count, lambda is_double, wide: rounding.arithmetic(name, is_double, *wide))


def _made_of_others(name: str) -> Any:
    """A function of formulas/library.py."""
    function, count = library.FUNCTIONS[name]
    return _computed(name, count, lambda is_double, wide: function(*wide, is_double=is_double))


def _inverse_root(is_double: bool, wide: list[_Operand]) -> Any:
    s = wide[0].semantic
    root: Any = _Operand(_cuda.cbrt(wide[0].x, _semantic=s), s)
    return 1.0 / root


def _float_of(name: str) -> Any:
    """A conversion of a number to a float that rounds as its name says."""
    kind, mode = name.split("_")
    source, to = _CONVERSIONS[kind]
    is_double = to is core.float64

    def function(arg0: Any, _semantic: Any = None) -> Any:
        s = _semantic
        x = s.cast(s.to_tensor(arg0), source)
        if source is core.float64 or source.primitive_bitwidth == 32:
            value: Any = _Operand(s.cast(x, core.float64), s)
            return s.cast(rounding.directed(value, value * 0.0, mode, is_double).x, to)
        low = s.cast(s.and_(s.cast(x, core.uint64), s.to_tensor(0xFFFFFFFF)), core.float64)
        shifted = s.ashr if source.is_int_signed() else s.lshr
        high = s.cast(shifted(x, s.to_tensor(32)), core.float64)
        return s.cast(rounding.from_integer(_Operand(high, s), _Operand(low, s), mode, is_double).x, to)

    function.__name__ = function.__qualname__ = name
    return core.extern(function)


_CONVERSIONS = {
    "double2float": (core.float64, core.float32),
    "int2float": (core.int32, core.float32),
    "uint2float": (core.uint32, core.float32),
    "ll2float": (core.int64, core.float32),
    "ull2float": (core.uint64, core.float32),
    "ll2double": (core.int64, core.float64),
    "ull2double": (core.uint64, core.float64),
}
for _name, _count in rounding.NAMES.items():
    globals()[_name] = _directed(_name, _count)
for _name in [f"{kind}_{mode}" for kind in _CONVERSIONS for mode in rounding.MODES]:
    globals()[_name] = _float_of(_name)

for _name in library.FUNCTIONS:
    globals()[_name] = _made_of_others(_name)
scalbn = globals()["ldexp"]
fast_exp10f = globals()["exp10"]
rcbrt = _computed("rcbrt", 1, _inverse_root)

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


def _integer_of(kind: str, mode: str, to: Any) -> Any:
    """A conversion of a float to an integer."""

    def function(arg0: Any, _semantic: Any = None) -> Any:
        s = _semantic
        x = s.to_tensor(arg0)
        if mode != "rz":
            x = {"rd": tl_math.floor, "ru": tl_math.ceil, "rn": _cuda.rint}[mode](x, _semantic=s)
        return s.cast(x, to)

    function.__name__ = function.__qualname__ = f"{kind}_{mode}"
    return core.extern(function)


def _nearest_float(kind: str, source: Any, to: Any) -> Any:
    """A conversion of an unsigned integer, or of a double, to a float."""

    def function(arg0: Any, _semantic: Any = None) -> Any:
        return _semantic.cast(_semantic.cast(_semantic.to_tensor(arg0), source), to)

    function.__name__ = function.__qualname__ = f"{kind}_rn"
    return core.extern(function)


def _whole(name: str, rounded: Any) -> Any:
    """The whole number as int64."""

    def function(arg0: Any, _semantic: Any = None) -> Any:
        return _semantic.cast(rounded(_semantic.to_tensor(arg0), _semantic=_semantic), core.int64)

    function.__name__ = function.__qualname__ = name
    return core.extern(function)


llrint = _whole("llrint", _cuda.rint)
llround = _whole("llround", _cuda.round)
double2float_rn = _nearest_float("double2float", core.float64, core.float32)
_INTEGERS = {"int": core.int32, "uint": core.uint32, "ll": core.int64, "ull": core.uint64}
for _long, _to in _INTEGERS.items():
    for _from in ("float", "double"):
        for _mode in ("rn", "rz", "rd", "ru"):
            globals()[f"{_from}2{_long}_{_mode}"] = _integer_of(f"{_from}2{_long}", _mode, _to)
    for _name, _type in (("float", core.float32), ("double", core.float64)):
        globals()[f"{_long}2{_name}_rn"] = _nearest_float(f"{_long}2{_name}", _to, _type)
