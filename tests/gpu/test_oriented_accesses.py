"""Tiles of pointers whose consecutive elements lie along the first axis: values by the simulator, and whole words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.gpu import simulator
from tests.gpu.test_simulated_products import launch as simulate
from tests.language.conftest import has_compiler

pytestmark = pytest.mark.skipif(
    not Path(simulator.CLANG).exists() or not has_compiler(), reason="needs a compiler and LLVM's clang"
)


@torch_tile.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn, B: tl.constexpr, BK: tl.constexpr):
    """Pointers and a mask are carried by the loop."""
    rows = tl.program_id(0) * B + tl.arange(0, B)
    cols = tl.program_id(1) * B + tl.arange(0, B)
    depth = tl.arange(0, BK)
    a_at = a_ptr + (rows % M)[:, None] * sam + depth[None, :] * sak
    b_at = b_ptr + depth[:, None] * sbk + (cols % N)[None, :] * sbn
    left = K - depth
    acc = tl.zeros((B, B), tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_at, mask=left[None, :] > 0, other=0.0)
        b = tl.load(b_at, mask=left[:, None] > 0, other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BK * sak
        b_at += BK * sbk
        left -= BK
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * scm + cols[None, :] * scn, acc, mask=inside)


@torch_tile.jit
def unmasked(a_ptr, b_ptr, c_ptr, K, sam, sak, sbk, sbn, B: tl.constexpr, BK: tl.constexpr):
    i, depth = tl.arange(0, B), tl.arange(0, BK)
    a_at = a_ptr + i[:, None] * sam + depth[None, :] * sak
    b_at = b_ptr + depth[:, None] * sbk + i[None, :] * sbn
    acc = tl.zeros((B, B), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc)
        a_at += BK * sak
        b_at += BK * sbk
    tl.store(c_ptr + i[:, None] * B + i[None, :], acc)


@torch_tile.jit
def in_nested_loops(x_ptr, y_ptr, o_ptr, groups, steps, R: tl.constexpr, C: tl.constexpr):
    """Two loads share pointers that two loops carry; the mask of one is carried, too."""
    r, c = tl.arange(0, R), tl.arange(0, C)
    x_at = x_ptr + r[:, None] + c[None, :] * R
    y_at = y_ptr + r[:, None] + c[None, :] * R
    keep = r[:, None] + c[None, :] > 3
    total = tl.zeros((R, C), tl.float32)
    for group in range(groups):
        for _ in range(steps):
            total += tl.load(x_at, mask=keep, other=group) * tl.load(y_at)
            x_at += R * C
            y_at += R * C
            keep = keep & (total < 4.0)
        y_at -= R * C * steps
    tl.store(o_ptr + r[:, None] + c[None, :] * R, total, mask=r[:, None] > 0)
    tl.store(o_ptr + R * C + c, tl.sum(total, 0))


@torch_tile.jit
def of_bytes(w_ptr, x_ptr, o_ptr, B: tl.constexpr):
    """Converted before the product."""
    i = tl.arange(0, B)
    w = tl.load(w_ptr + i[:, None] + i[None, :] * B).to(tl.bfloat16)
    x = tl.load(x_ptr + i[:, None] * B + i[None, :])
    tl.store(o_ptr + i[:, None] * B + i[None, :], tl.dot(x, w))


def matrix(rows: int, columns: int, is_transposed: bool, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    numbers = torch.randint(-3, 4, (columns, rows) if is_transposed else (rows, columns)).to(dtype)
    return numbers.t() if is_transposed else numbers


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("orders", ["NNN", "NTN", "TNN", "TTN", "NTT", "TNT"])
def test_products(orders: str, target: str) -> None:
    M, N, K, B, BK = 80, 72, 104, 64, 32
    a, b = matrix(M, K, orders[0] == "T"), matrix(K, N, orders[1] == "T")
    c = torch.zeros(N, M).t() if orders[2] == "T" else torch.zeros(M, N)
    strides = [*a.stride(), *b.stride(), *c.stride()]
    options = {"num_warps": 4, "num_stages": 3, "target": target}
    simulate(product, (2, 2, 1), a, b, c, M, N, K, *strides, B=B, BK=BK, **options)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=0, atol=0)


def test_loads_are_as_wide_in_all_orders() -> None:
    counts = set()
    for orders in ("NN", "NT", "TN", "TT"):
        a, b, c = matrix(128, 256, orders[0] == "T"), matrix(256, 128, orders[1] == "T"), torch.zeros(128, 128)
        options = {"num_warps": 4, "num_stages": 3, "target": "sm_90a"}
        strides = [*a.stride(), *b.stride(), *c.stride()]
        ptx = unmasked.warmup(a, b, c, 256, *strides[:4], B=64, BK=64, **options).asm["ptx"]
        assert "ld.global" not in ptx
        counts.add(ptx.count("cp.async.c"))
    assert len(counts) == 1 and 0 not in counts


def test_nested_loops() -> None:
    R, C, groups, steps = 16, 32, 2, 3
    x, y = torch.randn(groups * steps, C, R), torch.randn(steps, C, R)
    o = torch.zeros(R * C + C)
    simulate(in_nested_loops, (1, 1, 1), x, y, o, groups, steps, R=R, C=C, num_warps=1, target="sm_90a")
    keep, total = torch.arange(R)[:, None] + torch.arange(C)[None, :] > 3, torch.zeros(R, C)
    for k in range(groups * steps):
        total += torch.where(keep, x[k].t(), torch.tensor(float(k // steps))) * y[k % steps].t()
        keep = keep & (total < 4.0)
    stored = total.clone()
    stored[0] = 0
    torch.testing.assert_close(o[: R * C].view(C, R).t(), stored)
    torch.testing.assert_close(o[R * C :], total.sum(0))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_converted_operands(target: str) -> None:
    w, x, o = torch.randint(-9, 9, (64, 64), dtype=torch.int8), matrix(64, 64, False), torch.zeros(64, 64)
    simulate(of_bytes, (1, 1, 1), w, x, o, B=64, num_warps=4, target=target)
    torch.testing.assert_close(o, x.float() @ w.t().float(), rtol=0, atol=0)
