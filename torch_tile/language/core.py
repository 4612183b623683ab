"""Values of a kernel, and the parts of every operation.

A kernel runs under a `Run`: the interpreter, where the value of a tensor is a numpy array, or the tracer, where it is
the name of a value in tile dialect text. An operation checks its operands, finds the type of its result, and calls
`emit` with both bodies.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import math
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from torch_tile.errors import InvalidKernelError
from torch_tile.language.compile_time_values import constexpr, unwrap
from torch_tile.language.dtypes import tile_type


class _State(threading.local):
    run: Any = None


state = _State()


def error(text: str) -> InvalidKernelError:
    """The user's program is wrong. The launch adds the kernel's name and the user's line."""
    return InvalidKernelError("kernel", text)


def current() -> Any:
    """What runs the kernel: an interpreter or a tracer."""
    run = state.run
    if run is None:
        raise error(
            "this function of the tile language expected to be called inside a kernel, got a call outside of one"
        )
    return run


class Undefined:
    """Stands for a variable that not every path assigns; reading it is the error, not its presence."""

    def __init__(self, name: str, why: str) -> None:
        object.__setattr__(self, "_message", f"variable `{name}` {why}")

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise error(object.__getattribute__(self, "_message"))

    __getattr__ = __call__ = __bool__ = __index__ = __iter__ = __getitem__ = __len__ = __float__ = __int__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = _fail
    __rfloordiv__ = __mod__ = __rmod__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = _fail
    __invert__ = __lt__ = __le__ = __gt__ = __ge__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _fail
    __pow__ = __rpow__ = __matmul__ = _fail
    __eq__ = __ne__ = _fail
    __hash__ = None  # type: ignore[assignment]


