"""Attention written operator by operator, as a kernel for a GPU that runs on the CPU (tests/gpu/simulator.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backend import test_written_attention as programs
from tests.compiling import IS_TILE, compiled
from tests.gpu import simulator
from tests.gpu.simulated_attention import simulated
from torch_tile.frontend.flex import written

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path(simulator.CLANG).exists() or not IS_TILE, reason="needs LLVM's clang, and kernels of this backend"
    ),
]


@pytest.mark.parametrize("function", programs.EQUAL)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("multiprocessors", [1, 64])
def test_one_kernel(
    function: Callable[..., Any], target: str, multiprocessors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "DEVICES", {"cpu"})
    operands = programs._operands((2, 2, 33, 32), 33 if multiprocessors == 1 else 1100, torch.bfloat16)
    if multiprocessors > 1:  # few rows: programs share the keys
        operands = [operands[0][:, :, :2].contiguous(), *operands[1:]]
        if function in (programs.windows, programs.of_one_projection):
            pytest.skip("as many keys as queries")
    with simulated(target, multiprocessors) as graphs, torch.no_grad():
        found = compiled(function)(*operands)
    assert sum(len(graph.kernels) for graph in graphs) == (1 if multiprocessors == 1 else 2)
    eager, exact = function(*operands), function(*(o.double() for o in operands))
    unit = torch.finfo(torch.bfloat16).eps * exact.abs().max()
    assert (found.double() - exact).abs().max() <= 2 * (eager.double() - exact).abs().max() + 2 * unit
