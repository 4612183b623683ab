"""Pointwise operators without an op of the graph dialect, and searches in sorted sequences."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.formulas.library import norm
from torch_tile.frontend.decompositions.number_ranges import is_in_range
from torch_tile.frontend.sizes import has_strides_of

aten = torch.ops.aten

_LOW = (torch.float16, torch.bfloat16)


def promoted(*operands: torch.Tensor) -> torch.dtype:
    """The dtype of a result, in which tensors with dimensions count before those without."""
    kind = torch._prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH
    dtype: torch.dtype = torch._prims_common.elementwise_dtypes(*operands, type_promotion_kind=kind)[1]
    return dtype


def _fmax(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # torch.maximum where neither is NaN; a comparison with NaN is false. Of zeros ATen takes the first, or in bfloat16
    # the second.
    is_first = a > b if promoted(a, b) is torch.bfloat16 else a >= b
    return torch.where(is_first | torch.isnan(b), a, b)


def _fmin(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    is_first = a < b if promoted(a, b) is torch.bfloat16 else a <= b
    return torch.where(is_first | torch.isnan(b), a, b)


def _signbit(x: torch.Tensor) -> torch.Tensor:
    if not x.dtype.is_signed:
        return torch.zeros_like(x, dtype=torch.bool)
    if not x.dtype.is_floating_point:
        return x < 0
    return torch.copysign(torch.ones((), dtype=x.dtype, device=x.device), x) < 0


def hypot(a: torch.Tensor, b: torch.Tensor) -> Any:
    dtype = promoted(a, b)
    wide = torch.float32 if dtype in _LOW else dtype
    return norm((a.to(wide), b.to(wide)), wide).to(dtype)


def _angle(x: torch.Tensor) -> Any:
    if x.dtype.is_complex:
        # ATen's result is contiguous, that of its rule for fake tensors has the order of the operand.
        if has_strides_of(x, torch.contiguous_format):
            return NotImplemented
        # contiguous() gives back what has other strides in dimensions of one element alone.
        return torch.angle(x.clone(memory_format=torch.contiguous_format))
    if not x.dtype.is_floating_point:
        if not x.dtype.is_signed:
            return torch.zeros_like(x, dtype=torch.get_default_dtype())
        return torch.where(x < 0, math.pi, 0.0)
    # Of two numbers torch.where would be of the default dtype, and pi rounded to it.
    pi = torch.full((), math.pi, dtype=x.dtype, device=x.device)
    return torch.where(torch.isnan(x), x, torch.where(x < 0, pi, 0.0))


def _round_decimals(x: torch.Tensor, *, decimals: int) -> Any:
    if not x.dtype.is_floating_point or decimals == 0:
        return torch.round(x)
    power = 10.0 ** abs(decimals)
    wide = x.float() if x.dtype in _LOW else x
    result = torch.round(wide / power) * power if decimals < 0 else torch.round(wide * power) / power
    return result.to(x.dtype)


def _addcdiv(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: Any = 1) -> Any:
    """In float32 and rounded once, as ATen's kernel; torch's decomposition rounds between its steps."""
    dtype = promoted(x, a, b)
    if isinstance(value, (int, float)) and not is_in_range(value, torch.float32 if dtype in _LOW else dtype):
        return NotImplemented
    if dtype not in _LOW:
        return x + (a / b if value == 1 else value * a / b)
    x, a, b = x.float(), a.float(), b.float()
    return (x + (a / b if value == 1 else value * a / b)).to(dtype)


def _single(value: float, dtype: torch.dtype) -> float:
    """The number as a kernel for this dtype has it."""
    return value if dtype is torch.float64 else ctypes.c_float(value).value


def _lerp_number(start: torch.Tensor, end: torch.Tensor, weight: Any) -> Any:
    """From the nearer end, with one rounding of the product and the sum, as ATen's kernels."""
    dtype = promoted(start, end)
    if dtype.is_complex or not isinstance(weight, (int, float)):
        return NotImplemented
    wide = torch.float32 if dtype in _LOW else dtype
    if not is_in_range(weight, wide):
        return NotImplemented
    start, end = start.to(wide), end.to(wide)
    factor = _single(weight, wide)
    if abs(factor) < 0.5:
        return torch.add(start, end - start, alpha=factor).to(dtype)
    return torch.add(end, end - start, alpha=_single(factor - 1.0, wide)).to(dtype)


