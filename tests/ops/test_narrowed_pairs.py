"""Stores of narrowed pairs of 64-bit numbers, one of the two at a time: what lies behind the last one is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import assert_same, compiled

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum to int32": lambda y: torch.stack([y, y + 2], -1).sum(0).to(torch.int32),
    "sum to int16": lambda y: torch.stack([y, y + 2], -1).sum(0).to(torch.int16),
    "sum to int8": lambda y: torch.stack([y, y + 2], -1).sum(0).to(torch.int8),
    "largest": lambda y: torch.stack([y, y - 2], -1).amax(0).to(torch.int32),
    "place": lambda y: torch.stack([y, y * 2], -1).argmax(0).to(torch.int32),
    "of three": lambda y: torch.stack([y, y + 2, y * 3], -1).sum(0).to(torch.int32),
    "to float32": lambda y: torch.stack([y, y + 2], -1).double().sum(0).float(),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 33])
def test_memory_behind_is_left_alone(name: str, columns: int) -> None:
    y = torch.randint(0, 5, (3, columns))
    expected = PROGRAMS[name](y)
    larger = torch.full((expected.numel() + 8,), 77, dtype=expected.dtype)
    part = larger[: expected.numel()].view(expected.shape)

    def function(y: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        return part.copy_(PROGRAMS[name](y))

    assert_same(compiled(function)(y, part), expected)
    assert (larger[expected.numel() :] == 77).all()
    assert_same(compiled(PROGRAMS[name])(y), expected)
