"""Padding that repeats or reflects, inside of kernels for a GPU that run on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import fresh
from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, schedules

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")


def stencil(x, mode):
    padded = F.pad(x, (2, 1, 1, 3), mode=mode)
    rows, columns = x.shape[-2:]
    parts = [padded[..., i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    return (parts[0] + 2 * parts[1] - parts[5]).square() + (parts[8] - parts[3] * parts[1]).abs()


def norm(x, mode):
    return F.relu(F.instance_norm(F.pad(x, (1, 1, 2, 2), mode=mode)))


@pytest.mark.parametrize("mode", ["replicate", "reflect", "circular"])
@pytest.mark.parametrize("function", [stencil, norm], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(2, 3, 9, 33), (1, 2, 16, 64)], ids=str)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_equals_eager(function, shape, mode, dynamic):
    fresh()
    x = torch.randn(shape)
    files = compile_for_gpu(lambda x: function(x, mode), x, dynamic=dynamic)
    (result,) = SimulatedGraph(files).run(x)
    torch.testing.assert_close(result, function(x, mode), rtol=1e-4, atol=1e-4)


def test_a_stencil_of_repeated_borders_is_one_kernel():
    fresh()
    files = compile_for_gpu(lambda x: stencil(x, "replicate"), torch.randn(2, 3, 64, 64))
    assert len(schedules(files)) == 1
