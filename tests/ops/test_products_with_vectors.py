"""Products of many matrices of which one has a single row or column, or a single number between them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.compiling import compiled

SIZES = [(1, 7, 5), (6, 7, 1), (6, 1, 5), (1, 7, 1), (1, 1, 5), (6, 0, 1), (1, 65, 33)]


def operand(batch: int, rows: int, columns: int, order: str, dtype: torch.dtype) -> torch.Tensor:
    if order == "transposed":
        return torch.randint(-4, 5, (batch, columns, rows)).to(dtype).mT
    if order == "batch last":
        return torch.randint(-4, 5, (rows, columns, batch)).to(dtype).permute(2, 0, 1)
    if order == "expanded":
        return torch.randint(-4, 5, (1, rows, columns)).to(dtype).expand(batch, rows, columns)
    return torch.randint(-4, 5, (batch, rows, columns)).to(dtype)


@pytest.mark.parametrize("order", ["plain", "transposed", "batch last", "expanded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_and_strides(sizes: tuple[int, int, int], dtype: torch.dtype, order: str) -> None:
    rows, between, columns = sizes
    for batch in (1, 3, 40):
        a = operand(batch, rows, between, order, dtype)
        b = operand(batch, between, columns, order, dtype)
        found, expected = compiled(torch.bmm)(a, b), torch.bmm(a, b)
        assert torch.equal(found, expected) and found.stride() == expected.stride()  # whole numbers
        torch.compiler.reset()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradients(sizes: tuple[int, int, int]) -> None:
    rows, between, columns = sizes
    a, b = torch.randn(4, rows, between, dtype=torch.float64), torch.randn(4, between, columns, dtype=torch.float64)
    a.requires_grad_(), b.requires_grad_()

    def gradients(function: Any) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(function(a, b).sin().sum(), (a, b))

    torch.testing.assert_close(gradients(compiled(torch.bmm)), gradients(torch.bmm))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sums_are_wide(dtype: torch.dtype) -> None:
    a, b = torch.full((2, 1, 4096), 64.0, dtype=dtype), torch.full((2, 4096, 3), 0.25, dtype=dtype)
    a[:, :, ::2] *= -1
    assert torch.equal(compiled(torch.bmm)(a, b), torch.zeros(2, 1, 3, dtype=dtype))


def test_a_dtype_without_products() -> None:
    x = torch.ones(2, 3, 1, dtype=torch.bool)
    with pytest.raises(NotImplementedError, match="bmm"):
        compiled(torch.bmm)(x, x.mT)


def test_a_product_that_counts_nothing() -> None:
    x, matrix, vector = torch.tensor([2.0]), torch.tensor([[-3.0, 1.0]]), torch.tensor([float("inf"), 0.0])
    for beta in (0, 2):
        call = compiled(lambda x, a, b, beta=beta: torch.addmv(x, a, b, beta=beta, alpha=0))
        assert torch.equal(call(x, matrix, vector), torch.tensor([2.0 * beta]))
        torch.compiler.reset()


def test_products_of_folded_operands() -> None:
    a, b = torch.randn(2, 5, 1).transpose(0, 1), torch.randn(4, 1)
    for function in (lambda a, b: a @ b.t(), lambda a, b: torch.nn.functional.linear(a, -b)):
        found, expected = compiled(function)(a, b), function(a, b)
        assert torch.equal(found, expected) and found.stride() == expected.stride()
