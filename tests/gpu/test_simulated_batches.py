"""Products of several matrices at once by matrix instructions of a GPU, simulated."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile.language as tl
from tests.gpu.test_simulated_products import launch, order, pytestmark  # noqa: F401
from torch_tile import jit

f16, bf16, f32, f64, s8 = torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8
e4m3 = torch.float8_e4m3fn


@jit
def products(
    a_ptr, b_ptr, c_ptr, s_ptr, steps, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """The sum over steps of a[step] @ b[step], and its sums along rows. LEFT, RIGHT: operands that are transposed."""
    i, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((B, M, N), SUM)
    for step in range(steps):
        first = step * B + i[:, None, None]
        if LEFT:
            a = tl.trans(tl.load(a_ptr + (first * K + k[None, :, None]) * M + m[None, None, :]), 0, 2, 1)
        else:
            a = tl.load(a_ptr + (first * M + m[None, :, None]) * K + k[None, None, :])
        if RIGHT:
            b = tl.trans(tl.load(b_ptr + (first * N + n[None, :, None]) * K + k[None, None, :]), 0, 2, 1)
        else:
            b = tl.load(b_ptr + (first * K + k[None, :, None]) * N + n[None, None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + (i[:, None, None] * M + m[None, :, None]) * N + n[None, None, :], acc)
    tl.store(s_ptr + i[:, None] * M + m[None, :], tl.sum(acc, 2))


SUMS: dict[torch.dtype, Any] = {s8: (tl.int32, torch.int32), f64: (tl.float64, f64)}
NAMES = {f16: "m16n8k16", bf16: "m16n8k16", f32: "m16n8k8", f64: "m8n8k4", s8: "m16n8k32", e4m3: "m16n8k32"}


def _operands(shape: tuple[int, int, int], dtype: torch.dtype) -> torch.Tensor:
    if dtype is s8:
        return torch.randint(-128, 128, shape).to(s8)
    x = torch.randn(shape, dtype=f64)
    if dtype is f32:  # numbers that are not rounded
        return (x.float().view(torch.int32) & -8192).view(f32)
    return x.to(dtype)


def check(
    dtype: torch.dtype, shape: tuple[int, int, int, int], transposed: str, num_warps: int, target: str, steps: int = 2
) -> None:
    torch.manual_seed(0)
    B, M, N, K = shape
    kind, kept = SUMS.get(dtype, (tl.float32, f32))
    is_left, is_right = "a" in transposed, "b" in transposed
    a = _operands((steps * B, *((K, M) if is_left else (M, K))), dtype)
    b = _operands((steps * B, *((N, K) if is_right else (K, N))), dtype)
    c, s = torch.zeros(B, M, N, dtype=kept), torch.zeros(B, M, dtype=kept)
    code = launch(
        products, (1, 1, 1), a, b, c, s, steps, B=B, M=M, N=N, K=K, LEFT=is_left, RIGHT=is_right, SUM=kind,
        num_warps=num_warps, target=target,
    )  # fmt: skip
    assert NAMES[dtype] in code
    x, y = a.double(), b.double()
    x, y = x.mT if is_left else x, y.mT if is_right else y
    expected = (x @ y).view(steps, B, M, N).sum(0)
    if dtype is s8:
        assert torch.equal(c.double(), expected)
    eps = 1e-14 if dtype is f64 else 1e-6
    bound = eps * K * steps * (x.abs() @ y.abs()).view(steps, B, M, N).sum(0)
    assert ((c.double() - expected).abs() <= bound).all()
    assert ((s.double() - expected.sum(2)).abs() <= 2 * bound.sum(2)).all()


SHAPES = [((4, 16, 16, 32), 1), ((2, 32, 64, 32), 4), ((8, 16, 32, 32), 8)]


# One warp has several matrices, several warps share one, or each has one.
@pytest.mark.parametrize("order, target", [(False, "sm_80"), (True, "sm_90a")], indirect=["order"])
@pytest.mark.parametrize("shape, num_warps", SHAPES, ids=str)
@pytest.mark.parametrize("dtype, transposed", [(f16, ""), (bf16, "ab"), (f32, "a"), (s8, ""), (f64, "b"), (s8, "b")])
def test_batches(
    order: None,  # noqa: F811
    target: str,
    shape: tuple[int, int, int, int],
    num_warps: int,
    dtype: torch.dtype,
    transposed: str,
) -> None:
    check(dtype, shape, transposed, num_warps, target)


def test_a_batch_of_rows_that_four_warps_could_share() -> None:
    check(bf16, (2, 64, 64, 32), "", 4, "sm_90a")


@jit
def turned(a_ptr, b_ptr, c_ptr, B: tl.constexpr):
    """Operands whose axes are permuted otherwise than matrix by matrix."""
    i = tl.arange(0, B)
    at = (i[:, None, None] * B + i[None, :, None]) * B + i[None, None, :]
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    tl.store(c_ptr + at, tl.dot(tl.permute(a, (1, 0, 2)), tl.permute(b, (2, 0, 1))))


@pytest.mark.parametrize("num_warps", [4, 8])
def test_other_permutations(num_warps: int) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(16, 16, 16).half(), torch.randn(16, 16, 16).half(), torch.zeros(16, 16, 16)
    code = launch(turned, (1, 1, 1), a, b, c, B=16, num_warps=num_warps, target="sm_90")
    expected = a.double().permute(1, 0, 2) @ b.double().permute(2, 0, 1)
    torch.testing.assert_close(c.double(), expected, rtol=1e-4, atol=1e-4)
    assert "mma.m16n8k16" in code
