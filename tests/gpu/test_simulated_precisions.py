"""Products of float32 by matrix instructions of a GPU, simulated: operands are rounded, or sums of rounded terms."""

from __future__ import annotations

import re

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.gpu.test_simulated_products import launch, order, product, pytestmark  # noqa: F401

f32 = torch.float32
INSTRUCTION = {"tf32": "m16n8k8.row.col.tf32", "bf16": "m16n8k16.row.col.bf16"}
# By name: products of terms, and what is lost of each of two numbers: halves of the last bits of the terms, and the
# products that are left out.
PRECISIONS = {"tf32x3": (3, 3 * 2.0**-22), "bf16x3": (3, 3 * 2.0**-18), "bf16x6": (6, 4 * 2.0**-27)}


def to_tf32(x: torch.Tensor) -> torch.Tensor:
    """To 10 bits of the mantissa, half away from zero."""
    return ((x.view(torch.int32) + 0x1000) & -8192).view(f32)


def multiply(
    a: torch.Tensor,
    b: torch.Tensor,
    blocks: tuple[int, int, int, int],
    precision: str | None,
    target: str = "sm_90",
    sums: tl.dtype = tl.float32,
) -> tuple[torch.Tensor, str]:
    (M, K), N = a.shape, b.shape[1]
    BM, BN, BK, num_warps = blocks
    c = torch.full((M, N), 7, dtype=torch.float64 if sums == tl.float64 else f32)
    grid = (torch_tile.cdiv(M, BM), torch_tile.cdiv(N, BN), 1)
    code = launch(
        product, grid, a, b, c, M, N, K, *a.stride(), *b.stride(), BM=BM, BN=BN, BK=BK, num_warps=num_warps,
        PRECISION=precision, SUM=sums, target=target,
    )  # fmt: skip
    return c, code


def operands(shape: tuple[int, int, int], transposed: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    M, N, K = shape
    a = torch.randn(K, M).t() if "a" in transposed else torch.randn(M, K)
    b = torch.randn(N, K).t() if "b" in transposed else torch.randn(K, N)
    return a, b


def magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double().abs() @ b.double().abs()


BLOCKS = [(16, 16, 8, 1), (32, 32, 32, 4), (64, 64, 16, 4), (16, 64, 64, 4), (128, 32, 32, 8), (64, 16, 32, 2)]


# "tf32" is the default.
@pytest.mark.parametrize("order, target, precision", [(0, "sm_80", None), (1, "sm_90a", "tf32")], indirect=["order"])
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_tf32(
    order: None,  # noqa: F811
    target: str,
    precision: str | None,
    blocks: tuple[int, int, int, int],
    transposed: str,
) -> None:
    a, b = operands((64, 96, 80), transposed)
    found, code = multiply(a, b, blocks, precision, target)
    expected = to_tf32(a.contiguous()).double() @ to_tf32(b.contiguous()).double()
    assert ((found.double() - expected).abs() <= torch.finfo(f32).eps * 80 * magnitude(a, b)).all()
    assert INSTRUCTION["tf32"] in code


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("blocks, transposed", [((16, 32, 16, 1), ""), ((32, 64, 32, 4), "ab")], ids=str)
def test_sums_of_terms(precision: str, blocks: tuple[int, int, int, int], transposed: str) -> None:
    a, b = operands((48, 64, 96), transposed)
    found, code = multiply(a, b, blocks, precision)
    count, loss = PRECISIONS[precision]
    error = (found.double() - a.double() @ b.double()).abs()
    assert (error <= (loss + count * torch.finfo(f32).eps * 12) * magnitude(a, b)).all()
    BM, BN, BK, num_warps = blocks
    depth = 16 if "bf16" in precision else 8
    calls = len(re.findall(r"= call .*@llvm\.nvvm\.mma\." + re.escape(INSTRUCTION[precision.split("x")[0]]), code))
    assert calls == count * BM * BN * BK // (16 * 8 * depth * num_warps)


def test_ieee() -> None:
    a, b = operands((64, 64, 64), "")
    found, code = multiply(a, b, (32, 32, 32, 4), "ieee")
    assert "nvvm.mma" not in code
    torch.testing.assert_close(found, a @ b, rtol=1e-5, atol=1e-5)


def test_bf16_terms_need_depth() -> None:
    """Of 8 numbers of the depth there is no instruction for terms of 16 bits: they are multiplied in full precision."""
    a, b = operands((16, 16, 8), "")
    found, code = multiply(a, b, (16, 16, 8, 1), "bf16x6")
    assert "nvvm.mma" not in code
    torch.testing.assert_close(found, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["tf32", *PRECISIONS])
def test_special_numbers(precision: str) -> None:
    """Infinities, NaN, and numbers that rounding makes infinite, give what products of float32 give."""
    a, b = torch.ones(16, 16), torch.full((16, 16), 0.25)
    a[0, 3], a[1, 5], a[2, 7], a[3, 0] = float("inf"), float("-inf"), float("nan"), 1e-40
    b[9, 4], b[3, 6] = float("inf"), -2.5000002
    if precision != "tf32":
        a[4, 1] = torch.finfo(f32).max
    b[:, 8] = 0.0
    found, code = multiply(a, b, (16, 16, 16, 1), precision)
    torch.testing.assert_close(found, a @ b, rtol=2e-3, atol=1e-3, equal_nan=True)
    assert "nvvm.mma" in code
