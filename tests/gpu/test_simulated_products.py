"""Kernels with tl.dot for a GPU, run on the CPU (tests/gpu/simulator.py): products by matrix instructions of many
shapes, transposes and types, and attention."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.gpu import simulator
from tests.language.conftest import has_compiler

pytestmark = pytest.mark.skipif(
    not Path(simulator.CLANG).exists() or not has_compiler(), reason="needs a compiler and LLVM's clang"
)
# Instructions of a warp, or of four.
MATRIX = r"llvm\.nvvm\.mma\.|wgmma\.mma_async"
f16, bf16, s8 = torch.float16, torch.bfloat16, torch.int8


@pytest.fixture(params=[False, True], ids=["in order", "reversed"])
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads run one after the other between barriers; a barrier that is missing shows in one of the two orders."""
    if request.param:
        monkeypatch.setenv("TORCH_TILE_SIMULATE_REVERSED", "1")


def launch(kernel: Any, grid: tuple[int, int, int], *arguments: Any, target: str = "sm_90", **constants: Any) -> str:
    """Runs a kernel as a GPU would. Returns its code."""
    compiled = kernel.warmup(*arguments, target=target, **constants)
    ir = compiled.asm["llir"]
    simulated = simulator.SimulatedKernel(ir, compiled.asm["tile"])
    assert compiled.n_regs is None or compiled.n_regs > 0  # what there is of assemblers takes the code
    simulated.run(*grid, [a for a in arguments if not isinstance(a, (str, type(None)))][: len(simulated.types)])
    return str(ir)


@torch_tile.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, sa, ka, kb, nb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr = None, SUM: tl.constexpr = tl.float32, MOST: tl.constexpr = None,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a = a_ptr + (rows[:, None] % M) * sa + depth[None, :] * ka
    b = b_ptr + depth[:, None] * kb + (columns[None, :] % N) * nb
    acc = tl.zeros((BM, BN), dtype=SUM)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(a, mask=depth[None, :] < K - k * BK, other=0)
        y = tl.load(b, mask=depth[:, None] < K - k * BK, other=0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION, max_num_imprecise_acc=MOST)
        a += BK * ka
        b += BK * kb
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=inside)


def random(shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    if dtype is s8:
        return torch.randint(-128, 128, shape).to(s8)
    return torch.randn(shape).to(dtype)


def check_product(
    dtype: torch.dtype,
    shape: tuple[int, int, int],
    transposed: tuple[bool, bool],
    blocks: tuple[int, int, int, int],
    **options: Any,
) -> str:
    torch.manual_seed(0)
    (M, N, K), (BM, BN, BK, num_warps) = shape, blocks
    a = random((K, M), dtype).t() if transposed[0] else random((M, K), dtype)
    b = random((N, K), dtype).t() if transposed[1] else random((K, N), dtype)
    c = torch.full((M, N), 7, dtype=torch.int32 if dtype is s8 else torch.float32)
    grid = (torch_tile.cdiv(M, BM), torch_tile.cdiv(N, BN), 1)
    code = launch(
        product, grid, a, b, c, M, N, K, *a.stride(), *b.stride(), BM=BM, BN=BN, BK=BK, num_warps=num_warps,
        SUM=tl.int32 if dtype is s8 else tl.float32, **options,
    )  # fmt: skip
    expected = a.double() @ b.double()
    bound = torch.finfo(torch.float32).eps * K * (a.double().abs() @ b.double().abs())
    assert ((c.double() - expected).abs() <= (0 if dtype is s8 else bound)).all()
    return code


BLOCKS = [(16, 16, 16, 1), (32, 32, 64, 4), (64, 128, 32, 4), (16, 64, 32, 4), (128, 32, 64, 8), (64, 16, 128, 2)]


# Each type in one of the two orders, and for one architecture.
@pytest.mark.parametrize(
    "order, dtype, target", [(False, f16, "sm_80"), (True, bf16, "sm_90")], indirect=["order"], ids=str
)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)], ids=["ab", "at b", "a bt"])
def test_products(
    order: None, dtype: torch.dtype, target: str, transposed: tuple[bool, bool], blocks: tuple[int, int, int, int]
) -> None:
    code = check_product(dtype, (64, 96, 112), transposed, blocks, target=target)
    assert re.search(MATRIX if target == "sm_90" else r"llvm\.nvvm\.ldmatrix[^$]*llvm\.nvvm\.mma\.m16n8k16", code)


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("blocks", [(64, 128, 32, 4), (128, 64, 64, 8), (32, 32, 32, 2)], ids=str)
def test_many_iterations(blocks: tuple[int, int, int, int]) -> None:
    """Memory that loads of an iteration fill, others have read before."""
    check_product(bf16, (128, 128, 512), (False, False), blocks)


