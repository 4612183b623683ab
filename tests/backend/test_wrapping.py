"""64-bit integers wrap, also those that are functions of positions alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compiling import assert_same, compiled, fresh

N = 5000
CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "remainder": lambda i, x: (i * 6364136223846793005 + 1442695040888963407) % 1000 + x,
    "compare": lambda i, x: i * 6364136223846793005 > x,
    "floor_divide": lambda i, x: (i * 6364136223846793005 + 1) // 7 + x,
    "in_two_steps": lambda i, x: (i * 2**55 * 2**10 >= 0).int() + x,
    "squares": lambda i, x: (i * 2**40 * i * 1000).clamp(min=0) + x,
    "sum": lambda i, x: torch.where(i + (2**63 - 1 - N // 2) < 0, x, -x),
    "indices": lambda i, x: x[(i * 6364136223846793005) % N],
    "no_wrap": lambda i, x: x[(i * 1103515245 + 12345) % 2147483648 % N],
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_positions_wrap(name: str, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return CASES[name](torch.arange(x.shape[0]), x)

    x = torch.arange(N) % 201 - 100
    fresh()
    assert_same(compiled(function, dynamic=dynamic)(x), function(x), exact=True)
