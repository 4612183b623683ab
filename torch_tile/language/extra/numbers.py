"""Functions of tl.extra.libdevice on the parts and bits of numbers, and conversions by rounding mode."""

from __future__ import annotations

from typing import Any

from torch_tile.language.casts import cast
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import float32, float64, int32, int64, uint32, uint64
from torch_tile.language.extra.elementary import (
    abs,
    ceil,
    copysign,
    div_rn,
    floor,
    fma,
    log2,
    popc,
    rint,
    round,
    rsqrt,
    trunc,
)
from torch_tile.language.ops import arithmetic as _arithmetic
from torch_tile.language.ops import math as _math
from torch_tile.language.ops.math import where
from torch_tile.language.values import as_tensor, constant, unify


def _bits(x: tensor) -> Any:
    from torch_tile.language.casts import bitcast

    return bitcast(x, _math.bits_type(x))


def nextafter(arg0: Any, arg1: Any) -> tensor:
    """The float after arg0 in the direction of arg1."""
    from torch_tile.language.casts import bitcast

    x, y = unify(as_tensor(arg0), as_tensor(arg1))
    bits = _bits(x)
    step = where((x < y) == (bits >= 0), 1, -1)
    moved = bitcast(cast(bits + step, bits.dtype), x.dtype)
    least = copysign(bitcast(constant(1, bits.dtype, x.dims), x.dtype), y)
    moved = where(x == y, y, where(x == 0, least, moved))
    return where((x != x) | (y != y), x + y, moved)


def ilogb(arg0: Any) -> tensor:
    """Exponent of each element as int32; of 0 and NaN the lowest, of infinity the greatest integer."""
    from torch_tile.language.extra import formulas_on_tiles

    x = as_tensor(arg0)
    wide = cast(x, float64)
    exponent = cast(floor(log2(abs(wide))), int32)
    # log2 may round across a power of two.
    low = formulas_on_tiles.made_of_others("ldexp", constant(1.0, float64), exponent)
    size = abs(wide)
    exponent = where(size < low, exponent - 1, where(size >= low * 2.0, exponent + 1, exponent))
    exponent = where(size == float("inf"), 0x7FFFFFFF, exponent)
    return cast(where((x == 0) | (x != x), -0x80000000, exponent), int32)


def logb(arg0: Any) -> tensor:
    """Exponent of each element as a float."""
    x = as_tensor(arg0)
    value = cast(ilogb(x), x.dtype)
    value = where(x == 0, -float("inf"), where(abs(x) == float("inf"), float("inf"), value))
    return where(x != x, x, value)


def _reinterpreted(name: str, source: Any, target: Any) -> Any:
    def function(arg0: Any) -> tensor:
        from torch_tile.language.casts import bitcast

        return bitcast(cast(as_tensor(arg0), source), target)

    function.__name__ = name
    function.__doc__ = f"The bits of {source} as {target}."
    return function


float_as_int = _reinterpreted("float_as_int", float32, int32)
int_as_float = _reinterpreted("int_as_float", int32, float32)
float_as_uint = _reinterpreted("float_as_uint", float32, uint32)
uint_as_float = _reinterpreted("uint_as_float", uint32, float32)
double_as_longlong = _reinterpreted("double_as_longlong", float64, int64)
longlong_as_double = _reinterpreted("longlong_as_double", int64, float64)


def double2hiint(arg0: Any) -> tensor:
    """Upper 32 bits of a float64."""
    return cast(double_as_longlong(arg0) >> 32, int32)


def double2loint(arg0: Any) -> tensor:
    """Lower 32 bits of a float64."""
    return cast(double_as_longlong(arg0), int32)


def hiloint2double(arg0: Any, arg1: Any) -> tensor:
    """float64 of its upper and its lower 32 bits."""
    high, low = cast(as_tensor(arg0), int64), cast(cast(as_tensor(arg1), uint32), int64)
    return longlong_as_double((high << 32) | low)


