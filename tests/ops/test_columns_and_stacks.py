"""Columns of short rows, and stacks of as many as registers hold: read and written as vectors that are shuffled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.runtime.guard_pages import guarded_copy
from torch_tile.errors import OptionError

WIDTHS = (5, 9, 16, 17)
LENGTHS = (1, 64, 130)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.bool)
TARGETS = ("host", "x86-64-v3", "x86-64-v2")


def check(f: Callable[..., torch.Tensor], x: torch.Tensor, target: str, dynamic: bool = False) -> None:
    torch.compiler.reset()
    try:
        found = torch.compile(f, backend="tile", dynamic=dynamic, options={"target": target})(x)
    except OptionError:
        pytest.skip(f"this processor does not run code for {target}")
    expected = f(x)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_columns_in_another_order(dtype: torch.dtype, target: str) -> None:
    for width in WIDTHS:

        def turned(x: torch.Tensor) -> torch.Tensor:
            columns = x.unbind(-1)
            return torch.stack([columns[-1], *columns[:-1]], -1)

        for length in LENGTHS:
            x = torch.randint(-100, 100, (length, width)).to(dtype)
            check(turned, guarded_copy(x, "end"), target)


@pytest.mark.parametrize("width", [3, 9, 16, 20])
def test_columns_of_a_slice(width: int) -> None:
    """The first column of the last row is the last element that may be read."""

    def first(x: torch.Tensor) -> torch.Tensor:
        return x[:, 0] * 2

    memory = guarded_copy(torch.randn(64 * width + 1), "end")
    check(first, memory.as_strided((65, 1), (width, 1)), "host")


def test_rotations() -> None:
    def rotation(q: torch.Tensor) -> torch.Tensor:
        r, i, j, k = q.unbind(-1)
        entries = (r, i * j, i * k, i * j, i + k, j * k, i - k, j + k, i + j)
        return torch.stack(entries, -1).reshape(*q.shape[:-1], 3, 3)

    check(rotation, torch.randn(1000, 4), "host")
    check(rotation, torch.randn(7, 100, 4), "host", dynamic=True)
