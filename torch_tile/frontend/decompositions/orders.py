"""Pointwise operators of operands that lie in memory in different orders: the result has that of ATen's iterator.

Formulas of torch and of ours take operands in another order than ATen's kernel, and convert or multiply what is
expanded before they combine it. Fake implementations of many operators are such formulas, too.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx.experimental.symbolic_shapes import guard_or_false, statically_known_true

from torch_tile.frontend.decompositions.pointwise import promoted

aten = torch.ops.aten
_Decomposition = Callable[..., Any]
# Of an operand: its sizes and strides.
Layout = tuple[Sequence[Any], Sequence[Any]]


def _key(number: Any) -> Any:
    return number.node.expr if isinstance(number, torch.SymInt) else number


def _is_less(a: Any, b: Any) -> bool:
    """Of strides that are not 0. A multiple is taken to be larger, as torch's fake tensors have it, without a guard."""
    if type(a) is int and type(b) is int:
        return a < b
    if _key(a) == _key(b) or statically_known_true(a % b == 0):
        return False
    return statically_known_true(b % a == 0) or guard_or_false(a < b)


def _expanded(shape: Sequence[Any], layout: Layout) -> list[Any]:
    """Strides of an operand over the sizes of the result: 0 where it is the same for all."""
    sizes, strides = layout
    front = len(shape) - len(sizes)
    kept = [
        0 if guard_or_false(size == 1) and not guard_or_false(whole == 1) else stride
        for whole, size, stride in zip(shape[front:], sizes, strides, strict=True)
    ]
    return [0] * front + kept


def order_of_iterator(shape: Sequence[Any], operands: Sequence[Layout]) -> list[int]:
    """The dimensions of a result from the outermost in memory to the innermost, as `TensorIterator` chooses them.

    Args:
        shape: sizes of the result.
        operands: in the order in which the iterator has them.
    """
    strides = [_expanded(shape, layout) for layout in operands]

    def comes_outside(a: int, b: int) -> int:
        """1 if `a` lies outside of `b`, -1 if inside, 0 if no operand tells."""
        for each in strides:
            if statically_known_true(each[a] == 0) or statically_known_true(each[b] == 0):
                continue
            if _is_less(each[a], each[b]):
                return -1
            if _is_less(each[b], each[a]):
                return 1
            if guard_or_false(shape[a] > shape[b]):
                return 1
        return 0

    # Innermost first, by insertion: the comparison is no order, so what it gives depends on who is asked.
    order = list(reversed(range(len(shape))))
    for number in range(1, len(shape)):
        at = number
        for before in reversed(range(number)):
            found = comes_outside(order[before], order[at])
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif found < 0:
                break
    return order[::-1]


def _strides(shape: Sequence[Any], order: Sequence[int]) -> list[Any]:
    strides: list[Any] = [1] * len(shape)
    stride: Any = 1
    for dim in reversed(order):
        strides[dim] = stride
        stride = stride * torch.sym_max(shape[dim], 1)  # type: ignore[no-untyped-call]
    return strides


