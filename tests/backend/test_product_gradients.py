"""Gradients of products of many elements, beside eager mode, which looks for zeros first."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.compiling import BACKEND
from torch_tile.frontend.product_gradients import replace_product_gradients


def product(x: torch.Tensor, dim: int | None) -> torch.Tensor:
    return x.prod() if dim is None else x.prod(dim)


def gradient(function: Callable[..., torch.Tensor], x: torch.Tensor, dim: int | None) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    result = function(leaf, dim)
    (found,) = torch.autograd.grad(result, leaf, torch.linspace(1, 2, result.numel()).view(result.shape).to(x.dtype))
    return found


def product_of_others(x: torch.Tensor, dim: int | None) -> torch.Tensor:
    """In float64, times the gradient of each product."""
    rows = x.double().flatten() if dim is None else x.double().movedim(dim, -1)
    results = []
    for k in range(rows.shape[-1]):
        results.append(torch.cat([rows[..., :k], rows[..., k + 1 :]], -1).prod(-1))
    found = torch.stack(results, -1)
    found *= torch.linspace(1, 2, found[..., 0].numel()).view(found[..., 0].shape).to(x.dtype).double().unsqueeze(-1)
    return found.view(x.shape) if dim is None else found.movedim(-1, dim)


def operand(shape: tuple[int, ...], dtype: torch.dtype, values: list[float]) -> torch.Tensor:
    x = torch.rand(shape, dtype=torch.float64) / 2 + 0.75
    x *= torch.where(torch.rand(shape) < 0.5, -1.0, 1.0)
    x.view(-1)[: len(values)] = torch.tensor(values, dtype=torch.float64)
    return x.to(dtype)


SPECIAL = {
    "usual": [],
    "zero": [0.0],
    "zeros": [0.0, -0.0],
    "infinity": [math.inf],
    "infinities": [-math.inf, math.inf],
    "both": [0.0, math.inf],
    "zeros and infinity": [0.0, 0.0, math.inf],
    "NaN": [math.nan],
    "zero and NaN": [0.0, math.nan],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("shape", "dim"), [((5, 7), 1), ((5, 7), 0), ((5, 7), None), ((2, 9, 3), 1), ((33,), -1)])
@pytest.mark.parametrize("values", SPECIAL)
def test_gradients(shape: tuple[int, ...], dim: int | None, dtype: torch.dtype, values: str) -> None:
    x = operand(shape, dtype, SPECIAL[values])
    found = gradient(torch.compile(product, backend=BACKEND, fullgraph=True), x, dim)
    exact, expected = product_of_others(x, dim), gradient(product, x, dim)
    torch.testing.assert_close(found.double(), exact, rtol=8 * torch.finfo(dtype).eps, atol=0, equal_nan=True)
    # Eager mode divides by what is no zero, if there are none.
    is_known = expected.isfinite() & x.isfinite() & exact.isfinite()
    torch.testing.assert_close(found[is_known], expected[is_known], rtol=32 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("size", [2, 3, 17])
def test_dynamic_sizes(size: int) -> None:
    function = torch.compile(product, backend=BACKEND, dynamic=True)
    for shape in ((3, size), (size, 4), (1, size), (size, 1)):
        x = operand(shape, torch.float32, [0.0])
        torch.testing.assert_close(gradient(function, x, 1), gradient(product, x, 1), rtol=1e-5, atol=0)


def test_products_beyond_the_range() -> None:
    """Of factors whose product is infinite in float32, that of all but one may not be."""
    x = torch.tensor([[1e30, 1e20, 1e-30], [1e-30, 1e-30, 1e30]], dtype=torch.float32)
    found = gradient(torch.compile(product, backend=BACKEND), x, 1)
    exact = gradient(product, x.double(), 1).float()
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=0)


def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    one = torch.ones(len(x), 1)
    before = torch.cat([one, x[:, :-1]], 1).cumprod(1)
    behind = torch.cat([one, y[:, 1:].flip(1)], 1).cumprod(1).flip(1)
    return before * behind


def test_what_is_replaced() -> None:
    def count(function: Callable[..., torch.Tensor], *args: torch.Tensor) -> int:
        return replace_product_gradients(make_fx(function, tracing_mode="fake")(*args))

    x, y = torch.rand(3, 5), torch.rand(3, 5)
    assert count(lambda x: gradient(product, x, 0), x) == 1
    assert count(lambda x: gradient(product, x, 1), x) == 1
    assert count(lambda x: gradient(product, x, None), x) == 1
    assert count(lambda x: two(x, x), x) == 1
    assert count(two, x, y) == 0
    assert count(lambda x: two(x, x[:, :]), x) == 0
    assert count(lambda x: two(x[:, 1:], x[:, :-1]), x) == 0
    assert count(lambda x: two(x.long(), x.long()), x) == 0


def test_running_products_of_other_operands_stay() -> None:
    x, y = torch.rand(3, 5), torch.rand(3, 5)
    torch.testing.assert_close(torch.compile(two, backend=BACKEND)(x, y), two(x, y), rtol=1e-5, atol=0)
    torch.testing.assert_close(torch.compile(two, backend=BACKEND)(x, x), two(x, x), rtol=1e-5, atol=0)
