"""Operators: arithmetic, bits, shifts, comparisons, and pointer arithmetic. `tensor` gets its dunder methods here."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, emit, error, mlir_type, tensor
from torch_tile.language.dtypes import dtype_of_number, float32, int1, int64, int_type, tile_type
from torch_tile.language.values import (
    as_tensor,
    broadcast_to_dims,
    common_shape,
    constant,
    describe,
    operand,
    promote,
    unify,
)


def _truncating_quotient(a: Any, b: Any) -> Any:
    """As in C; 0 where the divisor is 0."""
    if a.dtype.kind == "u":
        return np.floor_divide(a, b)
    return np.floor_divide(a - np.fmod(a, b), b)


# Operation -> (ufunc, float op, signed op, unsigned op).
BINARY: dict[str, tuple[Any, str, str, str]] = {
    "add": (np.add, "arith.addf", "arith.addi", "arith.addi"),
    "sub": (np.subtract, "arith.subf", "arith.subi", "arith.subi"),
    "mul": (np.multiply, "arith.mulf", "arith.muli", "arith.muli"),
    "truediv": (np.divide, "arith.divf", "", ""),
    "truediv_rn": (np.divide, "arith.divf", "", ""),
    "floordiv": (_truncating_quotient, "", "arith.divsi", "arith.divui"),
    "mod": (np.fmod, "arith.remf", "arith.remsi", "arith.remui"),
    "and": (np.bitwise_and, "", "arith.andi", "arith.andi"),
    "or": (np.bitwise_or, "", "arith.ori", "arith.ori"),
    "xor": (np.bitwise_xor, "", "arith.xori", "arith.xori"),
    "shl": (None, "", "arith.shli", "arith.shli"),
    "shr": (None, "", "arith.shrsi", "arith.shrui"),
    "maximum": (np.fmax, "arith.maxnumf", "arith.maxsi", "arith.maxui"),
    "minimum": (np.fmin, "arith.minnumf", "arith.minsi", "arith.minui"),
    "maximum_nan": (np.maximum, "arith.maximumf", "", ""),
    "minimum_nan": (np.minimum, "arith.minimumf", "", ""),
}
SYMBOLS = {"floordiv": "//", "truediv": "/", "truediv_rn": "/", "mod": "%", "and": "&", "or": "|", "xor": "^"}
SYMBOLS |= {"shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# On GPU `/` may be off by two units in the last place, as in Triton; the second is the nearest float.
_QUOTIENTS = ("truediv", "truediv_rn")
COMPARE = {
    "eq": (np.equal, "oeq", "eq", "eq"),
    "ne": (np.not_equal, "une", "ne", "ne"),
    "lt": (np.less, "olt", "slt", "ult"),
    "le": (np.less_equal, "ole", "sle", "ule"),
    "gt": (np.greater, "ogt", "sgt", "ugt"),
    "ge": (np.greater_equal, "oge", "sge", "uge"),
}


def _shift(kind: str, a: Any, b: Any, bits: int) -> Any:
    """Shifts by the width or more give what a shift bit by bit would give."""
    amount = np.minimum(b.astype(np.uint64), np.uint64(bits))
    inside = np.minimum(amount, np.uint64(bits - 1)).astype(a.dtype)
    if kind == "shl":
        return np.where(amount < bits, np.left_shift(a, inside), a.dtype.type(0))[()]
    shifted = np.right_shift(a, inside)
    return shifted if a.dtype.kind == "i" else np.where(amount < bits, shifted, a.dtype.type(0))[()]


def apply(kind: str, a: tensor, b: tensor) -> tensor:
    """A binary operation on operands of one type."""
    type_ = a.dtype
    dims = common_shape(a.dims, b.dims)
    ufunc, float_op, signed_op, unsigned_op = BINARY[kind]
    is_float = type_.is_floating()
    name = float_op if is_float else signed_op if type_.is_signed_number() else unsigned_op
    if not name:
        bitwise = kind in ("and", "or", "xor")
        expected = "integers or conditions" if bitwise else "integers" if signed_op else "floats"
        advice = "use `tl.floor(x / y)`" if kind == "floordiv" else "cast them, `.to(tl.int32)`"
        raise error(
            f"`{SYMBOLS.get(kind, kind)}` expected {expected}, got {type_}; {advice}: invalid operands of type {type_}"
        )
    run = current()
    if run.tracing:
        mark = " {tile.rounded}" if kind == "truediv_rn" else ""
        return tensor(run.binary(name, a, b, dims, mark), type_, dims)
    x, y = a.value, b.value
    if ufunc is None:
        value = _shift(kind, x, y, type_.primitive_bitwidth)
    elif kind in ("floordiv", "mod") and not is_float:
        run.check_divisor(y, dims, SYMBOLS[kind])
        if type_.name == "int1":
            value = np.zeros(np.broadcast(x, y).shape, np.bool_)[()] if kind == "mod" else np.logical_and(x, y)
        else:
            value = ufunc(x, y)
    elif type_.name == "int1" and kind in ("add", "sub", "mul"):
        value = np.bitwise_and(x, y) if kind == "mul" else np.bitwise_xor(x, y)
    else:
        value = ufunc(x, y)
    if type_.is_narrow_float and kind not in ("maximum", "minimum", "maximum_nan", "minimum_nan"):
        value = run.round(type_, value)
    if run.checks_nan and is_float:
        run.check_nan(value, (x, y))
    return tensor(value, type_, dims)


def arithmetic(kind: str, x: Any, y: Any) -> tensor:
    """A binary operation with promotion and broadcasting."""
    x, y = operand(x), operand(y)
    x_tensor, y_tensor = isinstance(x, tensor), isinstance(y, tensor)
    if (
        x_tensor
        and y_tensor
        and x.dtype is y.dtype
        and (x.dtype is float32 or (x.dtype.weight == 1 and kind not in _QUOTIENTS))
    ):
        return apply(kind, x, y)
    x_type = x.dtype if x_tensor else dtype_of_number(x)
    y_type = y.dtype if y_tensor else dtype_of_number(y)
    if x_type.is_ptr() or y_type.is_ptr():
        return _pointer_arithmetic(kind, as_tensor(x), as_tensor(y))
    if kind in ("and", "or", "xor"):
        _check_integers(kind, x_type, y_type)
    division = SYMBOLS[kind] if kind in (*_QUOTIENTS, "floordiv", "mod") else ""
    if not x_tensor and not y_tensor:
        a, b = unify(as_tensor(x), as_tensor(y), division=division)
    else:
        target = promote(x_type, not x_tensor, y_type, not y_tensor, division)
        if target is x_type and target is y_type and x_tensor and y_tensor:
            a, b = x, y
        else:
            a, b = unify(x, y, division=division)
    if kind in _QUOTIENTS and a.dtype.is_int():
        a, b = cast(a, float32), cast(b, float32)
    if a.dtype.is_fp8() and kind not in ("maximum", "minimum"):
        raise error(f"arithmetic on {a.dtype} is not supported: expected a wider type; cast first, `.to(tl.float16)`")
    return apply(kind, a, b)


def _check_integers(kind: str, x: Any, y: Any) -> None:
    for type_ in (x, y):
        if not type_.is_int():
            raise error(
                f"`{SYMBOLS[kind]}` expected integers or conditions, got {x} and {y}: invalid operands of type {type_}"
            )


def _pointer_arithmetic(kind: str, x: tensor, y: tensor) -> tensor:
    if kind == "add" and y.dtype.is_ptr() and not x.dtype.is_ptr():
        x, y = y, x
    if kind not in ("add", "sub"):
        raise error(
            f"`{SYMBOLS.get(kind, kind)}` expected numbers, got {x.type} and {y.type}; load through the "
            "pointer first, with tl.load"
        )
    if y.dtype.is_ptr() or not x.dtype.is_ptr():
        verb = "added" if kind == "add" else "subtracted"
        raise error(f"pointers cannot be {verb}: got {x.type} and {y.type}, expected a pointer and integer offsets")
    if not y.dtype.is_int():
        raise error(f"a pointer expected integer offsets, got {y.type}; cast them, `.to(tl.int64)`")
    if kind == "sub":
        y = negative(y)
    dims = common_shape(x.dims, y.dims)
    run = current()
    if run.tracing:
        if (not y.dtype.is_signed_number() and y.dtype.primitive_bitwidth < 64) or y.dtype.primitive_bitwidth < 32:
            y = cast(y, int64)
        a, b = broadcast_to_dims(x, dims), broadcast_to_dims(y, dims)
        text = mlir_type(a) + (f", {mlir_type(b)}" if dims or y.dtype is not int64 else "")
        return tensor(run.op("tile.ptr_add", [a, b], text), x.dtype, dims, x.origin)
    offset = y.value if y.dtype is int64 else y.value.astype(np.int64)
    size = x.dtype.element_ty.itemsize
    return tensor(x.value + (offset * size if size > 1 else offset), x.dtype, dims, x.origin)


def compare(kind: str, x: Any, y: Any) -> tensor:
    """A comparison: int1 of the common shape."""
    x, y = operand(x), operand(y)
    if isinstance(x, tensor) and isinstance(y, tensor) and x.dtype is y.dtype and x.dtype.weight == 1:
        a, b = x, y
    else:
        a, b = as_tensor(x), as_tensor(y)
        if a.dtype.is_ptr() or b.dtype.is_ptr():
            # An address is compared with another one or with a number that is written down: 0.
            if any(isinstance(v, tensor) and not v.dtype.is_ptr() for v in (x, y)):
                raise error(
                    f"`{SYMBOLS[kind]}` expected numbers or two pointers, got {a.type} and {b.type}; load through the "
                    "pointer first, with tl.load"
                )
            a, b = cast(a, int64), cast(b, int64)
        else:
            a, b = unify(x, y)
    dims = common_shape(a.dims, b.dims)
    run = current()
    ufunc, float_name, signed_name, unsigned_name = COMPARE[kind]
    if run.tracing:
        if a.dtype.is_floating():
            return tensor(run.binary(f"arith.cmpf {float_name},", a, b, dims), int1, dims)
        name = signed_name if a.dtype.is_signed_number() else unsigned_name
        return tensor(run.binary(f"arith.cmpi {name},", a, b, dims), int1, dims)
    return tensor(ufunc(a.value, b.value), int1, dims)


def negative(x: Any) -> tensor:
    x = as_tensor(x)
    type_ = x.dtype
    if type_.is_ptr():
        raise error(f"`-` expected a number, got {x.type}")
    if type_.is_floating():
        return emit(type_, x.dims, lambda: np.negative(x.value), lambda run: run.op("arith.negf", [x], mlir_type(x)))
    return arithmetic("sub", constant(0, type_), x)


def invert(x: Any) -> tensor:
    x = as_tensor(x)
    if not x.dtype.is_int():
        raise error(f"`~` expected integers or conditions, got {x.type}")
    return arithmetic("xor", x, constant(True if x.dtype is int1 else -1, x.dtype))


def logical(kind: str, x: Any, y: Any) -> tensor:
    """`and`, `or` on run-time values."""
    return arithmetic(kind, cast(as_tensor(x), int1), cast(as_tensor(y), int1))


def logical_not(x: Any) -> tensor:
    return invert(cast(as_tensor(x), int1))


def select(condition: tensor, x: tensor, y: tensor) -> tensor:
    """x where the condition holds, else y: operands of one type."""
    dims = common_shape(common_shape(condition.dims, x.dims), y.dims)
    origin = x.origin if x.origin is y.origin else None
    if origin is None and x.origin is not None and y.origin is not None and current().tracing:
        origin = x.origin | y.origin

    def build(run: Any) -> str:
        type_ = tile_type(x.dtype, dims).mlir
        a, b = broadcast_to_dims(x, dims), broadcast_to_dims(y, dims)
        if not condition.dims and dims:
            return str(run.op("arith.select", [condition, a, b], str(type_)))
        c = broadcast_to_dims(condition, dims)
        before = f"{mlir_type(c)}, " if dims else ""
        return str(run.op("arith.select", [c, a, b], f"{before}{type_}"))

    return emit(x.dtype, dims, lambda: np.where(condition.value, x.value, y.value)[()], build, origin)


def power(x: Any, y: Any) -> tensor:
    raise error("`**` of run-time values is not supported; write x * x, or tl.extra.libdevice.pow(x, y) for floats")


def _install() -> None:
    setattr(tensor, "__pow__", power)  # noqa: B010
    setattr(tensor, "__rpow__", lambda x, y: power(y, x))  # noqa: B010
    for kind in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor"):
        setattr(tensor, f"__{kind}__", lambda x, y, kind=kind: arithmetic(kind, x, y))
        setattr(tensor, f"__r{kind}__", lambda x, y, kind=kind: arithmetic(kind, y, x))
    for kind, name in (("shl", "lshift"), ("shr", "rshift")):
        setattr(tensor, f"__{name}__", lambda x, y, kind=kind: shift(kind, x, y))
        setattr(tensor, f"__r{name}__", lambda x, y, kind=kind: shift(kind, y, x))
    for kind in COMPARE:
        setattr(tensor, f"__{kind}__", lambda x, y, kind=kind: compare_or_none(kind, x, y))
    setattr(tensor, "__neg__", negative)  # noqa: B010
    setattr(tensor, "__invert__", invert)  # noqa: B010
    setattr(tensor, "__pos__", lambda x: x)  # noqa: B010
    setattr(tensor, "__abs__", lambda x: x.abs())  # noqa: B010
    setattr(tensor, "logical_and", lambda x, y: logical("and", x, y))  # noqa: B010
    setattr(tensor, "logical_or", lambda x, y: logical("or", x, y))  # noqa: B010


def shift(kind: str, x: Any, y: Any) -> tensor:
    x, y = operand(x), operand(y)
    for v in (x, y):
        if isinstance(v, tensor) and not v.dtype.is_int():
            raise error(f"`{SYMBOLS[kind]}` expected integers, got {v.type}")
        if isinstance(v, float):
            raise error(f"`{SYMBOLS[kind]}` expected integers, got {v}")
    if kind == "shr" and isinstance(x, tensor) and isinstance(y, tensor) and x.dtype.is_signed_number():
        a, b = unify(x, y)
        common = a.dtype
        if not common.is_signed_number():  # the sign is that of what is shifted, whatever the common type
            signed = int_type(common.primitive_bitwidth, True)
            return cast(apply(kind, cast(a, signed), cast(b, signed)), common)
    return arithmetic(kind, x, y)


def compare_or_none(kind: str, x: Any, y: Any) -> Any:
    other = unwrap(y)
    if other is None or isinstance(other, str):
        if kind not in ("eq", "ne"):
            raise error(f"`{SYMBOLS[kind]}` expected numbers, got {x.type} and {describe(other)}")
        return kind == "ne"
    return compare(kind, x, y)


_install()
