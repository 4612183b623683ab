"""Concatenations of which kernels for a GPU compute each operand in its place, run on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.compiling import fresh
from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, schedules

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")


def steps(x, y):
    outputs = []
    for t in range(x.shape[0]):
        y = torch.tanh(y * 0.5 + x[t])
        outputs.append(y)
    return torch.stack(outputs, 1)


def softmaxes(x, y):
    return torch.cat([torch.softmax(x, -1), y, torch.softmax(y, -1) * y.sin(), torch.softmax(x, 0)])


@pytest.mark.parametrize("length", [128, 127, 65], ids=lambda n: f"rows of {n}")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_steps_of_a_recurrence_are_one_kernel(length, dtype):
    fresh()
    x, y = torch.randn(5, 6, length, dtype=dtype), torch.randn(6, length, dtype=dtype)
    files = compile_for_gpu(steps, x, y)
    assert "graph.assemble" in files["30-tile.mlir"]
    assert len(schedules(files)) == 1
    (result,) = SimulatedGraph(files).run(x, y)
    atol = 2e-2 if dtype == torch.bfloat16 else 1e-5  # a step of bfloat16 below 4
    torch.testing.assert_close(result, steps(x, y), atol=atol, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5)


@pytest.mark.parametrize("length", [64, 41], ids=lambda n: f"rows of {n}")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_reductions_in_their_places(length, dynamic):
    fresh()
    x, y = torch.randn(7, length), torch.randn(3, length)
    files = compile_for_gpu(softmaxes, x, y, dynamic=dynamic)
    assert "graph.assemble" in files["30-tile.mlir"]
    (result,) = SimulatedGraph(files).run(x, y)
    torch.testing.assert_close(result, softmaxes(x, y))
