"""What a compiled kernel says of itself on a device, launches as steps of programs, and autotuning there."""

from __future__ import annotations

import pytest
import torch

import torch_tile
from tests.gpu.test_language import add, product, randn
from torch_tile import _C, counters

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def test_resources_are_those_of_the_driver() -> None:
    a, b, c = (
        randn(64, 64, dtype=torch.bfloat16),
        randn(64, 64, dtype=torch.bfloat16),
        torch.zeros(64, 64, device="cuda"),
    )
    arguments = (a, b, c, 64, 64, 64, 64, 1, 64, 1)
    for maxnreg in (None, 48):
        compiled = product[(1,)](*arguments, BM=64, BN=64, BK=64, num_warps=4, maxnreg=maxnreg)
        assert compiled.metadata.num_warps == 4 and compiled.n_max_threads == 128
        code, device = _C.kernel_resources(compiled.launcher), _C.kernel_resources(compiled.launcher, 0)
        assert {k: v for k, v in code.items() if k != "blocks_per_multiprocessor"} == {
            k: v for k, v in device.items() if k != "blocks_per_multiprocessor"
        }
        assert compiled.n_regs == device["num_registers"] and (maxnreg is None or compiled.n_regs <= maxnreg)
        assert compiled.n_spills == device["local_bytes"] // 4
        assert 1 <= compiled.occupancy <= 16
        torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-2)
    print(f"free and limited: {code}")


def test_warmup_of_a_type_is_for_the_device_of_the_others() -> None:
    x = randn(64)
    compiled = add.warmup(x, torch.float32, torch.float32, 64, B=64, grid=(1,))
    assert compiled.device == x.device and "ptx" in compiled.asm
    with torch.device("cuda"):
        assert add.warmup(torch.float32, torch.float32, torch.float32, 64, B=64, grid=(1,)).device.type == "cuda"


def test_launches_in_graphs_are_steps() -> None:
    """No call of Python, on a grid of two axes, with options; and recorded in a CUDA graph."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = x * 2
        c = torch.empty(x.shape[0], y.shape[1], device="cuda")
        M, K, N = x.shape[0], x.shape[1], y.shape[1]
        grid = (torch_tile.cdiv(M, 32), torch_tile.cdiv(N, 64))
        product[grid](a, y, c, M, N, K, K, 1, N, 1, BM=32, BN=64, BK=32, num_warps=8)
        return c + 1

    x, y = randn(100, 70, dtype=torch.bfloat16), randn(70, 90, dtype=torch.bfloat16)
    expected = (2 * x).float() @ y.float() + 1
    for mode in ("default", "reduce-overhead"):
        torch.compiler.reset()
        before = counters["externs"] + counters["pycalls"]
        with torch_tile.config.patch(force_compile=True):
            compiled = torch.compile(function, backend="tile", fullgraph=True, mode=mode)
            for _ in range(4):
                torch.testing.assert_close(compiled(x, y), expected, rtol=1e-3, atol=1e-2)
        assert counters["externs"] + counters["pycalls"] == before
    shifted = torch.empty(100 * 70 + 1, device="cuda", dtype=torch.bfloat16)[1:].view(100, 70).copy_(x)
    torch.testing.assert_close(compiled(shifted, y), expected, rtol=1e-3, atol=1e-2)


def test_in_place_in_graphs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        add[(torch_tile.cdiv(x.numel(), 256),)](x, x, x, x.numel(), B=256)
        return x * 2

    for size in (1000, 1001, 4096):
        x = randn(size)
        expected = 2 * x
        torch.compiler.reset()
        result = torch.compile(function, backend="tile", fullgraph=True, dynamic=size == 1001)(x)
        assert torch.equal(x, expected) and torch.equal(result, 2 * expected)


def test_configurations_without_resources_are_left_out() -> None:
    configs = [torch_tile.Config({"BM": b, "BN": b, "BK": k}, num_warps=8) for b, k in ((64, 32), (256, 256))]
    kernel = torch_tile.autotune(configs=configs, key=["M"])(product)
    a, b, c = (
        randn(256, 256, dtype=torch.bfloat16),
        randn(256, 256, dtype=torch.bfloat16),
        torch.zeros(256, 256, device="cuda"),
    )
    kernel[lambda m: (torch_tile.cdiv(256, m["BM"]), torch_tile.cdiv(256, m["BN"]))](
        a, b, c, 256, 256, 256, 256, 1, 256, 1
    )
    assert kernel.best_config == configs[0] and kernel.configs_timings[configs[1]] == float("inf")
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-2)
