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


def test_largest_magnitude_in_a_wider_dtype() -> None:
    x = torch.tensor([3 + 1j, 0.1 + 0.1j])
    for order in (float("inf"), float("-inf"), 2, 3):

        def function(x: torch.Tensor, order: float = order) -> torch.Tensor:
            return torch.linalg.vector_norm(x, order, -1, dtype=torch.complex128)

        torch.compiler.reset()
        result = torch.compile(function, backend="tile", fullgraph=True, options={"strict": True})(x)
        assert_same(result, function(x))


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("dim", [(), [], (0,), (0, -1), None], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool, torch.complex64], ids=str)
def test_any_and_all(name: str, dim: Any, keepdim: bool, dtype: torch.dtype) -> None:
    """Over no dimension at all they are element by element, where sums are over all."""

    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(torch, name)(x, dim=dim, keepdim=keepdim)
        return result

    for x in (torch.tensor([[1, 0, 0], [0, 0, 2], [3, 3, 3]]).to(dtype), torch.tensor(0).to(dtype)):
        if x.dim() == 0 and dim == (0, -1):
            continue
        torch.compiler.reset()
        result = torch.compile(function, backend="tile", fullgraph=True, options={"strict": True})(x)
        assert_same(result, function(x))


def test_gradient_that_is_zero() -> None:
    """torch gives a tensor without memory (_efficientzerotensor); the kernel makes zeros."""
    x = torch.randn(5, requires_grad=True)
    y = torch.compile(torch.sgn, backend="tile", fullgraph=True, options={"strict": True})(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert not gradient._is_zerotensor() and torch.equal(gradient, torch.zeros(5))
