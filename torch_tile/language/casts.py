"""Conversions of values between types."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language.core import current, emit, error, mlir_type, tensor
from torch_tile.language.dtypes import float8e4b15, float16, float32, int16, int32, tile_type, uint8
from torch_tile.language.values import constant

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

    origin = x.origin if current().tracing else None

    def build(run: Any) -> str:
        if source.is_ptr() and to.is_ptr():
            return str(run.op("tile.ptr_cast", [x], f"{mlir_type(x)} -> {tile_type(to, x.dims).mlir}"))
        return str(run.cast("arith.bitcast", x, to))

    return emit(to, x.dims, eager, build, origin)


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
    if current().tracing and float8e4b15 in (source, to):
        return _cast_e4b15(x, to)

    def eager() -> Any:
        return current().convert(source, to, x.value)

    def build(run: Any) -> str:
        # 8-bit floats convert from and to float32 alone; integers come from float32 or float64.
        detour = (source.is_fp8() or to.is_fp8()) and float32 not in (source, to)
        if source.is_floating() and to.is_floating():
            wide, narrow = source.primitive_bitwidth, to.primitive_bitwidth
            if detour or wide == narrow:
                return str(cast(cast(x, float32), to).value)
            if to.name == "fp8e4nv":  # has no infinity: too great a value becomes the greatest
                from torch_tile.language.arith import apply

                limit = constant(448.0, source)
                inside = apply("minimum_nan", apply("maximum_nan", x, constant(-448.0, source)), limit)
                return str(run.cast("arith.truncf", inside, to))
            return str(run.cast("arith.truncf" if wide > narrow else "arith.extf", x, to))
        if source.is_floating():
            if source.is_narrow_float:
                return str(cast(cast(x, float32), to).value)
            return str(run.cast("arith.fptosi" if to.is_signed_number() else "arith.fptoui", x, to))
        if to.is_floating():
            if detour:
                return str(cast(cast(x, float32), to).value)
            return str(run.cast("arith.sitofp" if source.is_signed_number() else "arith.uitofp", x, to))
        if source.primitive_bitwidth == to.primitive_bitwidth:
            return str(run.ref(x))
        if source.primitive_bitwidth > to.primitive_bitwidth:
            return str(run.cast("arith.trunci", x, to))
        return str(run.cast("arith.extsi" if source.is_signed_number() else "arith.extui", x, to))

    return emit(to, x.dims, eager, build)


def _cast_e4b15(x: tensor, to: Any) -> tensor:
    """From or to float8e4b15, whose bits are those of an f16 without the upper exponent bit and the lower seven bits of
    the mantissa; magnitudes end at 1.75. Compiled code knows it as a byte."""
    from torch_tile.language.ops.arithmetic import minimum
    from torch_tile.language.ops.conversions import toward_zero

    if x.dtype is float8e4b15:
        bits = cast(bitcast(x, uint8), int32)
        half = bitcast(cast(((bits & 0x80) << 8) | ((bits & 0x7F) << 7), int16), float16)
        return cast(half, to)
    half = x if x.dtype is float16 else toward_zero(cast(x, float32), float16)
    bits = cast(bitcast(half, int16), int32)
    magnitude = (minimum(bits & 0x7FFF, 0x3F00) + 0x40) >> 7
    return bitcast(cast(magnitude | ((bits >> 8) & 0x80), uint8), float8e4b15)


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
    hint = "; load through the pointer first, with tl.load" if source.is_ptr() and not to.is_ptr() else ""
    raise error(f"cannot convert {source} to {to}; pointers convert to and from 64-bit integers only{hint}")
