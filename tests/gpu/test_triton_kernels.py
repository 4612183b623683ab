"""`@triton.jit` kernels of graphs on a CUDA device with `triton_compiler="tile"`, compared with Triton's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_tile import counters

triton = pytest.importorskip("triton")
from tests.triton import kernels  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def pointwise(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    kernels.add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, out, n, BLOCK=256)
    return out + 1


def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernels.softmax[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def product(x: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.shape[0], x.shape[0])
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[0], 32))
    w = x.t().contiguous()
    kernels.matmul[grid](x, w, out, x.shape[0], x.shape[0], x.shape[1], BM=32, BN=32, BK=32, num_warps=4)
    return out


def atomics(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(1, device=x.device)
    kernels.accumulate[(triton.cdiv(x.numel(), 128),)](x, total, x.numel(), BLOCK=128)
    return total


@pytest.mark.parametrize("cudagraphs", [False, True])
@pytest.mark.parametrize("function", [pointwise, softmax, product, atomics])
def test_results_are_triton_s(function: Any, cudagraphs: bool) -> None:
    torch._dynamo.reset()
    counters.clear()
    x = torch.randint(-8, 9, (64, 96), device="cuda") / 8  # sums are exact in TF32, in any order
    options = {"triton_compiler": "tile", "cudagraphs": cudagraphs}
    compiled = torch.compile(function, backend="tile", fullgraph=True, options=options)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), function(x))
    assert counters["pycalls"] == counters["triton_refusals"] == 0
