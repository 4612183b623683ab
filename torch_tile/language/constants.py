"""Values known when a kernel is compiled."""

from __future__ import annotations

from typing import Any

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


class const:
    """As an annotation: a pointer that is only read."""


class ConstInt(int):
    """An integer passed for a constexpr parameter: an int that also answers `.value`."""

    @property
    def value(self) -> int:
        return int(self)


class ConstStr(str):
    @property
    def value(self) -> str:
        return str(self)


class ConstFloat(float):
    @property
    def value(self) -> float:
        return float(self)


def as_constant(value: Any) -> Any:
    """What a kernel sees for the argument of a constexpr parameter."""
    value = unwrap(value)
    if type(value) is int:
        return ConstInt(value)
    if type(value) is str:
        return ConstStr(value)
    if type(value) is float:
        return ConstFloat(value)
    if isinstance(value, torch.dtype):
        from torch_tile.language.dtypes import dtype_of_torch

        return dtype_of_torch(value)
    return value


def unwrap(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value
