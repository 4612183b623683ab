"""Products by matrix instructions on a CUDA device, of the types whose fragments are read or rounded specially."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.gpu.test_simulated_batches import SHAPES, products
from tests.gpu.test_simulated_precisions import PRECISIONS, to_tf32
from tests.gpu.test_simulated_products import product

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
f32, s8, f64 = torch.float32, torch.int8, torch.float64
e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
BLOCKS = [(16, 16, 32, 1), (32, 64, 64, 4), (128, 64, 64, 8), (64, 128, 32, 4)]
ORDERS = ["", "a", "b", "ab"]


def _operands(shape: tuple[int, int, int], dtype: torch.dtype, transposed: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    M, N, K = shape
    sizes = ((K, M) if "a" in transposed else (M, K), (N, K) if "b" in transposed else (K, N))
    if dtype is s8:
        a, b = (torch.randint(-128, 128, size, device="cuda").to(s8) for size in sizes)
    else:
        a, b = (torch.randn(size, device="cuda", dtype=f64).to(dtype) for size in sizes)
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


@pytest.mark.parametrize("transposed", ORDERS)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("dtype", [e4m3, e5m2])
@pytest.mark.parametrize("is_precise", [False, True])
def test_floats_of_8_bits(
    dtype: torch.dtype, blocks: tuple[int, int, int, int], transposed: str, is_precise: bool
) -> None:
    a, b = _operands((256, 192, 160), dtype, transposed)
    found = _multiply(a, b, blocks, tl.float32, MOST=0 if is_precise else None)
    # Sums of instructions for 8-bit floats keep 14 bits on some devices.
    eps = torch.finfo(f32).eps if is_precise else 2.0**-13
    bound = 2 * eps * 40 * (a.double().abs() @ b.double().abs())
    assert ((found.double() - a.double() @ b.double()).abs() <= bound).all()


@pytest.mark.parametrize("transposed", ORDERS)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_float64(blocks: tuple[int, int, int, int], transposed: str) -> None:
    a, b = _operands((256, 192, 160), f64, transposed)
    bound = 160 * torch.finfo(f64).eps * (a.abs() @ b.abs())
    assert ((_multiply(a, b, blocks, tl.float64) - a @ b).abs() <= bound).all()


@pytest.mark.parametrize("shape, num_warps", SHAPES, ids=str)
@pytest.mark.parametrize("transposed", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, e4m3])
def test_several_matrices(dtype: torch.dtype, transposed: str, shape: tuple[int, ...], num_warps: int) -> None:
    torch.manual_seed(0)
    (B, M, N, K), steps = shape, 3
    is_left, is_right = "a" in transposed, "b" in transposed
    sizes = ((K, M) if is_left else (M, K), (N, K) if is_right else (K, N))
    a, b = (torch.randn(steps * B, *size, device="cuda").to(dtype) for size in sizes)
    c, s = torch.zeros(B, M, N, device="cuda"), torch.zeros(B, M, device="cuda")
    products[(1,)](
        a, b, c, s, steps, B=B, M=M, N=N, K=K, LEFT=is_left, RIGHT=is_right, SUM=tl.float32, num_warps=num_warps
    )
    x, y = a.double(), b.double()
    x, y = x.mT if is_left else x, y.mT if is_right else y
    expected = (x @ y).view(steps, B, M, N).sum(0)
    eps = 2.0**-13 if dtype is e4m3 else torch.finfo(f32).eps
    bound = 2 * eps * K * (x.abs() @ y.abs()).view(steps, B, M, N).sum(0)
    assert ((c.double() - expected).abs() <= bound).all()
    assert ((s.double() - expected.sum(2)).abs() <= 2 * bound.sum(2)).all()
