"""Products by matrix instructions on a CUDA device, of the types whose fragments are read or rounded specially."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.gpu.test_simulated_precisions import PRECISIONS, to_tf32
from tests.gpu.test_simulated_products import product

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
f32, s8 = torch.float32, torch.int8
BLOCKS = [(16, 16, 32, 1), (32, 64, 64, 4), (128, 64, 64, 8), (64, 128, 32, 4)]
ORDERS = ["", "a", "b", "ab"]


def _operands(shape: tuple[int, int, int], dtype: torch.dtype, transposed: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    M, N, K = shape
    sizes = ((K, M) if "a" in transposed else (M, K), (N, K) if "b" in transposed else (K, N))
    if dtype is s8:
        a, b = (torch.randint(-128, 128, size, device="cuda").to(s8) for size in sizes)
    else:
        a, b = (torch.randn(size, device="cuda").to(dtype) for size in sizes)
    return a.t() if "a" in transposed else a, b.t() if "b" in transposed else b


def _multiply(
    a: torch.Tensor, b: torch.Tensor, blocks: tuple[int, int, int, int], sums: Any, **options: Any
) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    BM, BN, BK, num_warps = blocks
    c = torch.full((M, N), 7, dtype=sums.torch, device="cuda")
    product[torch_tile.cdiv(M, BM), torch_tile.cdiv(N, BN)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), BM=BM, BN=BN, BK=BK, num_warps=num_warps, SUM=sums, **options
    )
    return c


@pytest.mark.parametrize("transposed", ORDERS)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("precision", ["tf32", *PRECISIONS])
def test_precisions(precision: str, blocks: tuple[int, int, int, int], transposed: str) -> None:
    a, b = _operands((256, 192, 160), f32, transposed)
    found = _multiply(a, b, blocks, tl.float32, PRECISION=precision)
    x, y = (to_tf32(z.contiguous()) for z in (a, b)) if precision == "tf32" else (a, b)
    count, loss = PRECISIONS.get(precision, (1, 0.0))
    # Sums of matrix instructions are truncated.
    bound = (loss + 2 * count * torch.finfo(f32).eps * 40) * (a.double().abs() @ b.double().abs())
    assert ((found.double() - x.double() @ y.double()).abs() <= bound).all()


@pytest.mark.parametrize("transposed", ORDERS)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_bytes(blocks: tuple[int, int, int, int], transposed: str) -> None:
    a, b = _operands((256, 192, 160), s8, transposed)
    assert torch.equal(_multiply(a, b, blocks, tl.int32).double(), a.double() @ b.double())
