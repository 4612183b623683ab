"""Operands: numbers and shapes from Python, conversions between types, broadcasting and promotion."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from torch_tile.language.compile_time_values import VariableFloat, VariableInt, unwrap
from torch_tile.language.core import Undefined, current, emit, error, mlir_type, state, tensor
from torch_tile.language.dtypes import dtype, dtype_of_number, float16, float32, float64, pointer_type, tile_type

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
    if kind.__module__ == "torch_tile.language.compile_time_values" and kind.__mro__[2] in (int, float, str):
        kind = kind.__mro__[2]  # a number or text of a constant or variable
        x = kind(x)
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
    if x.name == "void":
        raise error(f"{what}: the type {x} is not supported on this target")
    return x


def as_axis(axis: Any, rank: int, what: str) -> int:
    axis = as_int(axis, f"{what}: axis")
    if not -rank <= axis < rank:
        raise error(
            f"{what} expected an axis in [{-rank}, {rank}) for a tile of rank {rank}, got {axis}: invalid axis {axis}"
        )
    return axis % rank


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
            literal = run.literals.get(x.value)
            if literal is not None:
                return str(run.literal(literal, x.dtype, dims))
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
                f"the number {x} is out of range for {type_}, the type of the other operand; "
                "cast that operand to a wider type"
            )


def promote(a: Any, a_weak: bool, b: Any, b_weak: bool, division: str = "") -> Any:
    """The type in which two operands are computed. Python numbers are weak: of a lower or equal kind they follow.

    `division` is the operator, of those that divide.
    """
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
        raise error(
            f"Cannot use `{division}` on {a} and {b} because they have different signedness; cast one of them "
            "explicitly"
        )
    if a.is_signed == b.is_signed:
        return a if a.primitive_bitwidth > b.primitive_bitwidth else b
    unsigned, signed = (b, a) if a.is_signed else (a, b)
    return unsigned if unsigned.primitive_bitwidth >= signed.primitive_bitwidth else signed


def operand(x: Any) -> Any:
    """An operand of an operator: a tensor, or the plain number of a weak scalar."""
    if isinstance(x, tensor):
        return x
    x = unwrap(x)
    if isinstance(x, (VariableInt, VariableFloat)):
        return constant(x, dtype_of_number(x))
    if isinstance(x, tensor) or is_number(x):
        return x.item() if isinstance(x, np.generic) else x
    if isinstance(x, Undefined):
        x._fail()
    raise error(f"expected a tile, a scalar or a number as operand, got {describe(x)}")


def unify(*values: Any, division: str = "") -> list[tensor]:
    """Operands in their common type; shapes are left to the caller."""
    from torch_tile.language.casts import cast

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
