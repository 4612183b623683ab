"""Tiles over several axes of what is copied: rows along what is read, lanes along what is written, or the other way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, schedules

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

Function = Callable[[torch.Tensor], torch.Tensor]


def numbered(*stored: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Neighbours differ, and what is 2^16 elements apart is equal."""
    count = torch.Size(stored).numel()
    return (
        torch.arange(count).to(torch.int16).view(dtype if dtype.itemsize == 2 else torch.int16).view(stored).to(dtype)
    )


PROGRAMS: dict[str, tuple[Function, torch.Tensor]] = {
    # Threads read neighbours along the rows of the tile, which its lanes follow nowhere.
    "turned": (lambda x: x.permute(2, 3, 1, 0).contiguous(), numbered(12, 3000, 8, 3)),
    "turned, with parts of tiles": (lambda x: x.permute(2, 3, 1, 0).contiguous(), numbered(12, 3007, 5, 5)),
    "turned, of four bytes": (
        lambda x: (x.permute(2, 3, 1, 0) * 2).contiguous(),
        numbered(12, 3000, 8, 3, dtype=torch.float32),
    ),
    "turned, the last axis first": (lambda x: x.permute(1, 2, 0).contiguous(), numbered(24, 12, 3000).mT),
    # What is read lies along the lanes, what is written along the rows.
    "joined": (lambda x: torch.cat([x[:4], x]), numbered(5, 512, 300).permute(2, 1, 0)),
    "joined, with another operand": (
        lambda x: torch.cat([x[1:4], x * 0 + 3, x], 0),
        numbered(5, 511, 301).permute(2, 1, 0),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tiles(name: str) -> None:
    function, x = PROGRAMS[name]
    found_files = (compile_for_gpu(function, x, alternative=number) for number in range(25))
    files = next(f for f in found_files if any("flat = " in each and "row axis" in each for each in schedules(f)))
    (found,) = SimulatedGraph(files).run(x)
    expected = function(x)
    assert found.stride() == expected.stride()
    assert torch.equal(found.nan_to_num(1.5), expected.nan_to_num(1.5))
