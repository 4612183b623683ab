"""Functions of Triton's library of device functions that are kernels here: what no operation of the compiler says."""

from __future__ import annotations

import triton.language as tl
from triton import jit

from torch_tile.formulas import bessel_orders
from torch_tile.triton import formulas_in_triton

# Triton's front end reads these functions; annotations of theirs would be those of constants.


@jit
def _turned(x):  # type: ignore[no-untyped-def]
    x = ((x >> 1) & 0x55555555) | ((x & 0x55555555) << 1)
    x = ((x >> 2) & 0x33333333) | ((x & 0x33333333) << 2)
    x = ((x >> 4) & 0x0F0F0F0F) | ((x & 0x0F0F0F0F) << 4)
    x = ((x >> 8) & 0x00FF00FF) | ((x & 0x00FF00FF) << 8)
    return (x >> 16) | (x << 16)


@jit
def brev(arg0):  # type: ignore[no-untyped-def]
    if arg0.dtype.primitive_bitwidth == 32:
        result = _turned(arg0.to(tl.uint32, bitcast=True))
    else:
        x = arg0.to(tl.uint64, bitcast=True)
        low, high = _turned(x.to(tl.uint32)).to(tl.uint64), _turned((x >> 32).to(tl.uint32)).to(tl.uint64)
        result = (low << 32) | high
    return result.to(arg0.dtype, bitcast=True)


@jit
def byte_perm(arg0, arg1, arg2):  # type: ignore[no-untyped-def]
    low = arg0.to(tl.uint32, bitcast=True).to(tl.uint64)
    both = (arg1.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | low
    choice = arg2.to(tl.uint64)
    result = low & 0
    for k in tl.static_range(4):
        one = choice >> (4 * k)
        byte = (both >> ((one & 7) * 8)) & 0xFF
        sign = (byte >> 7) * 0xFF
        result |= tl.where((one & 8) != 0, sign, byte) << (8 * k)
    return result.to(tl.uint32).to(tl.int32, bitcast=True)


@jit
def mul24(arg0, arg1):  # type: ignore[no-untyped-def]
    return ((arg0 << 8) >> 8) * ((arg1 << 8) >> 8)


@jit
def sad(arg0, arg1, arg2):  # type: ignore[no-untyped-def]
    return tl.where(arg0 > arg1, arg0 - arg1, arg1 - arg0) + arg2


@jit
def hadd(arg0, arg1):  # type: ignore[no-untyped-def]
    return ((arg0.to(tl.int64) + arg1.to(tl.int64)) >> 1).to(arg0.dtype)


@jit
def rhadd(arg0, arg1):  # type: ignore[no-untyped-def]
    return ((arg0.to(tl.int64) + arg1.to(tl.int64) + 1) >> 1).to(arg0.dtype)


@jit
def double2hiint(arg0):  # type: ignore[no-untyped-def]
    return (arg0.to(tl.int64, bitcast=True) >> 32).to(tl.int32)


@jit
def double2loint(arg0):  # type: ignore[no-untyped-def]
    return arg0.to(tl.int64, bitcast=True).to(tl.int32)


@jit
def hiloint2double(arg0, arg1):  # type: ignore[no-untyped-def]
    low = arg1.to(tl.uint32, bitcast=True).to(tl.int64)
    return ((arg0.to(tl.int64) << 32) | low).to(tl.float64, bitcast=True)


@jit
def rcp64h(arg0):  # type: ignore[no-untyped-def]
    bits = (1.0 / arg0).to(tl.int64, bitcast=True)
    return ((bits >> 32) << 32).to(tl.float64, bitcast=True)


@jit
def _exponent(x):  # type: ignore[no-untyped-def]
    # Subnormal numbers of float32 are none of float64.
    wide = x.to(tl.float64)
    scaled = tl.where(tl.abs(wide) < 2.2250738585072014e-308, wide * 18014398509481984.0, wide)
    exponent = ((scaled.to(tl.int64, bitcast=True) >> 52) & 0x7FF).to(tl.int32) - 1023
    return tl.where(tl.abs(wide) < 2.2250738585072014e-308, exponent - 54, exponent)


@jit
def ilogb(arg0):  # type: ignore[no-untyped-def]
    is_low = (arg0 == 0) | (arg0 != arg0)
    lowest = tl.full(arg0.shape, -2147483648, tl.int32) if arg0.type.is_block() else tl.cast(-2147483648, tl.int32)
    found = tl.where(is_low, lowest, _exponent(arg0))
    return tl.where(tl.abs(arg0) == float("inf"), lowest - 1, found)


@jit
def logb(arg0):  # type: ignore[no-untyped-def]
    found = tl.where(arg0 == 0, -float("inf"), _exponent(arg0).to(arg0.dtype))
    return tl.where((tl.abs(arg0) == float("inf")) | (arg0 != arg0), tl.abs(arg0), found)


@jit
def nextafter(arg0, arg1):  # type: ignore[no-untyped-def]
    kind: tl.constexpr = tl.int32 if arg0.dtype == tl.float32 else tl.int64
    bits = arg0.to(kind, bitcast=True)
    step = tl.where((arg0 < arg1) == (bits >= 0), 1, -1).to(kind)
    moved = (bits + step).to(arg0.dtype, bitcast=True)
    least = (bits * 0 + 1).to(arg0.dtype, bitcast=True)
    moved = tl.where(arg0 == arg1, arg1, tl.where(arg0 == 0, tl.where(arg1 < 0, -least, least), moved))
    return tl.where((arg0 != arg0) | (arg1 != arg1), arg0 + arg1, moved)


@jit
def _largest(n):  # type: ignore[no-untyped-def]
    return tl.max(n) if n.type.is_block() else n


_names = {"tl": tl, "bessel": formulas_in_triton, "largest": _largest}
yn = jit(bessel_orders.bound(bessel_orders.yn, **_names))
jn = jit(bessel_orders.bound(bessel_orders.jn, **_names))
