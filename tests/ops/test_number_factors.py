"""Factors and divisors of low precision tensors that are 0-d tensors, or floats that change: eager mode does not round
them to the tensor's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

FUNCTIONS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "x * t": lambda x, t: x * t,
    "mul(t, x)": lambda x, t: torch.mul(t, x),
    "x / t": lambda x, t: x / t,
    "t / x": lambda x, t: t / x,
    "floor": lambda x, t: torch.div(x, t, rounding_mode="floor"),
    "trunc": lambda x, t: torch.div(x, t, rounding_mode="trunc"),
    "mul_": lambda x, t: x.clone().mul_(t),
    "foreach": lambda x, t: torch._foreach_mul([x, x.abs()], t),
    "x + t": lambda x, t: x + t,
}
# With Python floats torch.mul takes no float first, eager mode multiplies by a rounded reciprocal, and rounds what it
# adds, which kernels do not.
OF_TENSORS = {"mul(t, x)", "t / x", "x + t"}
NUMBERS = [
    torch.tensor(0.3),
    torch.tensor(1e5),
    torch.tensor(0.3, dtype=torch.float64),
    torch.tensor(70001),
    torch.tensor(-3, dtype=torch.int8),
    torch.tensor(0.3, dtype=torch.bfloat16),
    0.3,
    1e5,
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_eager(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.tensor([0.5, 0.01, 2.0]), torch.randn(1000)]).to(dtype)
    for number in NUMBERS:
        if isinstance(number, float) and name in OF_TENSORS:
            continue
        torch.compiler.reset()
        compiled = torch.compile(FUNCTIONS[name], backend="tile", options={"strict": True})
        if isinstance(number, float):
            compiled(x, 0.7)  # the next one is a float that changes
        expected = FUNCTIONS[name](x, number)
        torch.testing.assert_close(compiled(x, number), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=lambda dtype: str(dtype)[6:])
def test_gradients_of_scaled_losses(dtype: torch.dtype) -> None:
    """A loss scale beyond the range of float16."""
    torch.manual_seed(0)
    x = (torch.randn(64) * 1e-4).to(dtype).requires_grad_()
    scale = torch.tensor(2.0**17)

    def loss(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return ((x * scale).float() ** 2).sum()

    expected = torch.autograd.grad(loss(x, scale), x)[0]
    found = torch.autograd.grad(torch.compile(loss, backend="tile", options={"strict": True})(x, scale), x)[0]
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_beyond_the_range(dynamic: bool) -> None:
    """Eager mode makes infinities of them."""
    x = torch.rand(5)

    def function(x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.xlogy(x, 1e39), z / 1e39, z.clone().div_(-1e300), 1e39 / z

    compiled = torch.compile(function, backend="tile", dynamic=dynamic, options={"strict": True})
    z = torch.complex(x, x + 1)
    for found, expected in zip(compiled(x, z), function(x, z), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (x.shape[0] * 1.7e4),
        lambda x: x / (x.shape[0] / 3),
        lambda x: x * x.shape[0] ** 0.5,
    ],
)
def test_numbers_made_of_sizes(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(8).half()
    assert torch.equal(torch.compile(function, backend="tile", dynamic=True, options={"strict": True})(x), function(x))
