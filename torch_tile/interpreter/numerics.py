"""Number formats that numpy lacks, on float32: rounding to them, and their bits in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

_FLOAT8 = {
    "fp8e5": torch.float8_e5m2,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5b16": torch.float8_e5m2fnuz,
    "fp8e4b8": torch.float8_e4m3fnuz,
}
# An f16 without the upper exponent bit and the lower seven bits of the mantissa: neither infinity nor NaN.
_E4B15 = "fp8e4b15"
_LARGEST_E4B15 = np.uint16(0x3F00)  # 1.75, as an f16
_tables: dict[str, Any] = {}
_ABS = np.uint32(0x7FFFFFFF)
_INF = np.uint32(0x7F800000)


def bfloat16_bits(value: Any) -> Any:
    """The upper halves of float32 numbers, rounded to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(value, dtype=np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    is_nan = (bits & _ABS) > _INF
    if is_nan.any():
        rounded = np.where(is_nan, np.uint32(0x7FC0) | ((bits >> np.uint32(16)) & np.uint32(0x8000)), rounded)
    return rounded.astype(np.uint16)


def round_narrow(name: str, value: Any) -> Any:
    """float32 values (or float64, for float16) rounded to nearest even in the format `name`, as float32."""
    if name == "fp16":
        return np.asarray(value).astype(np.float16).astype(np.float32)[()]
    shape = np.shape(value)
    if name == "bf16":
        bits = bfloat16_bits(_to_float32_odd(value))
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(shape)[()]
    return decode(name, encode(name, value)).reshape(shape)[()]


def saturated(name: str, value: Any) -> Any:
    """float32 values, those beyond the range of an 8-bit float `name` replaced by its greatest and least; NaN stays."""
    if name not in _FLOAT8:
        return value
    limit = np.float32(torch.finfo(_FLOAT8[name]).max)
    return np.clip(value, -limit, limit)


def _to_float32_odd(value: Any) -> Any:
    """float64 to float32 with the last bit set where inexact, so that a second rounding does not round twice."""
    value = np.asarray(value)
    if value.dtype != np.float64:
        return value
    near = value.astype(np.float32)
    with np.errstate(all="ignore"):
        error = value - near.astype(np.float64)
    bits = near.view(np.uint32).copy() if near.ndim else np.array(near).view(np.uint32)
    away = (error != 0) & np.isfinite(near)
    # `near` lies beyond `value` where the error has the other sign: step back, then set the last bit.
    beyond = away & ((error < 0) == (value > 0))
    bits = np.where(beyond, bits - np.uint32(1), bits)
    return np.where(away, bits | np.uint32(1), bits).astype(np.uint32).view(np.float32)


def encode(name: str, value: Any) -> Any:
    """Bits in memory of values that are held as float32."""
    if name == "fp16":
        return np.asarray(value).astype(np.float16)[()]
    if name == "bf16":
        return bfloat16_bits(value).reshape(np.shape(value))[()]
    if name == _E4B15:
        return _encode_e4b15(value)
    with _disable_current_modes():  # a graph that is compiled may have fake tensors switched on
        numbers = torch.from_numpy(np.array(value, dtype=np.float32, copy=True, ndmin=1))
        return numbers.to(_FLOAT8[name]).view(torch.uint8).numpy().reshape(np.shape(value))


def decode(name: str, bits: Any) -> Any:
    """float32 values of bits in memory."""
    if name == "fp16":
        return np.asarray(bits).view(np.float16).astype(np.float32)[()]
    if name == "bf16":
        return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]
    table = _tables.get(name)
    if table is None:
        table = _e4b15_values() if name == _E4B15 else _float8_values(name)
        _tables[name] = table
    return table[bits]


def _float8_values(name: str) -> Any:
    with _disable_current_modes():
        return torch.arange(256, dtype=torch.uint8).view(_FLOAT8[name]).float().numpy()


def _e4b15_values() -> Any:
    bits = np.arange(256, dtype=np.uint16)
    return (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).view(np.float16).astype(np.float32)


def _encode_e4b15(value: Any) -> Any:
    """Through f16, toward zero; then halves round up, and magnitudes end at 1.75."""
    value = np.asarray(value, np.float32)
    half = value.astype(np.float16)
    bits = half.view(np.uint16) if half.ndim else np.asarray(half).view(np.uint16)
    beyond = np.abs(half.astype(np.float32)) > np.abs(value)
    magnitude = np.minimum((bits & np.uint16(0x7FFF)) - beyond.astype(np.uint16), _LARGEST_E4B15)
    return (((magnitude + np.uint16(0x40)) >> 7) | ((bits >> 8) & 0x80)).astype(np.uint8)


def supports(name: str) -> bool:
    return name in ("fp16", "bf16", _E4B15) or name in _FLOAT8