# Operators whose iterator takes the operands in the order of the schema.
_ITERATED = (
    aten.add.Tensor,
    aten.addcdiv.default,
    aten.clamp.Tensor,
    aten.complex.default,
    aten.copysign.Tensor,
    aten.div.Tensor_mode,
    aten.elu_backward.default,
    aten.floor_divide.default,
    aten.gelu_backward.default,
    aten.hardsigmoid_backward.default,
    aten.hardswish_backward.default,
    aten.hardtanh_backward.default,
    aten.heaviside.default,
    aten.hypot.default,
    aten.lerp.Scalar,
    aten.lerp.Tensor,
    aten.logaddexp.default,
    aten.logaddexp2.default,
    aten.logical_and.default,
    aten.logical_or.default,
    aten.logical_xor.default,
    aten.logit_backward.default,
    aten.mish_backward.default,
    aten.native_dropout_backward.default,
    aten.polar.default,
    aten.sigmoid_backward.default,
    aten.silu_backward.default,
    aten.softplus_backward.default,
    aten.special_chebyshev_polynomial_t.default,
    aten.special_chebyshev_polynomial_u.default,
    aten.special_chebyshev_polynomial_v.default,
    aten.special_chebyshev_polynomial_w.default,
    aten.special_shifted_chebyshev_polynomial_t.default,
    aten.special_shifted_chebyshev_polynomial_u.default,
    aten.special_shifted_chebyshev_polynomial_v.default,
    aten.special_shifted_chebyshev_polynomial_w.default,
    aten.special_xlog1py.default,
    aten.sub.Tensor,
    aten.tanh_backward.default,
    aten.xlogy.Tensor,
)
# Those whose iterator takes the second operand before the first.
_SECOND_FIRST = (
    aten.leaky_relu_backward.default,
    aten.rsub.Tensor,
    aten.threshold_backward.default,
)
# Position of the operand that a result of its sizes is laid out as; any other result is the iterator's.
_LIKE = {
    aten._prelu_kernel.default: 0,
    aten.binary_cross_entropy.default: 0,
    aten.binary_cross_entropy_backward.default: 1,
    aten.huber_loss.default: 0,
    aten.log_sigmoid_backward.default: 0,
}
# Those whose result is contiguous where it has the sizes of the second operand.
_CONTIGUOUS = (
    aten.huber_loss_backward.default,
    aten.mse_loss_backward.default,
    aten.smooth_l1_loss_backward.default,
)
# Whole where the factor is 1: fake implementations are right then.
_WITH_FACTOR = (aten.add.Tensor, aten.rsub.Tensor, aten.sub.Tensor)


def _are_alike(operands: Sequence[torch.Tensor]) -> bool:
    """Whether all have the same sizes and strides, so that no order of them matters."""
    first, *rest = ([*map(_key, x.shape), *map(_key, x.stride())] for x in operands)
    return all(layout == first for layout in rest)


def _dense(x: torch.Tensor) -> Layout:
    """Of a copy that preserves the order."""
    if is_non_overlapping_and_dense_or_false(x):
        return x.shape, x.stride()
    return x.shape, _strides(x.shape, order_of_iterator(x.shape, [(x.shape, x.stride())]))


def _layouts(operands: Sequence[torch.Tensor], result: torch.Tensor) -> list[Layout]:
    """Of the operands, as an iterator has them: the processor's converts each to the dtype in which it computes."""
    dtype = result.dtype
    if dtype is torch.bool or dtype.is_complex:
        dtype = promoted(*operands)
    is_converted = result.device.type == "cpu"
    return [
        _dense(x) if is_converted and x.dtype is not dtype else (x.shape, x.stride()) for x in operands if x.dim() > 0
    ]