class Shape(builtins.tuple[int, ...]):
    """Sizes of a tile; adds to lists as well as to tuples."""

    def __add__(self, other: Any) -> Any:
        return Shape(builtins.tuple(self) + builtins.tuple(unwrap(v) for v in other))

    def __radd__(self, other: Any) -> Any:
        return Shape(builtins.tuple(unwrap(v) for v in other) + builtins.tuple(self))

    def __getitem__(self, key: Any) -> Any:
        got = builtins.tuple.__getitem__(self, unwrap(key))
        return Shape(got) if isinstance(key, builtins.slice) else got

    def __eq__(self, other: object) -> bool:
        return builtins.tuple(self) == (builtins.tuple(other) if isinstance(other, (list, builtins.tuple)) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = builtins.tuple.__hash__


class tensor:
    """A scalar or a tile inside a kernel.

    Attributes:
        dtype: element type.
        shape: sizes, empty for a scalar.
        type: both.
        value: the numbers, in the interpreter; a name in the tracer.
        origin: for pointers in the interpreter, the argument they come from.
    """

    __slots__ = ("dims", "dtype", "origin", "value")
    if TYPE_CHECKING:
        # Set by arith.py and by the operations that are methods.
        def __add__(self, other: Any) -> tensor: ...
        def __radd__(self, other: Any) -> tensor: ...
        def __sub__(self, other: Any) -> tensor: ...
        def __rsub__(self, other: Any) -> tensor: ...
        def __mul__(self, other: Any) -> tensor: ...
        def __rmul__(self, other: Any) -> tensor: ...
        def __truediv__(self, other: Any) -> tensor: ...
        def __rtruediv__(self, other: Any) -> tensor: ...
        def __floordiv__(self, other: Any) -> tensor: ...
        def __rfloordiv__(self, other: Any) -> tensor: ...
        def __mod__(self, other: Any) -> tensor: ...
        def __rmod__(self, other: Any) -> tensor: ...
        def __and__(self, other: Any) -> tensor: ...
        def __rand__(self, other: Any) -> tensor: ...
        def __or__(self, other: Any) -> tensor: ...
        def __ror__(self, other: Any) -> tensor: ...
        def __xor__(self, other: Any) -> tensor: ...
        def __rxor__(self, other: Any) -> tensor: ...
        def __lshift__(self, other: Any) -> tensor: ...
        def __rlshift__(self, other: Any) -> tensor: ...
        def __rshift__(self, other: Any) -> tensor: ...
        def __rrshift__(self, other: Any) -> tensor: ...
        def __lt__(self, other: Any) -> tensor: ...
        def __le__(self, other: Any) -> tensor: ...
        def __gt__(self, other: Any) -> tensor: ...
        def __ge__(self, other: Any) -> tensor: ...
        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...
        def __neg__(self) -> tensor: ...
        def __invert__(self) -> tensor: ...
        def __getitem__(self, key: Any) -> Any: ...

    # numpy must leave `array + tensor` to the tensor.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, dtype: Any, dims: builtins.tuple[int, ...] = (), origin: Any = None) -> None:
        self.value = value
        self.dtype = dtype
        self.dims = dims
        self.origin = origin

    @property
    def shape(self) -> Any:
        return Shape(self.dims)

    @property
    def type(self) -> Any:
        return tile_type(self.dtype, self.dims)

    @property
    def numel(self) -> int:
        return functools.reduce(lambda a, b: a * b, self.dims, 1)

    @property
    def handle(self) -> Any:
        return self.value

    def __bool__(self) -> bool:
        if current().tracing:
            raise error(
                f"expected a condition known when the kernel is compiled, got a run-time value of type {self.type}; "
                + _advice_on_conditions(sys._getframe(1))
            )
        if self.numel != 1:
            raise error(f"expected a scalar condition, got {self.type}; use `tl.where`, `&` and `|` on tiles")
        return bool(np.asarray(self.value).reshape(())[()])

    def __index__(self) -> int:
        if self.dims or not self.dtype.is_int():
            raise error(f"expected an integer scalar here, got {self.type}")
        if state.run is not None and state.run.tracing:
            raise error(
                "expected an integer known when the kernel is compiled, got a run-time value; pass it as a "
                "`tl.constexpr` argument"
            )
        return int(self.value)

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        if self.dims or (state.run is not None and state.run.tracing):
            advice = _advice_on_functions(sys._getframe(1)) or "use `.to(tl.float32)`"
            raise error(f"expected a number known when the kernel is compiled, got {self.type}; {advice}")
        return float(self.value)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch_tile import language

        name = getattr(function, "__name__", "?")
        hint = f"; tl.{name} does" if name in language.__all__ else ""
        raise error(f"torch.{name} takes no values of a kernel{hint}")

    def __iter__(self) -> Any:
        raise error(f"expected something to iterate over, got {self.type}; a tile cannot be taken apart (see tl.split)")

    def __len__(self) -> int:
        raise error(f"len() of {self.type}: use `.shape[0]`")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = ", ".join(sorted(k for k in vars(tensor) if not k.startswith("_")))
        raise AttributeError(f"{self.type} has no attribute {name!r}; known: {known}")

    def __repr__(self) -> str:
        if isinstance(self.value, str):
            return f"tensor({self.type})"
        return f"tensor({self.value}, {self.type})"

    def __format__(self, spec: str) -> str:
        if isinstance(self.value, str) or self.dims:
            return str(self)
        return format(self.value, spec)

    def numpy(self) -> Any:
        """The numbers, in the interpreter: for looking at them in a debugger."""
        return self.value


def _advice_on_conditions(frame: types.FrameType) -> str:
    """What to do where Python asks for the truth of a run-time value in `frame`."""
    code = frame.f_code
    if code.co_name == "<lambda>":
        return "use `tl.where`, or a function with @torch_tile.jit in the lambda's place"
    if _is_plain_function(frame):
        return f"decorate {code.co_name} with @torch_tile.jit, so that it may branch on run-time values"
    return "use `if`, `while` or `tl.where` on it"


def _advice_on_functions(frame: types.FrameType) -> str:
    """The function of ours that stands for one of Python's module math, called in the line where `frame` is."""
    from torch_tile import language

    names = {**frame.f_globals, **frame.f_locals}
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    for path in re.findall(r"([\w.]+)\s*\(", line):
        head, *rest = path.split(".")
        called = functools.reduce(lambda found, name: getattr(found, name, None), rest, names.get(head))
        name = getattr(called, "__name__", "")
        if called is None or called is not getattr(math, name, None):
            continue
        for module, ours in ((language, "tl"), (language.math, "tl.math")):
            if hasattr(module, name):
                return f"use {ours}.{name}, which takes run-time values"
    return ""


def _is_plain_function(frame: types.FrameType) -> bool:
    """Whether who called it knows the function of `frame` by its name, as it is, and not as one of ours."""
    from torch_tile.language.traceback import is_ours

    code, caller = frame.f_code, frame.f_back
    while caller is not None:
        names = {} if is_ours(caller.f_code.co_filename) else {**caller.f_globals, **caller.f_locals}
        known = names.get(code.co_name)
        if isinstance(known, types.FunctionType) and known.__code__ is code:
            return True
        caller = caller.f_back
    return False


def _is_debugger(depth: int) -> bool:
    """Whether the caller is an expression typed into a debugger."""
    return sys._getframe(depth).f_code.co_filename.startswith("<")


def method(function: Any) -> Any:
    """Also makes the operation a method of `tensor`."""
    setattr(tensor, function.__name__, function)
    return function


def named(kind: str) -> Callable[[Any], Any]:
    """Marks functions of the language with the section of the reference they belong to."""

    def mark(function: Any) -> Any:
        function.section = kind
        return function

    return mark


def emit(type_: Any, dims: Any, eager: Callable[[], Any], build: Callable[[Any], str], origin: Any = None) -> tensor:
    """The result of an operation: computed by `eager` in the interpreter, written by `build` in the tracer."""
    run = current()
    if run.tracing:
        return tensor(build(run), type_, dims, origin)
    return tensor(eager(), type_, dims, origin)


def mlir_type(x: tensor) -> str:
    type_: str = tile_type(x.dtype, x.dims).mlir if x.dims else x.dtype.mlir
    return type_


def builtin(function: Any) -> Any:
    """Triton's mark of its own functions; a plain function is one here."""
    return function


def __getattr__(name: str) -> Any:
    # Sources written for Triton import functions of the language from this module.
    if name.startswith("__"):
        raise AttributeError(name)
    from torch_tile import language

    if name == "_unwrap_if_constexpr":
        return unwrap
    if name == "CONSTEXPR_0":
        return constexpr(0)
    value = vars(language).get(name)
    if value is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return value
