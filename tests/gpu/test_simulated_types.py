"""Products of 8-bit floats and of float64 by matrix instructions of a GPU, simulated."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile.language as tl
from tests.gpu.test_simulated_precisions import multiply
from tests.gpu.test_simulated_products import check_product, launch, order, pytestmark, random  # noqa: F401
from torch_tile import jit

e4m3, e5m2, f64 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float64
NAMES = {e4m3: "e4m3", e5m2: "e5m2"}
ORDERS = [(False, False), (True, False), (False, True), (True, True)]


def name_of(value: Any) -> str:
    return NAMES.get(value, str(value))


# Before compute capability 8.9, and of too few numbers of the depth, they are multiplied as float16.
@pytest.mark.parametrize("order, target", [(False, "sm_80"), (True, "sm_89"), (False, "sm_90a")], indirect=["order"])
@pytest.mark.parametrize("dtype", [e4m3, e5m2], ids=name_of)
@pytest.mark.parametrize("blocks", [(32, 16, 32, 1), (64, 64, 64, 4), (32, 32, 16, 2)], ids=str)
@pytest.mark.parametrize("transposed", ORDERS, ids=["ab", "at b", "a bt", "at bt"])
def test_floats_of_8_bits(
    order: None,  # noqa: F811
    dtype: torch.dtype,
    target: str,
    transposed: tuple[bool, bool],
    blocks: tuple[int, int, int, int],
) -> None:
    code = check_product(dtype, (64, 96, 80), transposed, blocks, target=target)
    name = NAMES[dtype]
    if target == "sm_80" or blocks[2] < 32:
        assert "mma.m16n8k16.row.col.f32.f32" in code or "f32.f16.f16" in code
    elif target == "sm_90a" and blocks[0] >= 64 and transposed == (False, True):  # both lie along the depth
        assert f"wgmma.mma_async.sync.aligned.m64n64k32.f32.{name}.{name}" in code
    else:
        assert f"mma.sync.aligned.m16n8k32.row.col.f32.{name}.{name}.f32" in code


@jit
def product_of_rows(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, MOST: tl.constexpr = None
):  # fmt: skip
    """Both operands lie along the depth."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + n[:, None] * K + k[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b.T, max_num_imprecise_acc=MOST))


@pytest.mark.parametrize("dtype", [e4m3, e5m2], ids=name_of)
@pytest.mark.parametrize(
    "target, most, instruction",
    [
        ("sm_90a", None, "wgmma.mma_async.sync.aligned.m64n32k32.f32.{0}.{0}"),
        ("sm_89", None, "mma.sync.aligned.m16n8k32.row.col.f32.{0}.{0}.f32"),
        ("sm_80", None, "mma.m16n8k16.row.col.f32.f32"),
        ("sm_90a", 0, "f32.f16.f16"),
    ],
)
def test_floats_of_8_bits_along_the_depth(dtype: torch.dtype, target: str, most: int | None, instruction: str) -> None:
    M, N, K = 64, 32, 64
    a, b, c = random((M, K), dtype), random((N, K), dtype), torch.zeros(M, N)
    code = launch(product_of_rows, (1, 1, 1), a, b, c, M=M, N=N, K=K, MOST=most, num_warps=4, target=target)
    torch.testing.assert_close(c.double(), a.double() @ b.double().t(), rtol=1e-5, atol=1e-4)
    assert instruction.format(NAMES[dtype]) in code


@jit
def product_of_two_types(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def test_two_types_of_8_bits() -> None:
    a, b, c = random((32, 32), e4m3), random((32, 32), e5m2), torch.zeros(32, 32)
    code = launch(product_of_two_types, (1, 1, 1), a, b, c, N=32, target="sm_90")
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-4)
    assert "mma.m16n8k16.row.col.f32.f32" in code


@pytest.mark.parametrize("order, target", [(False, "sm_80"), (True, "sm_90a")], indirect=["order"])
@pytest.mark.parametrize("blocks", [(16, 16, 4, 1), (32, 32, 16, 4), (64, 32, 32, 4)], ids=str)
@pytest.mark.parametrize("transposed", ORDERS, ids=["ab", "at b", "a bt", "at bt"])
def test_float64(
    order: None,  # noqa: F811
    target: str,
    transposed: tuple[bool, bool],
    blocks: tuple[int, int, int, int],
) -> None:
    torch.manual_seed(0)
    a = torch.randn(52, 48, dtype=f64).t() if transposed[0] else torch.randn(48, 52, dtype=f64)
    b = torch.randn(64, 52, dtype=f64).t() if transposed[1] else torch.randn(52, 64, dtype=f64)
    found, code = multiply(a, b, blocks, None, target, tl.float64)
    assert ((found - a @ b).abs() <= 52 * torch.finfo(f64).eps * (a.abs() @ b.abs())).all()
    assert "nvvm.mma.m8n8k4.row.col.f64" in code


