"""Interprets kernels written for Triton: their functions run with `torch_tile.language` in place of Triton's names."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from torch_tile.language.aggregates import aggregate
from torch_tile.language.autotune import Config, Heuristics
from torch_tile.language.autotuner import Autotuner
from torch_tile.language.compile_time_values import constexpr
from torch_tile.language.dtypes import dtype_of_name, pointer_type
from torch_tile.language.jit import Interpreted, JITFunction

_converted: dict[int, tuple[Any, JITFunction]] = {}
_converted_aggregates: dict[int, tuple[Any, type]] = {}


def interpret(kernel: Any) -> Interpreted:
    """The kernel, to be run in Python on CPU tensors: one of ours, or of Triton's with its wrappers.

    Example:
        >>> torch_tile.interpret(triton_kernel)[grid](x, y, n, BLOCK=1024)
    """
    if isinstance(kernel, (JITFunction, Autotuner, Heuristics)):
        return _InterpretedOurs(kernel)
    return InterpretedTriton(_wrapped(kernel))


class _InterpretedOurs(Interpreted):
    """A kernel of ours whose arguments may be Triton's."""

    def translated(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            items = [self.translated(each) for each in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return translate(value)


class InterpretedTriton(_InterpretedOurs):
    follows_triton = True


def _wrapped(kernel: Any) -> Any:
    if isinstance(kernel, (JITFunction, Autotuner, Heuristics)):
        return kernel
    kind = type(kernel).__name__
    if kind == "Autotuner":
        configs = [Config(dict(c.kwargs), pre_hook=getattr(c, "pre_hook", None)) for c in kernel.configs]
        return Autotuner(_wrapped(kernel.fn), configs, list(kernel.keys))
    if kind == "Heuristics":
        return Heuristics(_wrapped(kernel.fn), kernel.values)
    function = getattr(kernel, "fn", kernel)
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"torch_tile.interpret expected a kernel of torch_tile.jit or triton.jit, got {kernel!r}")
    return convert(function)


def convert(function: types.FunctionType) -> JITFunction:
    """A kernel of ours with the function's code, looking its names up through a translation."""
    found = _converted.get(id(function))
    if found is not None:
        return found[1]
    copy = _copied(function)
    kernel = JITFunction(copy)
    # Functions may use each other, so this one is known before what it uses is translated.
    _converted[id(function)] = (function, kernel)
    _translate_closure(copy, function)
    return kernel


def _copied(function: types.FunctionType) -> types.FunctionType:
    """The function with names that are translated, but for those of its closure."""
    copy = types.FunctionType(
        function.__code__,
        _Globals(function.__globals__),
        function.__name__,
        function.__defaults__,
        tuple(types.CellType() for _ in function.__closure__ or ()),
    )
    copy.__kwdefaults__ = {k: translate(v) for k, v in (function.__kwdefaults__ or {}).items()} or None
    copy.__defaults__ = tuple(translate(v) for v in function.__defaults__ or ()) or None
    copy.__annotations__ = {k: _annotation(v) for k, v in function.__annotations__.items()}
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, function.__qualname__, function.__doc__
    return copy


def _translate_closure(copy: types.FunctionType, function: types.FunctionType) -> None:
    for cell, source in zip(copy.__closure__ or (), function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = translate(source.cell_contents)
        except ValueError:  # assigned later
            continue


def _convert_aggregate(cls: Any) -> Any:
    """An aggregate of ours with the fields and methods of one of Triton's. Triton keeps no base classes either."""
    found = _converted_aggregates.get(id(cls))
    if found is not None:
        return found[1]
    made: Any = type(cls.__name__, (), {"__module__": cls.__module__, "__doc__": cls.__doc__})
    made.__qualname__ = cls.__qualname__
    # Methods make values of their class, so it is known before they are translated.
    _converted_aggregates[id(cls)] = (cls, made)
    made.__annotations__ = {name: _annotation(type_) for name, type_ in cls.__annotations__.items()}
    for name, default in cls.__aggregate_defaults__.items():
        setattr(made, name, translate(default))
    init, *methods = cls.hash_attrs
    if not getattr(init, "__triton_builtin__", False):
        made.__init__ = _convert_method(init)
    for name, member in vars(cls).items():
        if any(member is method for method in methods):
            setattr(made, name, _convert_method(member))
    return aggregate(made)


def _convert_method(member: Any) -> Any:
    """Functions of compile-time values stay plain, as functions without a decorator do."""
    if type(member).__name__ in ("JITFunction", "InterpretedFunction"):
        return convert(member.fn)
    function = getattr(member, "fn", member)
    copy = _copied(function)
    _translate_closure(copy, function)
    return copy


def _annotation(value: Any) -> Any:
    return constexpr if getattr(value, "__name__", "") == "constexpr" else translate(value)


class _Globals(dict[str, Any]):
    """Globals of a foreign kernel, looked up and translated when they are asked for."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__()
        self.source = names
        self["__builtins__"] = names.get("__builtins__", __builtins__)
        self["__name__"] = names.get("__name__", "")

    def __missing__(self, name: str) -> Any:
        value = self.source[name]
        made = translate(value)
        if made is not value:  # what is the user's own may change
            self[name] = made
        return made


@functools.lru_cache(maxsize=1)
def _tables() -> tuple[Any, dict[int, Any]]:
    import torch_tile
    from torch_tile import language
    from torch_tile.language import math
    from torch_tile.language.extra import libdevice

    modules: dict[str, Any] = {
        "triton": torch_tile,
        "triton.language": language,
        "triton.language.core": language,
        "triton.language.standard": language,
        "triton.language.math": math,
        "triton.language.random": language,
        "triton.language.extra": language.extra,
        "triton.language.extra.libdevice": libdevice,
        "triton.language.extra.cuda": language.extra.cuda,
        "triton.language.extra.cuda.libdevice": libdevice,
        "triton.language.extra.hip.libdevice": libdevice,
    }
    objects: dict[int, Any] = {}
    for name in ("triton.language", "triton.language.math", "triton.language.extra.libdevice"):
        source = sys.modules.get(name)
        for key, value in list(vars(source).items()) if source is not None else ():
            ours = getattr(modules[name], key, None)
            if ours is not None and not key.startswith("_") and callable(value):
                objects[id(value)] = ours
    return modules, objects


def translate(value: Any) -> Any:
    """What a foreign name means here; itself if it is nothing of Triton's."""
    module = getattr(type(value), "__module__", "") or ""
    if isinstance(value, types.ModuleType):
        return _tables()[0].get(value.__name__, value)
    ours = _tables()[1].get(id(value))
    if ours is not None:
        return ours
    if isinstance(value, type) and getattr(value, "__triton_aggregate__", False):
        return _convert_aggregate(value)
    if not module.startswith("triton."):
        return value
    kind = type(value).__name__
    if kind == "JITFunction" or kind == "InterpretedFunction":
        return convert(value.fn)
    if kind == "ConstexprFunction":
        return getattr(value, "fn", value)
    if kind == "constexpr":
        return constexpr(translate(value.value))
    if kind == "dtype":
        return dtype_of_name(value.name)
    if kind == "pointer_type":
        return pointer_type(translate(value.element_ty))
    return value