def _in_order(result: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The result, copied to another order of its dimensions where it has not this one."""
    strides = zip(result.shape, result.stride(), _strides(result.shape, order), strict=True)
    if all(statically_known_true(has == wants) or statically_known_true(size == 1) for size, has, wants in strides):
        return result
    if list(order) == sorted(order):
        return result.clone(memory_format=torch.contiguous_format)
    back = sorted(range(len(order)), key=order.__getitem__)
    return result.permute(*order).clone(memory_format=torch.contiguous_format).permute(back)


def _order(op: Any, operands: Sequence[torch.Tensor], result: torch.Tensor) -> list[int]:
    if op in _LIKE or op in _CONTIGUOUS:
        like = operands[_LIKE.get(op, 1)]
        if [*map(_key, like.shape)] == [*map(_key, result.shape)]:
            return order_of_iterator(result.shape, [_dense(like)] if op in _LIKE else [])
    if op in _SECOND_FIRST:
        operands = [operands[1], operands[0], *operands[2:]]
    return order_of_iterator(result.shape, _layouts(operands, result))


def _reshaped(sizes: Sequence[Any], start: int, strides: Sequence[Any]) -> list[Any]:
    """Of a tensor that gets dimensions of one element around its own, which begin at `start`: such dimensions lie as
    far apart as what is inside of them is long."""
    length = strides[-1] if strides else 1
    found = []
    for dim in reversed(range(len(sizes))):
        if start <= dim < start + len(strides) and not guard_or_false(sizes[dim] == 1):
            found.append(strides[dim - start])
            length = found[-1] * sizes[dim]
        else:
            found.append(length)
    return found[::-1]


def _order_of_indexed(x: torch.Tensor, indices: Sequence[torch.Tensor | None], result: torch.Tensor) -> list[int]:
    """Of `x[indices]`: the iterator reads `x` with strides of 0 in the indexed dimensions, and each index."""
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    rest = [dim for dim in range(x.dim()) if dim not in indexed]
    are_neighbours = indexed[-1] - indexed[0] == len(indexed) - 1
    before = [dim for dim in rest if are_neighbours and dim < indexed[0]]
    after = rest[len(before) :]
    count = result.dim() - len(rest)
    places = result.shape[len(before) : len(before) + count]
    source = [*(x.stride(dim) for dim in before), *[0] * count, *(x.stride(dim) for dim in after)]
    layouts: list[Layout] = [(result.shape, source)]
    for index in indices:
        if index is not None:
            sizes = [*[1] * len(before), *places, *[1] * len(after)]
            strides = _expanded(places, (index.shape, index.stride()))
            layouts.append((sizes, _reshaped(sizes, len(before), strides)))
    return order_of_iterator(result.shape, layouts)


def _has_plain_strides(x: torch.Tensor) -> bool:
    """Those of a new tensor, also in dimensions of one element."""
    return [*map(_key, x.stride())] == [*map(_key, _strides(x.shape, range(x.dim())))]


def _index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
    given = [index for index in indices if index is not None]
    if _whole.get() is aten.index.Tensor or any(index.dtype not in (torch.int64, torch.int32) for index in given):
        return NotImplemented
    if len({index.dim() == 0 for index in given}) > 1:  # the fake implementation has no sizes for these
        return NotImplemented
    if given[0].dim() and all(_has_plain_strides(operand) for operand in (x, *given)):
        return NotImplemented
    result = _called_whole(aten.index.Tensor, x, indices)
    return _in_order(result, _order_of_indexed(x, indices, result)) if result.dim() > 1 else result


# The operator that is called from its own decomposition.
_whole: contextvars.ContextVar[Any] = contextvars.ContextVar("_whole", default=None)


def _is_right(op: Any, operands: Sequence[torch.Tensor], kwargs: Any) -> bool:
    """Whether a decomposition or a fake implementation has ATen's order for certain."""
    if op in _WITH_FACTOR and kwargs.get("alpha", 1) == 1:
        return True
    if op is aten.native_dropout_backward.default:  # contiguous, as ATen's code of other devices has it
        return operands[0].device.type != "cpu"
    return op not in _CONTIGUOUS and _are_alike(operands)


def _called_whole(op: Any, *args: Any, **kwargs: Any) -> Any:
    token = _whole.set(op)
    try:
        return op(*args, **kwargs)
    finally:
        _whole.reset(token)


def _ordered(op: Any, function: _Decomposition | None) -> _Decomposition:
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        operands = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        result = NotImplemented if function is None else function(*args, **kwargs)
        if _whole.get() is op or _is_right(op, operands, kwargs):
            return result
        if result is NotImplemented:
            result = _called_whole(op, *args, **kwargs)
        return _in_order(result, _order(op, operands, result)) if result.dim() > 1 else result

    return functools.wraps(function)(decomposition) if function is not None else decomposition


def in_order_of_iterator(table: dict[Any, _Decomposition]) -> dict[Any, _Decomposition]:
    """Decompositions of the operators named here, those that `table` has among them, with results in ATen's order."""
    found = {op: _ordered(op, table.get(op)) for op in (*_ITERATED, *_SECOND_FIRST, *_LIKE, *_CONTIGUOUS)}
    return {**found, aten.index.Tensor: _index}
