"""Rows that are read in reverse: whole vectors, and what is left of a row, on processors with and without masks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from torch_tile.errors import OptionError

LENGTHS = (1, 3, 15, 16, 17, 33, 48, 57, 63, 65, 100)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int64, torch.bool)


def rows(length: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(-100, 100, (5, length)).to(dtype)


@pytest.mark.parametrize("target", ["host", "x86-64-v3", "x86-64-v2"])
def test_flips(target: str) -> None:
    def flipped(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.flip(-1), x.flip(-1)[:, : (x.shape[1] + 1) // 2], F.pad(x.flip(1), (2, 3), value=7)

    for dtype in DTYPES:
        for length in LENGTHS:
            torch.compiler.reset()
            x = rows(length, dtype)
            try:
                found = torch.compile(flipped, backend="tile", options={"target": target})(x)
            except OptionError:
                pytest.skip(f"this processor does not run code for {target}")
            for result, expected in zip(found, flipped(x), strict=True):
                assert torch.equal(result, expected), (dtype, length)


def test_lengths_that_are_dynamic() -> None:
    call = torch.compile(lambda x: x.flip(-1) * 2, backend="tile", dynamic=True)
    for length in (2, 7, 16, 31, 70):
        x = rows(length, torch.float32)
        assert torch.equal(call(x), x.flip(-1) * 2)
