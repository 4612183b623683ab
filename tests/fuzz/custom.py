"""Operators that no backend knows: functional, writing, and one whose result has a size of its own."""

from __future__ import annotations

import torch


@torch.library.custom_op("fuzz_ops::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scaled.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


scaled.register_autograd(
    lambda context, gradient: (gradient * context.factor, None),
    setup_context=lambda context, inputs, output: setattr(context, "factor", inputs[1]),
)


@torch.library.custom_op("fuzz_ops::increase_", mutates_args=("x",))
def increase_(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y.amax() if y.numel() else 1)


@increase_.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> None:
    return None


@torch.library.custom_op("fuzz_ops::split_and_write_", mutates_args=("x",))
def split_and_write_(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two new tensors of what `x` was; `x` becomes zero."""
    before = x.clone()
    x.zero_()
    return before, before.flatten().clone()


@split_and_write_.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.clone(), x.flatten().clone()


@torch.library.custom_op("fuzz_ops::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    """The elements above zero: how many is known by looking."""
    return x.flatten()[x.flatten() > 0].clone()


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty([torch.library.get_ctx().new_dynamic_size()])
