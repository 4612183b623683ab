"""Loops that load operands of products ahead of their use, on a device and by the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.gpu import simulator
from tests.gpu.looped_products import CHECKS, check_two_products, in_turns, two_before, two_products
from tests.gpu.test_simulated_products import launch as simulate
from tests.language.conftest import has_compiler

needs_simulator = pytest.mark.skipif(
    not Path(simulator.CLANG).exists() or not has_compiler(), reason="needs a compiler and LLVM's clang"
)


@torch_tile.jit
def weighted_rows(q_ptr, k_ptr, v_ptr, o_ptr, stride, LENGTH, B: tl.constexpr, D: tl.constexpr):
    rows, depth = tl.arange(0, B), tl.arange(0, D)
    keys = k_ptr + rows[:, None] * stride + depth[None, :]
    values = v_ptr + rows[:, None] * stride + depth[None, :]
    q = tl.load(q_ptr + rows[:, None] * stride + depth[None, :])
    acc = tl.zeros((B, D), dtype=tl.float32)
    for _start in range(0, LENGTH, B):
        weights = tl.exp2(tl.dot(q, tl.trans(tl.load(keys))))
        acc = tl.dot(weights.to(tl.bfloat16), tl.load(values), acc)
        keys += B * stride
        values += B * stride
    tl.store(o_ptr + rows[:, None] * D + depth[None, :], acc.to(tl.bfloat16))


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


def test_results_under_way_keep_their_registers() -> None:
    """What is handed on to another place, or comes from one, would move while it is under way."""
    a, c, s = on_cpu(64, 64), torch.empty(64, 64), torch.empty(64)
    options = {"num_warps": 4, "num_stages": 3, "target": "sm_90a"}
    code = [
        two_before.warmup(a, a, c, s, 64, B=64, **options).asm["llir"],
        in_turns.warmup(a, a, c, 64, B=64, **options).asm["llir"],
        two_products.warmup(a, a, a, c, 64, 64, B=64, BK=32, **options).asm["llir"],
    ]
    assert ["wait_group.sync.aligned(i64" in each for each in code] == [False, False, True]


@torch_tile.jit
def two_fixed(a_ptr, d_ptr, b_ptr, c_ptr, steps, M: tl.constexpr, K: tl.constexpr):
    """Two operands that all iterations share, and two that each loads."""
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    d = tl.load(d_ptr + m[:, None] * K + k[None, :])
    first = tl.zeros((M, M), tl.float32)
    second = tl.zeros((M, M), tl.float32)
    for step in range(steps):
        at = (2 * step * K + k[:, None]) * M + m[None, :]
        first = tl.dot(a, tl.load(b_ptr + at), first)
        second = tl.dot(d, tl.load(b_ptr + K * M + at), second)
    tl.store(c_ptr + m[:, None] * M + m[None, :], first + 2.0 * second)


@needs_simulator
def test_loads_and_shared_operands_without_room() -> None:
    """Nothing fits beside the other: 64 KB an operand, of 163 KB."""
    M, K, steps = 128, 256, 2
    a, d, b = on_cpu(M, K), on_cpu(M, K), on_cpu(2 * steps * K, M)
    c = torch.zeros(M, M)
    simulate(two_fixed, (1, 1, 1), a, d, b, c, steps, M=M, K=K, num_warps=8, num_stages=3, target="sm_80")
    parts = [part.double() for part in b.split(K)]
    expected = a.double() @ sum(parts[::2]) + 2 * d.double() @ sum(parts[1::2])
    torch.testing.assert_close(c.double(), expected, rtol=1e-4, atol=1e-3)


@torch_tile.jit
def deep_and_wide(a_ptr, b_ptr, d_ptr, c_ptr, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Loads of the first loop take what memory there is. In the second one an operand is computed, and takes other
    memory."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for step in range(steps):
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        acc = tl.dot(a, tl.load(b_ptr + (step * K + k[:, None]) * N + n[None, :]), acc)
    for step in range(steps):
        a = tl.load(d_ptr + m[:, None] * K + k[None, :]) * (step + 1)
        acc = tl.dot(a.to(b_ptr.dtype.element_ty), tl.load(b_ptr + (step * K + k[:, None]) * N + n[None, :]), acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@needs_simulator
def test_loops_whose_memory_differs() -> None:
    M, N, K, steps = 64, 64, 64, 2
    a, d, b, c = on_cpu(M, K), on_cpu(M, K), on_cpu(steps * K, N), torch.zeros(M, N)
    simulate(deep_and_wide, (1, 1, 1), a, b, d, c, steps, M=M, N=N, K=K, num_warps=4, num_stages=14, target="sm_90a")
    parts = [part.double() for part in b.split(K)]
    expected = a.double() @ (parts[0] + parts[1]) + d.double() @ parts[0] + (2 * d).double() @ parts[1]
    torch.testing.assert_close(c.double(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("B", [32, 64, 128])
@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("num_stages", [1, 2, 3, 5])
def test_on_a_device(check: Any, B: int, num_warps: int, num_stages: int) -> None:
    torch.manual_seed(0)
    check(launch, on_device, B, num_warps=num_warps, num_stages=num_stages)


@needs_simulator
def test_simulated_pointers_of_loads_ahead() -> None:
    torch.manual_seed(0)
    a, out = on_cpu(256, 64) / 8, on_cpu(64, 64)
    simulate(weighted_rows, (1, 1, 1), a, a, a, out, 64, 256, B=64, D=64, num_warps=4, num_stages=3, target="sm_90a")
    weights = (a[:64].double() @ a.t().double()).exp2()
    # Weights and results are rounded to bfloat16.
    bound = 2 * torch.finfo(torch.bfloat16).eps * (weights @ a.double().abs())
    assert ((out.double() - weights @ a.double()).abs() <= bound).all()
