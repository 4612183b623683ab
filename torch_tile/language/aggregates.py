"""Classes whose values kernels pass around: fields are scalars, tiles, constants and other aggregates."""

from __future__ import annotations

import inspect
from typing import Any

from torch_tile.language.compile_time_values import constexpr, unwrap


class _Method:
    """A kernel that is a method: called on a value, it gets the value first."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.kernel
        return lambda *args, **kwargs: self.kernel(instance, *args, **kwargs)


def _fields(cls: type) -> dict[str, Any]:
    """Annotations of the class and its bases, those of bases first."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is not object:
            found.update(inspect.get_annotations(base))
    return found


def _is_constant(annotation: Any) -> bool:
    return annotation is constexpr or getattr(annotation, "__name__", annotation) in ("constexpr", "tl.constexpr")


def _held(value: Any, annotation: Any) -> Any:
    """What a field holds: constants answer `.value` outside of kernels too."""
    return constexpr(unwrap(value)) if _is_constant(annotation) else unwrap(value)


def aggregate(cls: Any) -> Any:
    """Makes a class whose instances live inside kernels; they do not change after their constructor.

    Fields are the annotated names. Without an `__init__` of its own the class gets one that takes them in order.
    Methods may be plain functions or kernels (`@torch_tile.jit`).

    Example:
        >>> @torch_tile.aggregate
        ... class Range:
        ...     start: tl.tensor
        ...     size: tl.constexpr
    """
    for base in cls.__mro__[1:-1]:
        if "__aggregate_fields__" not in vars(base):
            raise TypeError(f"{cls.__name__}: Aggregates can only inherit from other aggregates, got {base.__name__}")
    fields = _fields(cls)
    defaults: dict[str, Any] = dict(getattr(cls, "__aggregate_defaults__", {}))
    for name in inspect.get_annotations(cls):
        value = cls.__dict__.get(name, inspect.Parameter.empty)
        if value is not inspect.Parameter.empty:
            defaults[name] = value
            delattr(cls, name)
    own_init = cls.__dict__.get("__init__")

    def default_init(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(fields):
            raise TypeError(f"{cls.__name__} expected at most {len(fields)} fields, got {len(args)}")
        given = dict(zip(fields, args, strict=False))
        for name, value in kwargs.items():
            if name not in fields or name in given:
                problem = "twice" if name in given else "which it does not have"
                raise TypeError(f"{cls.__name__} expected the fields {', '.join(fields)}, got {name!r} {problem}")
            given[name] = value
        for name in fields:
            if name not in given and name not in defaults:
                raise TypeError(f"{cls.__name__} expected the field {name!r}, got none")
            setattr(self, name, given.get(name, defaults.get(name)))

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_is_made", False)
        (own_init or default_init)(self, *args, **kwargs)
        for name in fields:
            if name not in self.__dict__:
                raise AttributeError(f"the constructor of {cls.__name__} did not set the field {name!r}")
        object.__setattr__(self, "_is_made", True)

    def set_field(self: Any, name: str, value: Any) -> None:
        if name not in fields:
            raise AttributeError(f"{cls.__name__} has no field {name!r}; its fields: {', '.join(fields)}")
        if getattr(self, "_is_made", False):
            raise AttributeError(
                f"cannot assign to field {name!r} on immutable aggregate {cls.__name__}: it is assigned in the "
                "constructor only; make another value with tl.aggregate_replace"
            )
        object.__setattr__(self, name, _held(value, fields[name]))

    for name, member in list(vars(cls).items()):
        if type(member).__name__ == "JITFunction":
            setattr(cls, name, _Method(member))
    cls.__init__ = init
    cls.__setattr__ = set_field
    cls.__aggregate_fields__ = tuple(fields)
    cls.__aggregate_defaults__ = defaults
    return cls


def is_aggregate(value: Any) -> bool:
    return hasattr(type(value), "__aggregate_fields__")


def rebuilt(value: Any, fields: dict[str, Any]) -> Any:
    """A value of the same class with other fields; its constructor does not run."""
    made = object.__new__(type(value))
    annotations = _fields(type(value))
    for name, item in {**value.__dict__, **fields}.items():
        object.__setattr__(made, name, _held(item, annotations[name]) if name in annotations else item)
    return made


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """A copy of an aggregate with some fields replaced.

    Raises:
        TypeError: `instance` is no aggregate, or a field is unknown.

    Example:
        >>> state = tl.aggregate_replace(state, phase=state.phase ^ 1)
    """
    if not is_aggregate(instance):
        raise TypeError(f"tl.aggregate_replace expects an aggregate instance, got {instance!r}")
    for name in changes:
        if name not in type(instance).__aggregate_fields__:
            raise TypeError(f"{type(instance).__name__} has no field {name!r}")
    return rebuilt(instance, {k: unwrap(v) for k, v in changes.items()})


aggregate_replace.section = "Programs"  # type: ignore[attr-defined]
