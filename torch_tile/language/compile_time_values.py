"""Values known when a kernel is compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch


class constexpr:
    """A value known when the kernel is compiled; as an annotation of a parameter, a request for one.

    Inside a kernel such parameters are plain Python values. A `constexpr` made by hand behaves as the value it holds.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, constexpr) else value

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __hash__(self) -> int:
        return hash(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __iter__(self) -> Any:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self.value[unwrap(key)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)

    def __eq__(self, other: object) -> Any:
        return self.value == unwrap(other)

    def __ne__(self, other: object) -> Any:
        return self.value != unwrap(other)


def _lift(name: str) -> None:
    import operator

    function = getattr(operator, {"and": "and_", "or": "or_"}.get(name, name))
    setattr(constexpr, f"__{name}__", lambda self, other: function(self.value, unwrap(other)))
    if name not in ("lt", "le", "gt", "ge"):
        setattr(constexpr, f"__r{name}__", lambda self, other: function(unwrap(other), self.value))


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
    "lt",
    "le",
    "gt",
    "ge",
]:
    _lift(_name)
for _name in ("neg", "pos", "invert", "abs"):
    setattr(
        constexpr,
        f"__{_name}__",
        (lambda f: lambda self: f(self.value))(getattr(__import__("operator"), _name)),
    )


class constexpr_type:
    """The type of a value known when the kernel is compiled."""

    def __init__(self, value: Any) -> None:
        self.value = unwrap(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, constexpr_type) and self.value == other.value

    def __hash__(self) -> int:
        return hash(("constexpr", self.value))

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"


class tuple_type:
    """The type of a tuple: those of its elements, and their names."""

    def __init__(self, types: Any, fields: Any = None) -> None:
        self.types, self.fields = types, fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple_type) and (self.types, self.fields) == (other.types, other.fields)

    def __hash__(self) -> int:
        return hash(tuple(self.types))


class const:
    """As an annotation: a pointer that is only read."""


class _Constant:
    """What values passed for constexpr parameters share."""

    __slots__ = ()

    @property
    def type(self) -> constexpr_type:
        return constexpr_type(self)


class ConstInt(_Constant, int):
    """An integer passed for a constexpr parameter: an int that also answers `.value`."""

    @property
    def value(self) -> int:
        return int(self)


class ConstStr(_Constant, str):
    @property
    def value(self) -> str:
        return str(self)


class ConstFloat(_Constant, float):
    @property
    def value(self) -> float:
        return float(self)


class _Variable:
    """What numbers held by a kernel's variables share.

    As in Triton, a variable that is assigned a number holds a scalar of int32 (or wider) or float32: combined with a
    tile it is no weak number any more. It stays a Python number where one is asked for: sizes, static conditions.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from torch_tile.language.values import as_tensor

        return getattr(as_tensor(self), name)


class VariableInt(_Variable, int):
    @property
    def value(self) -> int:
        return int(self)

    @property
    def shape(self) -> Any:
        return ()


class VariableFloat(_Variable, float):
    @property
    def value(self) -> float:
        return float(self)

    @property
    def shape(self) -> Any:
        return ()


def _as_float32(value: float) -> float:
    """The nearest float32; numbers beyond its normal range are float64 in kernels, and stay what they are."""
    size = abs(value)
    return float(np.float32(value)) if 2.0**-126 <= size <= (2 - 2**-23) * 2.0**127 else float(value)


def variable(value: Any) -> Any:
    """What a variable holds after it is assigned `value`."""
    kind = type(value)
    if kind is int or kind is ConstInt:
        return VariableInt(value)
    if kind is float or kind is ConstFloat:
        return VariableFloat(_as_float32(value))
    if kind is constexpr:
        return variable(value.value)
    if kind is tuple:
        return tuple([variable(v) for v in value])
    return value


def _truncating(quotient: Any) -> Any:
    def divide(a: Any, b: Any) -> Any:
        if not (isinstance(a, int) and isinstance(b, int) and b):
            return NotImplemented
        q = abs(a) // abs(b)
        q = q if (a < 0) == (b < 0) else -q
        return q if quotient else a - q * b

    return divide


def _lift_variable(name: str) -> None:
    import operator

    plain = {"floordiv": _truncating(True), "mod": _truncating(False)}.get(name) or getattr(
        operator, {"and": "and_", "or": "or_"}.get(name, name)
    )

    def apply(self: Any, other: Any, is_swapped: bool) -> Any:
        other = unwrap(other)
        if not isinstance(other, (int, float)):
            return NotImplemented
        mine = int(self) if isinstance(self, int) else float(self)
        theirs = other if isinstance(other, bool) else int(other) if isinstance(other, int) else float(other)
        if isinstance(theirs, float) and type(other) is not VariableFloat:
            theirs = _as_float32(theirs)  # a weak number beside a float32
        first, second = (theirs, mine) if is_swapped else (mine, theirs)
        if name == "truediv" and not second:
            return variable(float("nan") if not first or first != first else math.copysign(math.inf, first))
        # Exact to float32: float64 holds twice its digits, and `variable` rounds.
        result = plain(first, second)
        return result if result is NotImplemented else variable(result)

    for kind in (VariableInt, VariableFloat):
        if name in ("and", "or", "xor", "lshift", "rshift") and kind is VariableFloat:
            continue
        setattr(kind, f"__{name}__", lambda self, other: apply(self, other, False))
        setattr(kind, f"__r{name}__", lambda self, other: apply(self, other, True))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    _lift_variable(_name)


def _lift_comparison(name: str) -> None:
    import operator

    plain = getattr(operator, name)

    def compare(self: VariableFloat, other: Any) -> Any:
        other = unwrap(other)
        if not isinstance(other, (int, float)):
            return NotImplemented
        return plain(float(self), _as_float32(other) if type(other) in (float, ConstFloat) else other)

    setattr(VariableFloat, f"__{name}__", compare)


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _lift_comparison(_name)
setattr(VariableFloat, "__hash__", float.__hash__)  # noqa: B010
for _kind in (VariableInt, VariableFloat):
    for _name in ("neg", "pos", "abs"):
        setattr(
            _kind,
            f"__{_name}__",
            (lambda f, k: lambda self: k(f(k.__mro__[2](self))))(getattr(__import__("operator"), _name), _kind),
        )


def as_constant(value: Any) -> Any:
    """What a kernel sees for the argument of a constexpr parameter."""
    value = unwrap(value)
    kind = type(value)
    if kind is int or kind is VariableInt:
        return ConstInt(value)
    if kind is str:
        return ConstStr(value)
    if kind is float or kind is VariableFloat:
        return ConstFloat(value)
    if kind is tuple:
        return tuple([as_constant(v) for v in value])
    if isinstance(value, torch.dtype):
        from torch_tile.language.dtypes import dtype_of_torch

        return dtype_of_torch(value)
    return value


def unwrap(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value
