"""Conversions of float8e4b15, Triton's 8-bit float of four exponent bits with bias 15. It is an f16 without the upper
exponent bit and the lower seven bits of the mantissa, and knows neither infinity nor NaN."""

from __future__ import annotations

from typing import Any

from triton.language import core

# The largest magnitude that Triton's own conversion gives, as an f16: 1.75.
_LARGEST = 0x3F00


@core.builtin  # type: ignore[untyped-decorator]
def convert_custom_types(arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None, _semantic: Any = None) -> Any:
    """`arg` as `dst_ty`; one of the two is float8e4b15."""
    s = _semantic
    number = s.to_tensor
    if arg.type.scalar.is_fp8e4b15():
        bits = s.cast(s.bitcast(arg, core.uint8), core.int32)
        sign = s.shl(s.and_(bits, number(0x80)), number(8))
        magnitude = s.shl(s.and_(bits, number(0x7F)), number(7))
        half = s.bitcast(s.cast(s.or_(sign, magnitude), core.int16), core.float16)
        return half if dst_ty.scalar.is_fp16() else s.cast(half, dst_ty.scalar)
    half = s.cast(arg, core.float16, "rtz") if arg.type.scalar.is_fp32() else s.cast(arg, core.float16)
    bits = s.cast(s.bitcast(half, core.int16), core.int32)
    magnitude = s.minimum(s.and_(bits, number(0x7FFF)), number(_LARGEST), propagate_nan=core.PropagateNan.NONE)
    # Halves round up.
    magnitude = s.lshr(s.add(magnitude, number(0x40), False), number(7))
    sign = s.and_(s.lshr(bits, number(8)), number(0x80))
    return s.bitcast(s.cast(s.or_(sign, magnitude), core.uint8), core.float8e4b15)
