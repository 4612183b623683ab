"""Writes to float64 tensors of no dimension, whose values Dynamo tracks as it does Python floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo

from tests.compiling import IS_TILE, assert_same, compiled, count

if not IS_TILE:
    pytest.skip("the other backends lose such writes", allow_module_level=True)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.float64))
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1)
        return self.layer(x)  # type: ignore[no-any-return]


def _written_view(x: torch.Tensor, factor: float) -> Any:
    y = x.view_as(x)
    x.add_(factor)
    return y, x.expand(3)


def _read_again(x: torch.Tensor, factor: float) -> Any:
    x.mul_(2)
    return x * factor


def _twice(x: torch.Tensor, factor: float) -> Any:
    y = x.mul_(factor).unsqueeze(0)
    y.sub_(1)
    return torch.ones(2) + x


def _size(x: torch.Tensor, factor: float) -> Any:
    x.add_(1)
    return torch.zeros(int(factor * 2)) + x


def _alone(x: torch.Tensor, factor: float) -> None:
    x.fill_(factor)


FUNCTIONS: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "written view": _written_view,
    "read again": _read_again,
    "twice": _twice,
    "a float makes a size": _size,
    "alone": _alone,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_writes_are_kept(name: str, dtype: torch.dtype) -> None:
    eager, function = FUNCTIONS[name], compiled(FUNCTIONS[name], dynamic=None)
    for number in (2.0, 2.5, 3.5):  # the second makes the float an input
        x, y = torch.tensor(number, dtype=dtype), torch.tensor(number, dtype=dtype)
        expected, found = eager(x, number + 1), function(y, number + 1)
        assert_same((found, y), (expected, x), exact=True)
    assert count("fallbacks") == 0


def test_buffer_of_a_module() -> None:
    module = Counter()
    function, x = compiled(module), torch.randn(2, 3)
    for _ in range(4):
        function(x).sum().backward()
    assert module.steps.item() == 4 and count("fallbacks") == 0


@torch._dynamo.config.patch(capture_scalar_outputs=True)
@pytest.mark.parametrize("is_written", [True, False])
def test_value_is_read_as_a_number_after_the_write(is_written: bool) -> None:
    """Dynamo takes the value for the one before the write, so the graph runs in eager mode."""

    def function(x: torch.Tensor) -> torch.Tensor:
        if is_written:
            x.mul_(2)
        return torch.full((2,), x.item())

    result = torch.compile(function, backend="tile")
    for number in (2.0, 3.0):
        x, y = (torch.tensor(number, dtype=torch.float64) for _ in range(2))
        assert_same((result(y), y), (function(x), x), exact=True)
    assert (count("fallbacks") > 0) == is_written