def _lerp(start: torch.Tensor, end: torch.Tensor, weight: torch.Tensor) -> Any:
    dtype = promoted(start, end, weight)
    if dtype.is_complex:
        return NotImplemented
    wide = torch.float32 if dtype in _LOW else dtype
    start, end, weight = start.to(wide), end.to(wide), weight.to(wide)
    is_small = weight.abs() < 0.5
    factor = torch.where(is_small, weight, weight - 1.0)
    return torch.addcmul(torch.where(is_small, start, end), factor, end - start).to(dtype)


def _elu(x: torch.Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> torch.Tensor:
    wide = x.float() if x.dtype in _LOW else x
    negative = torch.expm1(wide * input_scale) * (alpha * scale)
    return torch.where(wide < 0, negative, wide * scale).to(x.dtype)


def _celu(x: torch.Tensor, alpha: Any = 1.0) -> Any:
    return _elu(x, alpha, 1, 1.0 / alpha) if alpha != 0 else NotImplemented


def _sigmoid_backward(grad: torch.Tensor, output: torch.Tensor) -> Any:
    """In ATen's order: the product with 1 - output first."""
    dtype = promoted(grad, output)
    if dtype.is_complex:
        return NotImplemented
    wide = torch.float32 if dtype in _LOW else dtype
    grad, output = grad.to(wide), output.to(wide)
    return (grad * (1.0 - output) * output).to(dtype)


def _logit_backward(grad: torch.Tensor, x: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    """An eps below 0 is none."""
    dtype = promoted(grad, x)
    wide = torch.float32 if dtype in _LOW else dtype
    grad, x = grad.to(wide), x.to(wide)
    clamps = eps is not None and not eps < 0.0
    low = _single(eps, wide) if clamps and eps is not None else 0.0
    inside = (x >= low) & (x <= _single(1.0 - low, wide))
    return torch.where(inside, grad / (x * (1.0 - x)), 0.0 if clamps else math.nan).to(dtype)


def _log_sigmoid_forward(x: torch.Tensor) -> Any:
    wide = x.to(torch.float32 if x.dtype in _LOW else x.dtype).contiguous()  # ATen's result always is
    exponential = torch.exp(-wide.abs())
    result = torch.minimum(wide.new_zeros(()), wide) - torch.log1p(exponential)
    # The backward of other devices computes the exponential again.
    saved = exponential.to(x.dtype) if x.device.type == "cpu" else x.new_zeros((0,))
    return result.to(x.dtype), saved


def _ldexp(x: torch.Tensor, other: torch.Tensor) -> Any:
    if not x.dtype.is_floating_point or other.dtype.is_floating_point or other.dtype.is_complex:
        return x * torch.pow(2.0, other)
    if other.dtype is torch.bool:
        return NotImplemented  # ATen refuses it
    # Integer exponents leave the dtype, and the result is rounded once, whether or not the power is a number of it.
    exponent = other.to(torch.float64).clamp(-2200.0, 2200.0)
    if x.dtype is not torch.float64:
        power = torch.exp2(exponent.clamp(-400.0, 400.0))
        return (x.to(torch.float64) * power).to(torch.float32).to(x.dtype)
    part = torch.where(exponent.abs() <= 1000.0, 0.0, torch.floor(exponent / 3.0))
    power = torch.exp2(part)
    return x * power * power * torch.exp2(exponent - part - part)


def _integer_power(base: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """By squaring, wrapping around; a negative exponent leaves something of 1 and -1 alone."""
    is_negative = exponent < 0
    result = torch.ones((), dtype=base.dtype, device=base.device)
    square = base
    bits = torch.iinfo(base.dtype).bits - (0 if base.dtype is torch.uint8 else 1)
    for bit in range(bits):
        is_set = torch.bitwise_and(torch.bitwise_right_shift(exponent, bit), 1) == 1
        result = torch.where(is_set, result * square, result)
        square = square * square
    if base.dtype is torch.uint8:
        return result
    unit = torch.where(torch.bitwise_and(exponent, 1) == 1, base, 1)
    return torch.where(is_negative, torch.where(base.abs() == 1, unit, 0), result)


def _is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool


def _pow_tensors(base: torch.Tensor, exponent: torch.Tensor) -> Any:
    dtype = torch.result_type(base, exponent)
    if not _is_integer(dtype):
        return NotImplemented
    # Zeros in the layout of a pointwise operation on both: that of the result.
    layout = torch.bitwise_and(torch.bitwise_xor(base, exponent), 0)
    return _integer_power(torch.bitwise_or(layout, base), torch.bitwise_or(layout, exponent))


def _wrapped(number: int, dtype: torch.dtype) -> int:
    """The number of an integer dtype that has the low bits of this one."""
    limits = torch.iinfo(dtype)
    return (number - limits.min) % (limits.max - limits.min + 1) + limits.min


def _pow_of_number(base: Any, exponent: torch.Tensor) -> Any:
    if not exponent.is_contiguous():
        return aten.pow.Scalar(base, exponent.contiguous())  # ATen's result always is
    if not isinstance(base, int) or isinstance(base, bool):
        return NotImplemented
    dtype = torch.result_type(base, exponent)
    if not _is_integer(dtype):
        return NotImplemented
    number = torch.full((), _wrapped(base, dtype), dtype=dtype, device=exponent.device)
    return _integer_power(number, exponent.to(dtype))


def _pow_to_number(base: torch.Tensor, exponent: Any) -> Any:
    if isinstance(exponent, bool):
        # A truth value stays one; the rule for fake tensors says that it does not.
        if base.dtype is not torch.bool:
            return aten.pow.Tensor_Scalar(base, int(exponent))
        return base.clone() if exponent else torch.ones_like(base)
    if not isinstance(exponent, int) or exponent < 0:
        return NotImplemented
    if not _is_integer(torch.result_type(base, exponent)) or not _is_integer(base.dtype):
        return NotImplemented
    if not is_in_range(exponent, torch.result_type(base, exponent)):
        return NotImplemented
    if exponent <= 3:
        return torch.ones_like(base) if exponent == 0 else NotImplemented
    result: Any = None
    square = base
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return result


def _searched(
    sequence: Callable[[torch.Tensor], Any], length: int, values: torch.Tensor, out_int32: bool, right: bool
) -> torch.Tensor:
    """How many leading elements of a sorted sequence lie before each value, by halving.

    It looks at the elements that ATen looks at: the answer is ATen's where the sequence ends with NaN or is not sorted.

    Args:
        sequence: its elements at given positions.
        length: of the sequence.
        values: what is looked for; NaN is past all numbers.
        out_int32: the result's dtype, int64 otherwise.
        right: equal elements lie before the value.
    """
    position = torch.zeros_like(values, dtype=torch.int64)
    left = torch.full_like(position, length)  # elements that are still in question
    for _ in range(length.bit_length()):
        half = left >> 1
        middle = position + half
        element = sequence(middle.clamp(max=length - 1))
        is_past = element > values if right else element >= values
        goes_on = (left > 0) & ~is_past
        position = torch.where(goes_on, middle + 1, position)
        left = torch.where(goes_on, left - half - 1, half)
    return position.to(torch.int32 if out_int32 else torch.int64)


def _may_search(length: Any, *dtypes: torch.dtype) -> bool:
    return isinstance(length, int) and not any(dtype.is_complex for dtype in dtypes)


def _bucketize(values: torch.Tensor, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    length = boundaries.shape[0]
    if not _may_search(length, values.dtype, boundaries.dtype):
        return NotImplemented
    values = values.contiguous()  # as the result is
    if length == 0:
        return torch.zeros_like(values, dtype=torch.int32 if out_int32 else torch.int64)
    dtype = torch.promote_types(values.dtype, boundaries.dtype)
    return _searched(
        lambda at: aten._unsafe_index.Tensor(boundaries, [at]).to(dtype), length, values.to(dtype), out_int32, right
    )


def _bucketize_number(value: Any, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    """ATen converts a tensor of the number to the common dtype, in which it may wrap around, or be infinite."""
    is_integer = isinstance(value, (int, torch.SymInt))
    dtype = torch.result_type(boundaries, value if isinstance(value, (bool, int, float)) else 0 if is_integer else 0.0)
    if dtype is torch.bool:
        return NotImplemented
    wide = torch.scalar_tensor(value, dtype=torch.int64 if is_integer else torch.float64, device=boundaries.device)
    return _bucketize(wide.to(dtype), boundaries, out_int32=out_int32, right=right)


def _searchsorted(
    sequence: torch.Tensor,
    values: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> Any:
    # ATen looks at every index of a sorter before it searches.
    if sequence.dim() == 0 or sorter is not None:
        return NotImplemented
    length = sequence.shape[-1]
    if not _may_search(length, sequence.dtype, values.dtype):
        return NotImplemented
    values = values.contiguous()  # as the result is
    if length == 0 or values.numel() == 0:
        return torch.zeros_like(values, dtype=torch.int32 if out_int32 else torch.int64)
    right = right or side == "right"
    dtype = torch.promote_types(sequence.dtype, values.dtype)
    if sequence.dim() == 1:

        def element(at: torch.Tensor) -> Any:
            return aten._unsafe_index.Tensor(sequence, [at]).to(dtype)
    else:

        def element(at: torch.Tensor) -> Any:
            return torch.gather(sequence, -1, at).to(dtype)

    return _searched(element, length, values.to(dtype), out_int32, right)


def _rounded(number: Any, other: torch.Tensor) -> torch.Tensor:
    """A number as an element of a tensor of 16 bits, infinite where it is beyond them."""
    return torch.scalar_tensor(number, dtype=torch.float64, device=other.device).to(other.dtype)


def _whole_quotient(a: Any, b: torch.Tensor, *, rounding_mode: str | None) -> Any:
    """The kernels round a number that is divided, as they do not round divisors."""
    if rounding_mode is None or isinstance(a, torch.Tensor) or b.dtype not in _LOW:
        return NotImplemented
    return aten.div.Tensor_mode(_rounded(a, b), b, rounding_mode=rounding_mode)


def _of_rounded_numbers(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a number and a tensor, in either order; `op` is that of two tensors."""

    @functools.wraps(function)
    def decomposition(*args: Any) -> Any:
        x = next(each for each in args if isinstance(each, torch.Tensor))
        if x.dtype not in _LOW:
            return function(*args)
        return op(*(each if isinstance(each, torch.Tensor) else _rounded(each, x) for each in args))

    return decomposition


def of_rounded_numbers(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table` whose kernels round numbers to the 16 bits of a tensor."""
    tensors = {
        aten.special_xlog1py.other_scalar: aten.special_xlog1py.default,
        aten.special_xlog1py.self_scalar: aten.special_xlog1py.default,
        aten.xlogy.Scalar_Other: aten.xlogy.Tensor,
        aten.xlogy.Scalar_Self: aten.xlogy.Tensor,
    }
    return {op: _of_rounded_numbers(of_tensors, table[op]) for op, of_tensors in tensors.items() if op in table}


def _of_rounded_operands(op: Any, function: Callable[..., Any] | None) -> Callable[..., Any]:
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        dtype = promoted(*tensors)
        if dtype not in _LOW or all(x.dtype is dtype for x in tensors):
            return NotImplemented if function is None else function(*args, **kwargs)
        return op(*(x.to(dtype) if isinstance(x, torch.Tensor) else x for x in args), **kwargs)

    return decomposition if function is None else functools.wraps(function)(decomposition)


def of_rounded_operands(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Operators whose operands ATen rounds to the 16 bits that they have in common; a large integer is infinite."""
    rounding = (aten.addcdiv.default, aten.addcmul.default, aten.special_xlog1py.default, aten.xlogy.Tensor)
    return {op: _of_rounded_operands(op, table.get(op)) for op in rounding}


def pointwise() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.addcdiv.default: _addcdiv,
        aten.angle.default: _angle,
        aten.bucketize.Scalar: _bucketize_number,
        aten.bucketize.Tensor: _bucketize,
        aten.celu.default: _celu,
        aten.div.Tensor_mode: _whole_quotient,
        aten.elu.default: _elu,
        aten.fmax.default: _fmax,
        aten.fmin.default: _fmin,
        aten.hypot.default: hypot,
        aten.ldexp.Tensor: _ldexp,
        aten.lerp.Scalar: _lerp_number,
        aten.lerp.Tensor: _lerp,
        aten.log_sigmoid_forward.default: _log_sigmoid_forward,
        aten.logit_backward.default: _logit_backward,
        aten.pow.Scalar: _pow_of_number,
        aten.pow.Tensor_Scalar: _pow_to_number,
        aten.pow.Tensor_Tensor: _pow_tensors,
        aten.round.decimals: _round_decimals,
        aten.searchsorted.Tensor: _searchsorted,
        aten.sigmoid_backward.default: _sigmoid_backward,
        aten.signbit.default: _signbit,
    }
