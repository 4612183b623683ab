"""Bags of embeddings and their gradients, by mode, dtype, and what is given of the bags."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.compiling import compiled

MODES: list[dict[str, Any]] = [
    {"mode": "sum"},
    {"mode": "sum", "sparse": True},
    {"mode": "sum", "include_last_offset": True},
    {"mode": "sum", "padding_idx": 2},
    {"mode": "mean"},
    {"mode": "max"},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("options", MODES, ids=str)
@pytest.mark.parametrize("is_flat", [False, True])
def test_bags(options: dict[str, Any], dtype: torch.dtype, is_flat: bool) -> None:
    if options.get("include_last_offset") and not is_flat:
        pytest.skip("rows of indices have no offsets")
    torch.manual_seed(0)
    module = torch.nn.EmbeddingBag(9, 8, **options).to(dtype)
    indices = torch.randint(0, 9, (12,) if is_flat else (3, 4))
    offsets = [0, 2, 2, 7] + [12] * bool(options.get("include_last_offset"))
    arguments = [indices, torch.tensor(offsets)] if is_flat else [indices]

    def step(function: Any) -> list[torch.Tensor]:
        module.zero_grad()
        result = function(*arguments)
        result.square().sum().backward()
        assert module.weight.grad is not None
        return [result.detach(), module.weight.grad.to_dense()]

    expected = step(module)
    for found, eager in zip(step(compiled(module)), expected, strict=True):
        torch.testing.assert_close(found, eager)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_weights_of_samples(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = torch.nn.EmbeddingBag(9, 8, mode="sum").to(dtype)
    indices, weights = torch.randint(0, 9, (3, 4)), torch.rand(3, 4).to(dtype).requires_grad_()

    def step(function: Any) -> list[torch.Tensor]:
        module.zero_grad()
        result = function(indices, None, weights)
        (of_weights,) = torch.autograd.grad(result.float().square().sum(), weights)
        return [result.detach(), of_weights]

    expected = step(module)
    for found, eager in zip(step(compiled(module)), expected, strict=True):
        torch.testing.assert_close(found, eager)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_wide_unsigned_integers(dtype: torch.dtype) -> None:
    """What ATen computes of them, though it lacks the kernels that decompositions call."""
    x = torch.randint(0, 3, (4, 5)).to(dtype)
    for function in (
        lambda x: x.all(),
        lambda x: (x.all(0), (x == x).all(0)),
        lambda x: x.all(dim=(0, 1)),
        lambda x: x.any(1),
        lambda x: torch.isin(x, x),
    ):
        torch.testing.assert_close(compiled(function)(x), function(x))