def _converting(name: str, rounding: Any, source: Any, target: Any) -> Any:
    def function(arg0: Any) -> tensor:
        return cast(rounding(cast(as_tensor(arg0), source)), target)

    function.__name__ = name
    function.__doc__ = f"{source} as {target}, rounded as the name says."
    return function


for _source_name, _source in (("float", float32), ("double", float64)):
    for _target_name, _target in (("int", int32), ("uint", uint32), ("ll", int64), ("ull", uint64)):
        for _mode, _rounding in (("rn", rint), ("rz", trunc), ("rd", floor), ("ru", ceil)):
            _name = f"{_source_name}2{_target_name}_{_mode}"
            globals()[_name] = _converting(_name, _rounding, _source, _target)
for _source_name, _source in (("int", int32), ("uint", uint32), ("ll", int64), ("ull", uint64)):
    for _target_name, _target in (("float", float32), ("double", float64)):
        _name = f"{_source_name}2{_target_name}_rn"
        globals()[_name] = _converting(_name, lambda x: x, _source, _target)
double2float_rn = _converting("double2float_rn", lambda x: x, float64, float32)


def llround(arg0: Any) -> tensor:
    """Nearest whole number, halves away from zero, as int64."""
    return cast(round(arg0), int64)


def sub_rn(arg0: Any, arg1: Any) -> tensor:
    """arg0 - arg1, correctly rounded."""
    return _arithmetic.sub(arg0, arg1)


def rcp_rn(arg0: Any) -> tensor:
    """1 / arg0, correctly rounded."""
    return div_rn(1.0, arg0)


fma_rn = fma
rsqrt_rn = rsqrt


# --- integers ---------------------------------------------------------------------------------------------------------


def clz(arg0: Any) -> tensor:
    """Number of zeros before the highest bit that is set, as int32."""
    x = as_tensor(arg0)
    bits = x.dtype.primitive_bitwidth
    smeared = cast(x, uint64 if bits == 64 else uint32)
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < bits:
            smeared = smeared | (smeared >> shift)
    return bits - popc(smeared)


def brev(arg0: Any) -> tensor:
    """The bits in the opposite order."""
    x = as_tensor(arg0)
    bits = x.dtype.primitive_bitwidth
    unsigned: Any = uint64 if bits == 64 else uint32
    value = cast(x, unsigned)
    masks = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF)
    for k, mask in enumerate(masks):
        even = constant(mask & ((1 << bits) - 1), unsigned)
        value = ((value >> (1 << k)) & even) | ((value & even) << (1 << k))
    if bits == 64:
        value = (value >> 32) | (value << 32)
    return cast(value, x.dtype)


def byte_perm(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Four bytes of the eight of arg0 (the lower ones) and arg1, chosen by the lower 3 bits of arg2's nibbles."""
    a, b, chosen = (cast(as_tensor(v), uint32) for v in (arg0, arg1, arg2))
    both = cast(a, uint64) | (cast(b, uint64) << 32)
    result: Any = cast(chosen & 0, uint64)
    for k in range(4):
        place = cast((chosen >> (4 * k)) & 7, uint64) * 8
        result = result | (((both >> place) & 0xFF) << (8 * k))
    return cast(result, int32)


def mul24(arg0: Any, arg1: Any) -> tensor:
    """Product of the lower 24 bits."""
    a, b = (cast(as_tensor(v), int32) for v in (arg0, arg1))
    return ((a << 8) >> 8) * ((b << 8) >> 8)


def hadd(arg0: Any, arg1: Any) -> tensor:
    """(arg0 + arg1) >> 1 without overflow."""
    a, b = unify(as_tensor(arg0), as_tensor(arg1))
    return (a & b) + ((a ^ b) >> 1)


def rhadd(arg0: Any, arg1: Any) -> tensor:
    """(arg0 + arg1 + 1) >> 1 without overflow."""
    a, b = unify(as_tensor(arg0), as_tensor(arg1))
    return (a | b) - ((a ^ b) >> 1)


def sad(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """abs(arg0 - arg1) + arg2 of integers."""
    a, b = unify(as_tensor(arg0), as_tensor(arg1))
    return where(a > b, a - b, b - a) + arg2
