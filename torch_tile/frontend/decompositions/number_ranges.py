"""Which numbers ATen converts to a dtype: a decomposition leaves to it a number that it refuses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def is_in_range(number: int | float, dtype: torch.dtype) -> bool:
    """Infinities and NaN are floats of every width; of unsigned integers the negatives are taken, and wrap around."""
    if dtype is torch.bool or dtype.is_complex:
        return True
    if dtype.is_floating_point:
        return not math.isfinite(number) or abs(number) <= torch.finfo(dtype).max
    limits = torch.iinfo(dtype)
    if isinstance(number, float):
        return limits.min <= number < float(limits.max) + 1
    least = -limits.max if limits.min == 0 else limits.min
    return least <= number <= limits.max


# Operators whose kernels convert each of their numbers to the dtype of the first operand.
_CONVERTING = (
    aten.addmv,
    aten.addr,
    aten.celu,
    aten.clamp_max,
    aten.clamp_min,
    aten.elu,
    aten.elu_backward,
    aten.hardtanh,
    aten.hardtanh_backward,
    aten.leaky_relu,
    aten.leaky_relu_backward,
    aten.softplus,
    aten.softplus_backward,
    aten.softshrink,
)


def _of_numbers_in_range(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        numbers = (value for value in (*args, *kwargs.values()) if type(value) in (int, float))
        if not all(is_in_range(number, x.dtype) for number in numbers):
            return NotImplemented
        return function(x, *args, **kwargs)

    return decomposition


def of_numbers_in_range(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table` that leave numbers which ATen refuses to it."""
    overloads = (getattr(packet, name) for packet in _CONVERTING for name in packet.overloads())  # type: ignore[no-untyped-call]
    return {op: _of_numbers_in_range(table[op]) for op in overloads if op in table}


def _fits(number: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """Of a tensor without dimensions, whether ATen converts its value to a dtype; None where it always does."""
    if dtype is torch.bool or dtype.is_complex or number.dtype.is_complex or number.dtype in (torch.bool, torch.uint64):
        return None
    if not number.dtype.is_floating_point:
        limits = torch.iinfo(number.dtype)
        if is_in_range(limits.min, dtype) and is_in_range(limits.max, dtype):
            return None
        if dtype.is_floating_point:
            return number.to(torch.float64).abs() <= torch.finfo(dtype).max
        least = -torch.iinfo(dtype).max if not dtype.is_signed else torch.iinfo(dtype).min
        wide = number.to(torch.int64)
        return (wide >= least) & (wide <= torch.iinfo(dtype).max) if dtype is not torch.uint64 else None
    if dtype.is_floating_point:
        largest = torch.finfo(dtype).max
        return None if torch.finfo(number.dtype).max <= largest else ~(number.abs() > largest) | number.isinf()
    limits = torch.iinfo(dtype)
    wide = number.to(torch.float64)
    return (wide >= (limits.min if dtype.is_signed else -limits.max)) & (wide <= limits.max)


# Position of the tensor whose value a kernel of the processor takes as a number.
_NUMBER_TENSORS = {aten.index_fill.int_Tensor: 3, aten.masked_fill.Tensor: 2}


def _of_number_tensor(op: Any, at: int, function: Callable[..., Any] | None) -> Callable[..., Any]:
    def decomposition(x: torch.Tensor, *args: Any) -> Any:
        number = args[at - 1]
        fits = _fits(number, x.dtype) if x.device.type == number.device.type == "cpu" else None
        if fits is None:
            return NotImplemented if function is None else function(x, *args)
        aten._assert_async.msg(fits, f"value cannot be converted to type {x.dtype} without overflow")
        return op(x, *args[: at - 1], number.to(x.dtype))

    return decomposition if function is None else functools.wraps(function)(decomposition)


def of_number_tensors_in_range(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Operators that end with an error where the value of a tensor is beyond the dtype of the operand."""
    return {op: _of_number_tensor(op, at, table.get(op)) for op, at in _NUMBER_TENSORS.items()}