@pytest.mark.parametrize("shape", [(33, 17, 100), (65, 129, 31), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("blocks", [(32, 32, 64, 4), (64, 64, 32, 8)], ids=str)
def test_odd_sizes(shape: tuple[int, int, int], blocks: tuple[int, int, int, int]) -> None:
    check_product(bf16, shape, (False, False), blocks)


@pytest.mark.parametrize("order, target", [(False, "sm_80"), (True, "sm_90a")], indirect=["order"])
@pytest.mark.parametrize(
    "transposed", [(False, False), (True, False), (False, True), (True, True)], ids=["ab", "at b", "a bt", "at bt"]
)
@pytest.mark.parametrize("blocks", [(16, 16, 32, 1), (32, 64, 64, 4), (128, 32, 64, 8)], ids=str)
def test_products_of_bytes(
    order: None, target: str, transposed: tuple[bool, bool], blocks: tuple[int, int, int, int]
) -> None:
    assert re.search(MATRIX, check_product(s8, (64, 96, 80), transposed, blocks, target=target))


@torch_tile.jit
def product_of_bytes(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + n[:, None] * K + k[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b.T))


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("shape", [(16, 16, 32), (64, 32, 64), (32, 128, 128)], ids=str)
def test_matrix_instructions_of_bytes(shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b, c = random((M, K), s8), random((N, K), s8), torch.zeros(M, N, dtype=torch.int32)
    code = launch(product_of_bytes, (1, 1, 1), a, b, c, M=M, N=N, K=K)
    assert torch.equal(c, a.int() @ b.int().t()) and re.search(MATRIX, code)


@torch_tile.jit
def chain(a_ptr, b_ptr, c_ptr, o_ptr, s_ptr, N: tl.constexpr):
    """Two products, where the first one's result is an operand of the second; sums of rows; and a result that is
    transposed."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a, b, c = tl.load(a_ptr + at), tl.load(b_ptr + at), tl.load(c_ptr + at)
    first = tl.dot(a, b)
    tl.store(s_ptr + i, tl.sum(first, 1))
    tl.store(o_ptr + at, tl.dot(first.to(a.dtype), c).T)


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_products_of_products(dtype: torch.dtype, num_warps: int) -> None:
    N = 64
    a, b, c = (random((N, N), dtype) for _ in range(3))
    o, s = torch.zeros(N, N), torch.zeros(N)
    launch(chain, (1, 1, 1), a, b, c, o, s, N=N, num_warps=num_warps)
    first = a.double() @ b.double()
    torch.testing.assert_close(s.double(), first.sum(1), rtol=1e-4, atol=1e-3)
    expected = (first.float().to(dtype).double() @ c.double()).t()
    torch.testing.assert_close(o.double(), expected, rtol=2e-2, atol=2.0 if dtype is bf16 else 0.3)


@torch_tile.jit
def reordered(a_ptr, b_ptr, c_ptr, steps, M: tl.constexpr, K: tl.constexpr, TWICE: tl.constexpr):
    """Operands whose axes are permuted back, or not at all."""
    m, k = tl.arange(0, M), tl.arange(0, K)
    acc = tl.zeros((M, M), tl.float32)
    for _ in range(steps):
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * M + m[None, :])
        if TWICE:
            acc += tl.dot(tl.trans(tl.trans(a)), tl.permute(tl.trans(tl.permute(b, (0, 1))), (1, 0)))
        else:
            acc += tl.dot(tl.permute(a, (0, 1)), tl.trans(b, 0, 1))
    tl.store(c_ptr + m[:, None] * M + m[None, :], acc)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("is_twice", [False, True])
@pytest.mark.parametrize("shape", [(64, 64), (32, 64)], ids=str)
def test_operands_in_their_own_order(target: str, is_twice: bool, shape: tuple[int, int]) -> None:
    M, K = shape
    a, b, c = random((M, K), f16), random((K, M), f16), torch.zeros(M, M)
    code = launch(reordered, (1, 1, 1), a, b, c, 3, M=M, K=K, TWICE=is_twice, num_warps=4, target=target)
    torch.testing.assert_close(c.double(), 3 * (a.double() @ b.double()), rtol=1e-4, atol=1e-3)
    assert re.search(MATRIX, code)


@torch_tile.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    base = tl.program_id(1) * N * D
    rows, inner, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    q = tl.load(q_ptr + base + rows[:, None] * D + inner[None, :], mask=rows[:, None] < N, other=0.0)
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BM, N) if CAUSAL else N
    for start in range(0, end, BN):
        at = base + (start + columns)[:, None] * D + inner[None, :]
        inside = (start + columns)[:, None] < N
        k, v = tl.load(k_ptr + at, mask=inside, other=0.0), tl.load(v_ptr + at, mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        seen = (start + columns)[None, :] < N
        if CAUSAL:
            seen = seen & (rows[:, None] >= (start + columns)[None, :])
        s = tl.where(seen, s, -float("inf"))
        next_most = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - next_most[:, None])
        alpha = tl.exp2(most - next_most)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        most = next_most
    out = o_ptr + base + rows[:, None] * D + inner[None, :]
    tl.store(out, (acc / total[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < N)


@pytest.mark.parametrize("order, is_causal", [(False, False), (True, True)], indirect=["order"], ids=str)
@pytest.mark.parametrize(
    "D, blocks, num_warps", [(16, (32, 16), 1), (64, (64, 32), 4), (64, (32, 64), 2), (128, (64, 64), 4)], ids=str
)
def test_attention(order: None, D: int, blocks: tuple[int, int], num_warps: int, is_causal: bool) -> None:
    torch.manual_seed(0)
    (BM, BN), N = blocks, 100
    q, k, v = (torch.randn(2, N, D).to(bf16) for _ in range(3))
    o = torch.zeros_like(q)
    grid = (torch_tile.cdiv(N, BM), 2, 1)
    scale = 1.4426950408889634 / D**0.5
    code = launch(attention, grid, q, k, v, o, scale, N, D=D, BM=BM, BN=BN, CAUSAL=is_causal, num_warps=num_warps)
    assert re.search(MATRIX, code)
    function = torch.nn.functional.scaled_dot_product_attention
    expected = function(q.double(), k.double(), v.double(), is_causal=is_causal)
    allowed = (function(q, k, v, is_causal=is_causal) - expected).abs().max()
    assert (o - expected).abs().max() <= 2 * allowed
