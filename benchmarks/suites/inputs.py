"""Inputs of the GPU programs, which tests make small and on a CPU, and a check of results that are discrete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from reference import flatten, in_double

f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
MB = 1 << 20
LOW = {"rtol": 2e-2, "atol": 2e-2}  # of bfloat16 and float16

# Tests set it to the CPU.
DEVICE = "cuda"


def normal(*shape: int, dtype: torch.dtype = f32) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE, dtype=f32).to(dtype)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = f32) -> torch.Tensor:
    return (torch.rand(shape, device=DEVICE, dtype=f32) * (high - low) + low).to(dtype)


def integers(high: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, high, shape, device=DEVICE).to(dtype)


def chosen(share: float, *shape: int) -> torch.Tensor:
    """A mask that is true for about this share of its elements."""
    return torch.rand(shape, device=DEVICE) < share


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, device=DEVICE)


def arange(count: int) -> torch.Tensor:
    return torch.arange(count, device=DEVICE)


def permutation(count: int) -> torch.Tensor:
    return torch.randperm(count, device=DEVICE)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def mostly(
    function: Callable[..., Any], rtol: float = 1e-3, atol: float = 1e-3, share: float = 1e-3
) -> Callable[[Sequence[Any], Sequence[torch.Tensor]], str]:
    """A check for results that jump, as rounded, compared or chosen values do.

    Args:
        function: that of the case; its result in float64 is the expected one.
        rtol: of elements that agree.
        atol: of elements that agree.
        share: how many of the elements may disagree, and one more.
    """

    def check(arguments: Sequence[Any], result: Sequence[torch.Tensor]) -> str:
        doubles = in_double(arguments)
        # Of a training case, whose first argument asks for its gradient, the result is that.
        is_training = any(tensor.requires_grad for tensor in flatten(doubles))
        with torch.set_grad_enabled(is_training):
            value = function(*doubles)
            expected = list(flatten(torch.autograd.grad(value, doubles[0]) if is_training else value))
        if len(expected) != len(result):
            return f"wrong result: expected {len(expected)} tensors, got {len(result)}"
        for number, (actual, wanted) in enumerate(zip(result, expected, strict=True)):
            if actual.shape != wanted.shape:
                return f"wrong result: expected shape {tuple(wanted.shape)}, got {tuple(actual.shape)}"
            is_close = torch.isclose(actual.double(), wanted.double(), rtol, atol, equal_nan=True)
            if (wrong := int((~is_close).sum())) > share * is_close.numel() + 1:
                return f"wrong result: {wrong} of {is_close.numel()} elements of result {number} differ"
        return ""

    return check
