"""Padding that only cuts off, and the gradients of padding.

Of replication: what lies beyond the operand belongs to its first and last elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch._prims_common import is_contiguous_or_false
from torch.fx.experimental.symbolic_shapes import guard_or_false

aten = torch.ops.aten


def _check_what_is_left(size: Any, low: Any, high: Any) -> None:
    """ATen cuts at the beginning, then at the end, then pads: no more than the size can be cut off."""
    if guard_or_false(low < 0):
        size = size + low
        torch._check(size >= 0, lambda: "narrow(): length must be non-negative.")  # type: ignore[no-untyped-call]
    if guard_or_false(high < 0):
        torch._check(size + high >= 0, lambda: "narrow(): length must be non-negative.")  # type: ignore[no-untyped-call]


def _constant_pad_nd(x: torch.Tensor, pad: Sequence[Any], value: Any = 0) -> Any:
    """ATen copies what is left of x with the order of its strides if no amount is above 0; torch's reference does so
    if all amounts are below 0."""
    for k in range(len(pad) // 2):
        _check_what_is_left(x.shape[x.dim() - 1 - k], pad[2 * k], pad[2 * k + 1])
    if all(isinstance(amount, int) for amount in pad) or is_contiguous_or_false(x):
        return NotImplemented
    if not all(guard_or_false(amount <= 0) for amount in pad):
        return NotImplemented
    for k in range(len(pad) // 2):
        low, high = pad[2 * k], pad[2 * k + 1]
        dim = x.dim() - 1 - k
        x = x.narrow(dim, -low, x.shape[dim] + low + high)
    return x.clone()


def _padded(x: torch.Tensor, dim: int, low: Any, high: Any) -> torch.Tensor:
    amounts = [0] * (2 * (x.dim() - dim))
    amounts[-2:] = [low, high]
    result: torch.Tensor = aten.constant_pad_nd.default(x, amounts, 0)
    return result


def _along(grad: torch.Tensor, dim: int, size: Any, low: int, high: int) -> torch.Tensor:
    """The gradient of padding one dimension of `size` by `low` and `high`, which crop where negative."""
    kept = size + min(low, 0) + min(high, 0)
    total = grad.narrow(dim, max(low, 0), kept)
    if low < 0 or high < 0:
        total = _padded(total, dim, max(-low, 0), max(-high, 0))
    if low > 0:
        total = total + _padded(grad.narrow(dim, 0, low).sum(dim, keepdim=True), dim, 0, size - 1)
    if high > 0:
        last = grad.narrow(dim, grad.shape[dim] - high, high)
        total = total + _padded(last.sum(dim, keepdim=True), dim, size - 1, 0)
    return total


def _laid_out_as(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """In the memory format that the operand suggests, as ATen's."""
    memory_format = torch.contiguous_format
    if x.dim() in (4, 5):
        memory_format = torch._prims_common.suggest_memory_format(x)
    return result.contiguous(memory_format=memory_format)


def _replication_backward(rank: int) -> Callable[..., Any]:
    def replication_pad_backward(grad: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> Any:
        if not all(isinstance(amount, int) for amount in padding):
            return NotImplemented
        wide = torch.float32 if grad.dtype in (torch.float16, torch.bfloat16) else grad.dtype
        total = grad.to(wide)
        for k in range(rank):
            # ATen lists pairs from the last dimension on.
            dim = x.dim() - 1 - k
            low, high = padding[2 * k], padding[2 * k + 1]
            if (low < 0 and -low >= x.shape[dim]) or (high < 0 and -high >= x.shape[dim]):
                return NotImplemented
            total = _along(total, dim, x.shape[dim], low, high)
        return _laid_out_as(total.to(grad.dtype), x)

    return replication_pad_backward


def _reflection_pad_backward(grad: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
    op = aten.reflection_pad2d_backward.default
    return _laid_out_as(get_decompositions([op])[op](grad, x, padding), x)


def padding() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.constant_pad_nd.default: _constant_pad_nd,
        aten.reflection_pad1d_backward.default: _reflection_pad_backward,
        aten.reflection_pad2d_backward.default: _reflection_pad_backward,
        aten.reflection_pad3d_backward.default: _reflection_pad_backward,
        aten.replication_pad1d_backward.default: _replication_backward(1),
        aten.replication_pad2d_backward.default: _replication_backward(2),
        aten.replication_pad3d_backward.default: _replication_backward(3),
    }