@jit
def moved(x_ptr, o_ptr, p_ptr, q_ptr, N: tl.constexpr):
    """Lanes of 8-bit floats that move: transposed, chosen, joined and split."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x = tl.load(x_ptr + at)
    tl.store(o_ptr + at, x.T.to(tl.float16))
    tl.store(p_ptr + at, tl.where(i[:, None] < i[None, :], x, x.T))
    even, odd = tl.split(tl.reshape(x, (N, N // 2, 2)))
    tl.store(q_ptr + at, tl.reshape(tl.join(odd, even), (N, N)))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", [e4m3, e5m2], ids=name_of)
def test_moved_floats_of_8_bits(dtype: torch.dtype, target: str) -> None:
    x, o = random((32, 32), dtype), torch.zeros(32, 32, dtype=torch.float16)
    p, q = torch.zeros_like(x), torch.zeros_like(x)
    launch(moved, (1, 1, 1), x, o, p, q, N=32, target=target)
    assert torch.equal(o, x.t().half())
    i, wide = torch.arange(32), x.float()
    assert torch.equal(p.float(), torch.where(i[:, None] < i[None, :], wide, wide.t()))
    assert torch.equal(q.float(), wide.view(32, 16, 2).flip(2).reshape(32, 32))


@jit
def scaled(
    a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PACKED: tl.constexpr,
    GROUP: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
):  # fmt: skip
    """PACKED: how many numbers of the left operand a byte holds. GROUP: how many share a scale."""
    m, n, k, group = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // GROUP)
    a = tl.load(a_ptr + m[:, None] * (K // PACKED) + tl.arange(0, K // PACKED)[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    sa = tl.load(sa_ptr + m[:, None] * (K // GROUP) + group[None, :])
    sb = None if sb_ptr is None else tl.load(sb_ptr + n[:, None] * (K // GROUP) + group[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot_scaled(a, sa, LEFT, b, sb, RIGHT))


def _scale_values(scale: torch.Tensor, group: int) -> torch.Tensor:
    factors = scale.double() if scale.is_floating_point() else torch.exp2(scale.double() - 127)
    return factors.repeat_interleave(group, 1)


SCALED = [
    ("e4m3", "e4m3", torch.uint8, "mma.m16n8k16.row.col.bf16"),
    ("e5m2", "bf16", torch.uint8, "mma.m16n8k16.row.col.bf16"),
    ("e2m1", "e5m2", torch.uint8, "mma.m16n8k16.row.col.bf16"),
    ("e2m1", "e4m3", e4m3, "mma.m16n8k16.row.col.bf16"),
    ("e4m3", "fp16", torch.uint8, "mma.m16n8k8.row.col.tf32"),
    ("e4m3", "bf16", e4m3, "mma.m16n8k8.row.col.tf32"),
]


@pytest.mark.parametrize("left, right, scales, instruction", SCALED, ids=str)
def test_dot_scaled(left: str, right: str, scales: torch.dtype, instruction: str) -> None:
    """Decoded operands are not rounded: results are those of float64 but for sums."""
    torch.manual_seed(0)
    M, N, K, group = 32, 32, 64, 32
    dtypes = {"e4m3": e4m3, "e5m2": e5m2, "bf16": torch.bfloat16, "fp16": torch.float16}
    if left == "e2m1":
        codes = torch.randint(0, 16, (M, K))
        numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=f64)
        x = numbers[codes & 7] * torch.where(codes >= 8, -1.0, 1.0)
        a = (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8)
    else:
        a = random((M, K), dtypes[left])
        x = a.double()
    b = random((K, N), dtypes[right])
    sa, sb = (
        torch.rand(size, K // group).add(0.5).to(scales)
        if scales is e4m3
        else torch.randint(120, 134, (size, K // group)).to(scales)
        for size in (M, N)
    )
    c = torch.zeros(M, N)
    code = launch(
        scaled, (1, 1, 1), a, sa, b, sb, c, M=M, N=N, K=K, PACKED=2 if left == "e2m1" else 1, GROUP=group,
        LEFT=left, RIGHT=right, target="sm_90",
    )  # fmt: skip
    x, y = x * _scale_values(sa, group), b.double() * _scale_values(sb, group).t()
    assert instruction in code
    assert ((c.double() - x @ y).abs() <= torch.finfo(torch.float32).eps * K * (x.abs() @ y.abs())).all()
