"""Loops that load operands of products ahead of their use, on a device and by the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.looped_products import CHECKS, check_two_products
from tests.gpu.test_simulated_products import launch as simulate
from tests.language.conftest import has_compiler

needs_simulator = pytest.mark.skipif(
    not Path(simulator.CLANG).exists() or not has_compiler(), reason="needs a compiler and LLVM's clang"
)


def on_cpu(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(torch.bfloat16)


def on_device(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(torch.bfloat16)


def launch(kernel: Any, grid: tuple[int, int, int], *arguments: Any, **constants: Any) -> None:
    kernel[grid](*arguments, **constants)


@needs_simulator
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_simulated(check: Any, target: str) -> None:
    torch.manual_seed(0)
    check(simulate, on_cpu, 64, num_warps=4, num_stages=3, target=target)


@needs_simulator
@pytest.mark.parametrize("num_stages", [1, 2, 4])
def test_simulated_stages(num_stages: int) -> None:
    torch.manual_seed(0)
    check_two_products(simulate, on_cpu, 64, num_warps=4, num_stages=num_stages, target="sm_90a")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("B", [32, 64, 128])
@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("num_stages", [1, 2, 3, 5])
def test_on_a_device(check: Any, B: int, num_warps: int, num_stages: int) -> None:
    torch.manual_seed(0)
    check(launch, on_device, B, num_warps=num_warps, num_stages=num_stages)
