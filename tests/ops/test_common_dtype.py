"""Operands of several dtypes: operators see them in the common one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import compiled

# Values that the common dtype does not have: they become zero, or wrap around.
PAIRS = [
    (torch.tensor([0.0, 1.0], dtype=torch.float16), torch.tensor(1e-45)),
    (torch.tensor([0, 1, -3], dtype=torch.int8), torch.tensor(256)),
    (torch.tensor([0, 1], dtype=torch.uint8), torch.tensor([256, 0])),
    (torch.tensor([1e-6, 0.0], dtype=torch.float16), torch.tensor([1e-30, 1.0], dtype=torch.bfloat16)),
    (torch.tensor([0.0]), torch.tensor(1e-60, dtype=torch.float64)),
    (torch.tensor([True, False]), torch.tensor(1e-60, dtype=torch.float64)),
]
OPERATORS = [torch.logical_and, torch.logical_or, torch.logical_xor, torch.eq, torch.lt, torch.maximum, torch.mul]


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("a, b", PAIRS)
def test_operands_are_converted_first(function: Callable[..., Any], a: torch.Tensor, b: torch.Tensor) -> None:
    for x, y in ((a, b), (b, a)):
        result, expected = compiled(function)(x, y), function(x, y)
        assert result.dtype == expected.dtype and torch.equal(result, expected), (x, y)
