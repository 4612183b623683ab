"""Values that a kernel reads from outside: globals, variables of enclosing functions, attributes of modules, classes.

They are read when the kernel is traced. A kernel that was compiled with one that has changed since is compiled again.
What a kernel reads is found in its code, and in that of the functions that it may call.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from torch_tile.code_names import MISSING, cell_content, names_read
from torch_tile.language.compile_time_values import constexpr
from torch_tile.language.dtypes import dtype
from torch_tile.language.states import ATOMS, is_fixed, state_of

# Values that may change without being another object. A method may read its object.
_CONTAINERS = (list, set, Mapping, np.ndarray, torch.Tensor, types.MethodType)


class OuterValue:
    """A value as it was when it was read, and how to read it again."""

    __slots__ = ("_read", "_snapshot", "is_cell", "is_container", "name", "namespace", "owner", "value")

    def __init__(self, name: str, owner: Any, namespace: dict[str, Any], read: Callable[[], Any]) -> None:
        self.name, self.owner, self.namespace = name, owner, namespace
        self.is_cell = isinstance(owner, types.CellType)
        self._read = read
        self.value = read()
        self.is_container = isinstance(self.value, _CONTAINERS) or _is_callable_object(self.value)
        self._snapshot = state_of(self.value) if self.is_container else self.value

    def has_changed(self) -> bool:
        now = self._read()
        if self.is_container:
            return state_of(now) != self._snapshot
        if now is self.value:
            return False
        if type(now) is not type(self.value):
            return True
        if isinstance(now, ATOMS):
            return repr(now) != repr(self.value)  # so that 0.0 is not -0.0, and NaN is itself
        try:
            return not bool(now == self._snapshot)
        except Exception:  # it does not say whether it is equal as a whole
            return True


def _is_callable_object(value: Any) -> bool:
    """Whether it is an object of a class of the user's that can be called as a function, which may read the object."""
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) or hasattr(value, "launchers"):
        return False
    return callable(value) and not is_fixed(value)


def _function_of(value: Any) -> types.FunctionType | None:
    """The Python function that a value runs when a kernel calls it."""
    for _ in range(4):
        if isinstance(value, types.FunctionType):
            wrapped = getattr(value, "__wrapped__", None)
            if wrapped is None:
                return value
            value = wrapped
        elif isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(getattr(value, "fn", None), types.FunctionType):
            return value.fn  # a kernel
        else:
            return None
    return None


def _follow(owner: Any, name: str, namespace: dict[str, Any], chain: tuple[str, ...]) -> Iterator[OuterValue]:
    """The values along `owner.a.b`, from the first attribute on, that somebody may set."""
    for attribute in chain:
        is_function = callable(owner) and not isinstance(owner, type)
        if is_function or is_fixed(owner) or isinstance(owner, (torch.Tensor, *ATOMS)):
            return
        if getattr(owner, attribute, MISSING) is MISSING:
            return
        name = f"{name}.{attribute}"
        found = OuterValue(name, owner, namespace, functools.partial(getattr, owner, attribute, MISSING))
        yield found
        owner = found.value


def _read_by(function: types.FunctionType) -> Iterator[OuterValue]:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    names = function.__globals__
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        pending += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for kind, chain in names_read(code):
            first, rest = chain[0], chain[1:]
            if kind == "global" and first in names:
                found = OuterValue(first, names, names, functools.partial(names.get, first, MISSING))
            elif kind == "cell" and first in cells and cell_content(cells[first]) is not MISSING:
                found = OuterValue(first, cells[first], names, functools.partial(cell_content, cells[first]))
            else:
                continue
            if not isinstance(found.value, types.ModuleType):
                yield found
            for inner in _follow(found.value, first, names, rest):
                inner.is_cell = found.is_cell
                yield inner


def values_read_by(functions: Iterable[Any]) -> list[OuterValue]:
    """What these functions and kernels read from outside, by way of the functions that they name, too."""
    found: list[OuterValue] = []
    seen: set[int] = set()
    pending = [f for f in map(_function_of, functions) if f is not None]
    while pending:
        function = pending.pop()
        if id(function) in seen or is_fixed(function):
            continue
        seen.add(id(function))
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(function, name):
                read = functools.partial(getattr, function, name)
                found.append(OuterValue(name, function, function.__globals__, read))
        for value in _read_by(function):
            found.append(value)
            inner = _function_of(value.value)
            if inner is not None:
                pending.append(inner)
    return found


class OuterValues:
    """The outer values of all that a kernel was compiled to."""

    def __init__(self) -> None:
        self.values: list[OuterValue] = []
        # (namespace, name, value) of globals: what a launch can bear to look at.
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
        self.defaults: list[tuple[types.FunctionType, Any]] = []  # those by position: likewise
        self.others: list[OuterValue] = []

    def add(self, functions: Iterable[Any]) -> None:
        known = {(id(value.owner), value.name) for value in self.values}
        for value in values_read_by(functions):
            if (id(value.owner), value.name) in known or value.has_changed():  # a property that makes new objects
                continue
            known.add((id(value.owner), value.name))
            self.values.append(value)
            if isinstance(value.owner, dict) and not value.is_container:
                self.globals.append((value.owner, value.name, value.value))
            elif isinstance(value.owner, types.FunctionType) and not value.is_container:
                self.defaults.append((value.owner, value.value))
            else:
                self.others.append(value)

    def changed(self) -> list[str]:
        """Names of values that are no longer what they were."""
        is_same = all(names.get(name, MISSING) is value for names, name, value in self.globals)
        if is_same and not self.others and all(function.__defaults__ is value for function, value in self.defaults):
            return []
        return [value.name for value in self.values if value.has_changed()]


def places_of(functions: Iterable[Any]) -> list[tuple[types.ModuleType, list[str], Any]]:
    """Of the values that these read, those of modules that Dynamo can compare: module, names from there, value.

    Variables of enclosing functions, defaults and objects of other kinds are left out.
    """
    found = []
    for value in values_read_by(functions):
        if isinstance(value.owner, types.FunctionType):
            continue
        module = sys.modules.get(value.namespace.get("__name__", ""))
        if module is None or vars(module) is not value.namespace or value.is_cell or not _is_comparable(value.value):
            continue
        found.append((module, value.name.split("."), value.value))
    return found


def _is_comparable(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_comparable, value))
    return isinstance(value, (bool, int, float, str, type(None), dtype, constexpr, types.FunctionType)) or (
        hasattr(value, "launchers") and hasattr(value, "index")
    )
