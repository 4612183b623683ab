"""What a value outside of a kernel is at the moment: equal if a kernel that reads it would be compiled to the same."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from torch_tile.language.compile_time_values import constexpr

# Defined elsewhere once and for all: nothing in them is looked at.
_FIXED_MODULES = frozenset({"torch", "torch_tile", "triton", "builtins", "math", "numpy"})
ATOMS = (bool, int, float, complex, str, bytes, type(None))


def is_fixed(value: Any) -> bool:
    """Whether what is inside of a module, class, function or object stays as it is."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(name).split(".", 1)[0] in _FIXED_MODULES


class _Same:
    """An object that is equal to itself alone, and lives as long as this."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


# A kernel's constants are small; what holds more, like a program's whole state, is known by itself.
_MOST_PARTS = 10_000


def state_of(value: Any) -> Any:
    """A description that can be hashed and compared. 0.0 is not -0.0, 1 not True, and NaN is itself.

    Containers, arrays of numpy and objects of the user's classes are what they hold: whoever changes them gets another
    description. A tensor is known by itself and the count of its changes, a function by itself and its defaults.
    """
    try:
        return _state(value, {})
    except RecursionError:
        return _Same(value)


def _state(value: Any, seen: dict[int, tuple[int, Any]]) -> Any:
    """`seen`: number and object by id. The objects are kept, so that no other gets their id meanwhile."""
    if isinstance(value, constexpr):
        value = value.value
    kind = type(value)
    if isinstance(value, (float, complex)):
        return (kind, repr(value))
    if isinstance(value, ATOMS):
        return (kind, value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return (kind, value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, torch.Tensor):
        return (kind, _Same(value), 0 if value.is_inference() else value._version)
    if isinstance(value, (type, types.ModuleType)) or hasattr(value, "launchers"):  # a kernel
        return _Same(value)
    if id(value) in seen:
        return ("again", seen[id(value)][0])
    parts = _parts(value) if len(seen) < _MOST_PARTS else None
    if parts is None:
        try:
            hash(value)
        except TypeError:
            return _Same(value)
        return value
    seen[id(value)] = len(seen), value
    states = [_state(part, seen) for part in parts]
    return (kind, frozenset(states) if isinstance(value, (set, frozenset)) else tuple(states))


def _parts(value: Any) -> list[Any] | None:
    """What a value consists of; None if it is known as a whole."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return list(value)
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, np.ndarray):
        return [value.shape, *value.flat]
    if isinstance(value, types.FunctionType):
        return [_Same(value), value.__defaults__, value.__kwdefaults__]
    if isinstance(value, types.MethodType):
        return [_Same(value.__func__), value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if is_fixed(value):
        return None
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    if not slots and not hasattr(value, "__dict__"):
        return None
    return [*getattr(value, "__dict__", {}).items(), *((name, getattr(value, name)) for name in slots)]
