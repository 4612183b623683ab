"""What the forward graph computes and the backward graph computes again has one rounding in both, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import BACKEND


def gradients(function: Callable[..., torch.Tensor], *args: torch.Tensor) -> list[torch.Tensor]:
    leaves = [arg.detach().clone().requires_grad_() for arg in args]
    return list(torch.autograd.grad(function(*leaves).float().sum(), leaves))


def saturated(p: torch.Tensor, reduction: str = "sum") -> torch.Tensor:
    """Of probabilities, some of which are rounded to 1."""
    return F.binary_cross_entropy(p, torch.full_like(p, 0.25), reduction=reduction)


PROBABILITIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": lambda x: saturated(x.sigmoid()),
    "mean": lambda x: saturated(x.sigmoid(), "mean"),
    "tanh": lambda x: saturated((x.tanh() + 1) / 2),
    "two classes": lambda x: saturated(torch.stack([x, -x]).softmax(0)),
    "also a result": lambda x: saturated(p := x.sigmoid()) + p.sum(),
    "by hand": lambda x: -((p := x.sigmoid()).log() * 0.25 + (1 - p).clamp(min=1e-12).log() * 0.75).sum(),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROBABILITIES)
def test_probabilities_near_one(name: str, dtype: torch.dtype) -> None:
    function = PROBABILITIES[name]
    x = torch.linspace(4, 12, 333).to(dtype)
    (expected,) = gradients(function, x)
    (result,) = gradients(torch.compile(function, backend=BACKEND), x)
    torch.testing.assert_close(result, expected, equal_nan=True, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (F.silu(x * 1.1) * 20).logsumexp(-1),
        lambda x: ((x * 2).log_softmax(-1) * 20).logsumexp(-1),
        lambda x: (x.tanh() * 30).logsumexp(0),
    ],
)
def test_values_that_a_saved_result_is_taken_from(function: Callable[..., Any], dtype: torch.dtype) -> None:
    x = (torch.randn(64, 100) * 3).to(dtype)
    (expected,) = gradients(function, x)
    (result,) = gradients(torch.compile(function, backend=BACKEND), x)
    (exact,) = gradients(function, x.double())
    error, least = (result - exact).abs().max(), (expected - exact).abs().max()
    assert error <= 2 * least + torch.finfo(dtype).eps
