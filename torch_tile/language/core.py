"""Values of a kernel, and what every operation is made of.

A kernel runs under a `Run`: the interpreter, where the value of a tensor is a numpy array, or the tracer, where it is
the name of a value in tile dialect text. An operation checks its operands, finds the type of its result, and calls
`emit` with both bodies.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from torch_tile.errors import InvalidKernelError, TileError
from torch_tile.language.dtypes import (
    constexpr,
    dtype,
    dtype_of_number,
    float16,
    float32,
    float64,
    int32,
    pointer_type,
    tile_type,
    unwrap,
)


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
                "use `if`, `while` or `tl.where` on it"
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
            raise error(f"expected a number known when the kernel is compiled, got {self.type}; use `.to(tl.float32)`")
        return float(self.value)

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
        return tensor(build(run), type_, dims)
    return tensor(eager(), type_, dims, origin)


def mlir_type(x: tensor) -> str:
    return str(tile_type(x.dtype, x.dims).mlir)


# --- from Python values -----------------------------------------------------------------------------------------


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float, bool, np.bool_, np.integer, np.floating))


def constant(value: Any, type_: Any, dims: Any = ()) -> tensor:
    """A scalar or tile that holds one number everywhere."""
    run = current()
    if run.tracing:
        return tensor(run.constant(value, type_, dims), type_, dims)
    if type_.is_narrow_float:
        number = run.round(type_, np.float64(value) if type_ is float16 else np.float32(value))
    elif isinstance(value, int) and not isinstance(value, bool) and type_.is_int() and type_.name != "int1":
        bits = type_.primitive_bitwidth
        wrapped = value & ((1 << bits) - 1)
        if type_.is_signed_number() and wrapped >> (bits - 1):
            wrapped -= 1 << bits
        number = type_.carrier.type(wrapped)
    else:
        number = type_.carrier.type(value)
    return tensor(np.full(dims, number, type_.carrier) if dims else number, type_, dims)


def as_tensor(x: Any, what: str = "a value") -> tensor:
    if isinstance(x, tensor):
        return x
    x = unwrap(x)
    if isinstance(x, tensor):
        return x
    if is_number(x):
        return constant(x, dtype_of_number(x))
    if isinstance(x, Undefined):
        x._fail()
    raise error(f"expected {what} that is a tile, scalar or number, got {describe(x)}")


def describe(x: Any) -> str:
    if isinstance(x, tensor):
        return str(x.type)
    if isinstance(x, (dtype, pointer_type)):
        return f"the type {x}"
    kind = type(x)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    advice = "; pass tensors as arguments of the launch" if name == "torch.Tensor" else ""
    text = repr(x)
    return f"{text if len(text) < 60 else text[:57] + '...'} of type {name}{advice}"


def as_shape(shape: Any, what: str) -> builtins.tuple[int, ...]:
    shape = unwrap(shape)
    if isinstance(shape, tensor) or is_number(shape):
        shape = (shape,)
    try:
        items = builtins.tuple(unwrap(s) for s in shape)
    except TypeError:
        raise error(f"{what} expected a shape like [16, 32], got {describe(shape)}") from None
    sizes = []
    for size in items:
        if isinstance(size, tensor):
            raise error(
                f"{what} expected sizes known when the kernel is compiled, got a run-time value in the shape; "
                "pass it as a `tl.constexpr` argument"
            )
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool):
            raise error(f"{what} expected integers as sizes, got {describe(size)}")
        if size < 1 or size & (size - 1):
            raise error(
                f"{what} expected sizes that are powers of two, got {size}; round up with "
                "`torch_tile.next_power_of_2` and mask the rest"
            )
        sizes.append(int(size))
    return builtins.tuple(sizes)


def as_int(x: Any, what: str) -> int:
    x = unwrap(x)
    if isinstance(x, tensor) and (state.run is None or state.run.tracing or x.dims):
        raise error(
            f"{what} expected an integer known when the kernel is compiled, got {describe(x)}; pass it as a "
            "`tl.constexpr` argument"
        )
    if isinstance(x, tensor):
        raise error(
            f"{what} expected an integer known when the kernel is compiled, got a run-time value; pass it as a "
            "`tl.constexpr` argument"
        )
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
        raise error(f"{what} expected an integer, got {describe(x)}")
    return int(x)


def as_dtype(x: Any, what: str) -> Any:
    import torch

    from torch_tile.language.dtypes import dtype_of_torch

    x = unwrap(x)
    if isinstance(x, torch.dtype):
        return dtype_of_torch(x)
    if not isinstance(x, (dtype, pointer_type)):
        raise error(f"{what} expected an element type like tl.float32, got {describe(x)}")
    if x.name in ("fp8e4b15", "void"):
        raise error(f"{what}: the type {x} is not supported on this target; supported 8-bit floats: fp8e4nv, fp8e5")
    return x


def as_axis(axis: Any, rank: int, what: str) -> int:
    axis = as_int(axis, f"{what}: axis")
    if not -rank <= axis < rank:
        raise error(f"{what} expected an axis in [{-rank}, {rank}) for a tile of rank {rank}, got {axis}")
    return axis % rank


# --- casts ------------------------------------------------------------------------------------------------------


def bitcast(x: tensor, to: Any) -> tensor:
    source = x.dtype
    if source == to:
        return x
    if source.primitive_bitwidth != to.primitive_bitwidth:
        raise error(
            f"a bitcast expected types of one width, got {source} ({source.primitive_bitwidth} bits) and {to} "
            f"({to.primitive_bitwidth} bits); without bitcast=True values are converted"
        )

    def eager() -> Any:
        if source.is_ptr() or to.is_ptr():
            return x.value
        run = current()
        return run.from_bits(to, run.to_bits(source, x.value))

    def build(run: Any) -> str:
        if source.is_ptr() and to.is_ptr():
            return str(run.op("tile.ptr_cast", [x], f"{mlir_type(x)} -> {tile_type(to, x.dims).mlir}"))
        return str(run.cast("arith.bitcast", x, to))

    return emit(to, x.dims, eager, build)


def cast(x: tensor, to: Any) -> tensor:
    """Converts numbers: to the nearest in float types, toward zero in integer types, != 0 in int1."""
    source = x.dtype
    if source == to:
        return x
    if source.is_ptr() or to.is_ptr():
        return _cast_pointer(x, to)
    if to.name == "int1":
        from torch_tile.language.arith import compare

        return compare("ne", x, 0)

    def eager() -> Any:
        return current().convert(source, to, x.value)

    def build(run: Any) -> str:
        if source.is_floating() and to.is_floating():
            wide, narrow = source.primitive_bitwidth, to.primitive_bitwidth
            if (
                wide == narrow
                or (narrow < 16 and wide == 64)
                or (wide < 16 and narrow != 32)
                or (narrow < 16 and wide != 32)
            ):
                return (
                    str(cast(cast(x, float32), to).value)
                    if float32 not in (source, to)
                    else run.cast("arith.truncf", x, to)
                )
            return str(run.cast("arith.truncf" if wide > narrow else "arith.extf", x, to))
        if source.is_floating():
            if source.is_fp8():
                return str(cast(cast(x, float32), to).value)
            return str(run.float_to_int(x, to))
        if to.is_floating():
            if to.is_fp8():
                return str(cast(cast(x, float32), to).value)
            return str(run.cast("arith.sitofp" if source.is_signed_number() else "arith.uitofp", x, to))
        if source.primitive_bitwidth == to.primitive_bitwidth:
            return str(run.ref(x))
        if source.primitive_bitwidth > to.primitive_bitwidth:
            return str(run.cast("arith.trunci", x, to))
        return str(run.cast("arith.extsi" if source.is_signed_number() else "arith.extui", x, to))

    return emit(to, x.dims, eager, build)


def _cast_pointer(x: tensor, to: Any) -> tensor:
    source = x.dtype
    if source.is_ptr() and to.is_ptr():
        return bitcast(x, to)
    if source.is_ptr() and to.name in ("int64", "uint64"):
        return emit(
            to,
            x.dims,
            lambda: np.asarray(x.value).astype(to.carrier)[()],
            lambda run: run.op("tile.ptr_to_int", [x], f"{mlir_type(x)} -> {tile_type(to, x.dims).mlir}"),
        )
    if source.is_ptr() and to.name == "int1":
        from torch_tile.language.arith import compare
        from torch_tile.language.dtypes import int64

        return compare("ne", _cast_pointer(x, int64), 0)
    if to.is_ptr() and source.is_int() and source.primitive_bitwidth == 64:
        return emit(
            to,
            x.dims,
            lambda: np.asarray(x.value).astype(np.int64)[()],
            lambda run: run.op("tile.int_to_ptr", [x], f"{mlir_type(x)} -> {tile_type(to, x.dims).mlir}"),
        )
    raise error(f"cannot convert {source} to {to}; pointers convert to and from 64-bit integers only")


# --- broadcasting -----------------------------------------------------------------------------------------------


def common_shape(a: Any, b: Any) -> Any:
    """The shape to which both broadcast: aligned at the last axis, equal or 1."""
    if a == b or not b:
        return a
    if not a:
        return b
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for axis, (m, n) in enumerate(zip(left, right, strict=True)):
        if m != n and m != 1 and n != 1:
            raise error(
                f"shapes {list(a)} and {list(b)} do not match: axis {axis} has {m} and {n} elements, expected equal "
                "sizes or 1; add axes with `x[:, None]` or change the sizes"
            )
    return builtins.tuple(max(m, n) for m, n in zip(left, right, strict=True))


def repeats_to(source: Any, dims: Any) -> bool:
    """Whether a shape becomes another by repeating along axes of size 1."""
    missing = len(dims) - len(source)
    return missing >= 0 and all(m in (1, n) for m, n in zip(source, dims[missing:], strict=True))


def broadcast_to_dims(x: tensor, dims: Any) -> tensor:
    """Makes the shape explicit; eager bodies of pointwise operations need no call of this."""
    if x.dims == dims:
        return x

    def build(run: Any) -> str:
        if not x.dims:
            return str(run.op("tile.splat", [x], f"{mlir_type(x)} -> {tile_type(x.dtype, dims).mlir}"))
        source = x
        while len(source.dims) < len(dims):
            wider = (1, *source.dims)
            text = f"{mlir_type(source)} -> {tile_type(x.dtype, wider).mlir}"
            source = tensor(run.op("tile.expand_dims", [source], text, after=" axis 0"), x.dtype, wider)
        if source.dims == dims:
            return str(run.ref(source))
        return str(run.op("tile.broadcast", [source], f"{mlir_type(source)} -> {tile_type(x.dtype, dims).mlir}"))

    return emit(x.dtype, dims, lambda: np.broadcast_to(x.value, dims), build, x.origin)


def check_number_fits(x: Any, type_: Any) -> None:
    if type_.is_int() and type_.name != "int1" and isinstance(x, int):
        if x < 0 and not type_.is_signed_number():
            raise error(
                f"a negative number, {x}, and values of unsigned type {type_} do not combine; "
                "cast one of them explicitly"
            )
        if not type_.get_int_min_value() <= x <= type_.get_int_max_value():
            raise error(
                f"the number {x} is out of the range of {type_}, the type of the other operand; "
                "cast that operand to a wider type"
            )


def promote(a: Any, a_weak: bool, b: Any, b_weak: bool, division: bool = False) -> Any:
    """The type in which two operands are computed. Python numbers are weak: of a lower or equal kind they follow."""
    if a_weak != b_weak:
        weak, strong = (a, b) if a_weak else (b, a)
        if weak.weight <= strong.weight:
            a = b = strong
    if a is float64 or b is float64:
        return float64
    if division and (a.weight == 2 or b.weight == 2):
        return float32
    if a is float32 or b is float32:
        return float32
    if a is float16 or b is float16:
        return float16
    if a.name == "bf16" and b.name == "bf16":
        return a
    if a.name == "bf16" or b.name == "bf16":
        return float32
    if a.is_fp8() and b.is_fp8():
        return a if a is b else float16
    if a.is_fp8() or b.is_fp8():
        return a if a.is_fp8() else b
    if division and a.int_signedness != b.int_signedness:
        raise error(f"cannot divide {a} and {b}: expected integers of one signedness; cast one of them explicitly")
    if a.is_signed == b.is_signed:
        return a if a.primitive_bitwidth > b.primitive_bitwidth else b
    unsigned, signed = (b, a) if a.is_signed else (a, b)
    return unsigned if unsigned.primitive_bitwidth >= signed.primitive_bitwidth else signed


def operand(x: Any) -> Any:
    """An operand of an operator: a tensor, or the plain number of a weak scalar."""
    if isinstance(x, tensor):
        return x
    x = unwrap(x)
    if isinstance(x, tensor) or is_number(x):
        return x.item() if isinstance(x, np.generic) else x
    if isinstance(x, Undefined):
        x._fail()
    raise error(f"expected a tile, a scalar or a number as operand, got {describe(x)}")


def unify(*values: Any, division: bool = False) -> list[tensor]:
    """Operands in their common type; shapes are left to the caller."""
    items = [operand(v) for v in values]
    strong = [v for v in items if isinstance(v, tensor)]
    for v in strong:
        if v.dtype.is_ptr():
            raise error(f"expected numbers, got {v.type}; load through the pointer first, with tl.load")
    target = None
    for weak in (False, True):
        part = None
        for v in items:
            if isinstance(v, tensor) is not weak:
                type_ = dtype_of_number(v) if weak else v.dtype
                part = type_ if part is None else promote(part, weak, type_, weak, division)
        if part is not None:
            target = part if target is None else promote(target, False, part, True, division)
    if len(strong) == 1 == len(items):
        target = strong[0].dtype
    result = []
    for v in items:
        if isinstance(v, tensor):
            result.append(cast(v, target))
        else:
            check_number_fits(v, target)
            result.append(constant(v, target))
    return result


__all__ = [
    "Shape",
    "TileError",
    "Undefined",
    "constexpr",
    "current",
    "dtype_of_number",
    "emit",
    "error",
    "int32",
    "promote",
    "state",
    "tensor",
    "tile_type",
    "unwrap",
]
