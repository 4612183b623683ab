"""Norms along dimensions of one element, which torch's decompositions take apart in their own way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.compiling import assert_same


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1), (1, 4), ()], ids=str)
@pytest.mark.parametrize("dim", [-1, 0, (-2, -1), (0, -1), None, ()], ids=str)
@pytest.mark.parametrize("order", [0, 1, 2, 3.5, float("inf")])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norm(shape: tuple[int, ...], dim: Any, order: float, keepdim: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, order, dim, keepdim)

    x = torch.randn(shape, dtype=torch.bfloat16)
    try:
        expected = function(x)
    except (IndexError, RuntimeError):
        return
    torch.compiler.reset()
    result = torch.compile(function, backend="tile", fullgraph=True, options={"strict": True})(x)
    assert result.shape == expected.shape
    assert_same(result, expected)


def test_gradient_that_is_zero() -> None:
    """torch gives a tensor without memory (_efficientzerotensor); the kernel makes zeros."""
    x = torch.randn(5, requires_grad=True)
    y = torch.compile(torch.sgn, backend="tile", fullgraph=True, options={"strict": True})(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert not gradient._is_zerotensor() and torch.equal(gradient, torch.zeros(5))
