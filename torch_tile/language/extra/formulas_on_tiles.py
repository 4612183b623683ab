"""Special functions of tiles, from the formulas with which graphs decompose them, computed in float64."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch_tile.formulas import device_functions, library, rounding
from torch_tile.language.casts import cast
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import float32, float64, uint64
from torch_tile.language.extra import elementary
from torch_tile.language.ops.arithmetic import div_rn
from torch_tile.language.ops.math import where
from torch_tile.language.values import as_tensor, constant, unify


def _bare(x: Any) -> Any:
    return x.x if isinstance(x, _Operand) else x


class _Operand:
    """A tile in place of a torch.Tensor: what the formulas write, `torch.exp(x)` too, becomes operations of tiles."""

    def __init__(self, x: tensor) -> None:
        self.x = x

    def abs(self) -> _Operand:
        return _Operand(elementary.abs(self.x))

    def isinf(self) -> _Operand:
        return _Operand(elementary.isinf(self.x))

    def float(self) -> _Operand:
        return _Operand(cast(self.x, float32))

    def double(self) -> _Operand:
        return _Operand(cast(self.x, float64))

    def clamp(self, min: Any = None, max: Any = None) -> _Operand:
        x = self.x
        if min is not None:
            x = where(x < min, min, x)
        return _Operand(x if max is None else where(x > max, max, x))

    def __neg__(self) -> _Operand:
        return _Operand(-self.x)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _Operand(_FUNCTIONS[function.__name__](*[_bare(a) for a in args]))


for _name in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "and_", "or_"):
    _plain = div_rn if _name == "truediv" else getattr(operator, _name)
    _dunder = _name.rstrip("_")
    setattr(_Operand, f"__{_dunder}__", lambda a, b, f=_plain: _Operand(f(a.x, _bare(b))))
    if _name in ("add", "sub", "mul", "truediv"):
        setattr(_Operand, f"__r{_dunder}__", lambda a, b, f=_plain: _Operand(f(_bare(b), a.x)))

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(elementary, name)
    for name in ("abs", "exp", "exp2", "log", "sin", "cos", "tan", "sqrt", "rsqrt", "erf", "erfc", "copysign", "fmod")
} | {
    "pow": elementary._power,
    "round": elementary.rint,
    "where": where,
    "mul": operator.mul,
    "add": operator.add,
    "full_like": lambda x, value: constant(value, x.dtype, x.dims),
}


def apply(name: str, x: Any) -> tensor:
    """The special function `name` of each element."""
    x = as_tensor(x)
    type_ = x.dtype if x.dtype.is_floating() else float32
    made = device_functions()[name](_Operand(cast(x, float64)))
    return cast(made.x, type_)


def made_of_others(name: str, *arguments: Any) -> tensor:
    """The function of formulas/library.py that is called `name`, in the type of its operands."""
    operands = [as_tensor(a) for a in arguments]
    floats = operands[:1] if name == "ldexp" else operands
    for k in range(1, len(floats)):
        floats[0], floats[k] = unify(floats[0], floats[k])
    type_ = floats[0].dtype if floats[0].dtype.is_floating() else float32
    function, _ = library.FUNCTIONS[name]
    wide = [_Operand(cast(x, float64)) for x in operands]
    return cast(function(*wide, is_double=type_ is float64).x, type_)


def directed(name: str, *arguments: Any) -> tensor:
    """Arithmetic that rounds as its name says, like "add_rd", in the type of its operands."""
    operands = [as_tensor(a) for a in arguments]
    for k in range(1, len(operands)):
        operands[0], operands[k] = unify(operands[0], operands[k])
    operands = [unify(operands[0], x)[1] for x in operands]
    type_ = float64 if operands[0].dtype is float64 else float32
    wide = [_Operand(cast(cast(x, type_), float64)) for x in operands]
    return cast(rounding.arithmetic(name, type_ is float64, *wide).x, type_)


def float_of(x: Any, source: Any, to: Any, mode: str) -> tensor:
    """A number of type `source` as a float, rounded as `mode` says."""
    x = cast(as_tensor(x), source)
    is_double = to is float64
    if source is float64 or source.primitive_bitwidth == 32:
        value: Any = _Operand(cast(x, float64))
        return cast(rounding.directed(value, value * 0.0, mode, is_double).x, to)
    low = cast(cast(x, uint64) & 0xFFFFFFFF, float64)
    high = cast(x >> 32, float64)
    return cast(rounding.from_integer(_Operand(high), _Operand(low), mode, is_double).x, to)
