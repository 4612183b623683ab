"""Loads of unrolled recurrences come before the divisions that they do not wait for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.compiling import fresh
from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu

STEPS = 6


def averages(x, y):
    above, below, outputs = torch.ones_like(x[0]), torch.ones_like(x[0]), []
    for t in range(STEPS):
        above, below = above * 0.5 + x[t] * y[t], below * 0.5 + y[t]
        outputs.append(above / below)
        above = above + outputs[-1]
    return torch.stack(outputs)


def test_several_loads_precede_the_first_division():
    fresh()
    files = compile_for_gpu(averages, torch.rand(STEPS, 1 << 20), torch.rand(STEPS, 1 << 20))
    ptx = files["60-kernel.ptx"]
    assert "div.rn" in ptx
    # A thread has 128 bytes of what it waits for: eight words of 16, and two more whose first use comes before.
    assert ptx[: ptx.index("div.rn")].count("ld.global") >= 8


@pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
@pytest.mark.parametrize("length", [1024, 1000, 77])
def test_equals_eager(length):
    fresh()
    x, y = torch.rand(STEPS, length), torch.rand(STEPS, length) + 0.5
    (result,) = SimulatedGraph(compile_for_gpu(averages, x, y)).run(x, y)
    torch.testing.assert_close(result, averages(x, y))
