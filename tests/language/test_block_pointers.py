"""tl.make_block_ptr, tl.advance, and loads and stores with checks of boundaries, as Triton has them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

Launch = Callable[[Any], Any]


@torch_tile.jit
def copy_block(
    x_ptr, o_ptr, M, N, sm, sn, m, n, BM: tl.constexpr, BN: tl.constexpr, CHECK: tl.constexpr, PADDING: tl.constexpr
):
    x = tl.make_block_ptr(x_ptr, (M, N), (sm, sn), (m, n), (BM, BN), (1, 0))
    o = tl.make_block_ptr(o_ptr, (BM, BN), (BN, 1), (0, 0), (BM, BN), (1, 0))
    tl.store(o, tl.load(x, boundary_check=CHECK, padding_option=PADDING))


@pytest.mark.parametrize("padding", ["", "zero", "nan"])
@pytest.mark.parametrize("start", [(0, 0), (3, 2), (-2, 1), (6, 9), (20, 20)], ids=str)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_load_outside(launch: Launch, is_transposed: bool, start: tuple[int, int], padding: str) -> None:
    M, N = 7, 11
    x = torch.randn(N, M).t() if is_transposed else torch.randn(M, N)
    o = torch.full((8, 16), 5.0)
    launch(copy_block)[(1,)](x, o, M, N, *x.stride(), *start, BM=8, BN=16, CHECK=(0, 1), PADDING=padding)
    expected = torch.full((8, 16), float("nan") if padding == "nan" else 0.0)
    for i in range(8):
        for j in range(16):
            row, column = start[0] + i, start[1] + j
            if 0 <= row < M and 0 <= column < N:
                expected[i, j] = x[row, column]
    assert torch.equal(o.nan_to_num(7), expected.nan_to_num(7))


@pytest.mark.parametrize("check, shape", [((0,), (5, 16)), ((1,), (8, 9)), ((), (8, 16)), (0, (5, 16))], ids=str)
def test_checks_of_some_axes(launch: Launch, check: Any, shape: tuple[int, int]) -> None:
    x, o = torch.randn(shape), torch.full((8, 16), 5.0)
    launch(copy_block)[(1,)](x, o, *shape, *x.stride(), 0, 0, BM=8, BN=16, CHECK=check, PADDING="zero")
    expected = torch.zeros(8, 16)
    expected[: shape[0], : shape[1]] = x
    assert torch.equal(o, expected)


@torch_tile.jit
def store_block(o_ptr, value, M, N, m, n, BM: tl.constexpr, BN: tl.constexpr):
    o = tl.make_block_ptr(o_ptr, (M, N), (N, 1), (m, n), (BM, BN), order=(1, 0))
    tl.store(o, value.to(tl.float32), boundary_check=(0, 1))


@pytest.mark.parametrize("start", [(0, 0), (-3, 4), (5, 5), (9, 0)], ids=str)
def test_store_outside(launch: Launch, start: tuple[int, int]) -> None:
    M, N = 9, 10
    memory = torch.zeros(M * N + 40)
    launch(store_block)[(1,)](memory[20 : 20 + M * N], 2.5, M, N, *start, BM=8, BN=8)
    expected = torch.zeros(M + 16, N + 16)
    expected[8 + start[0] : 16 + start[0], 8 + start[1] : 16 + start[1]] = 2.5
    assert torch.equal(memory[20 : 20 + M * N].view(M, N), expected[8 : 8 + M, 8 : 8 + N])
    assert not memory[:20].any() and not memory[20 + M * N :].any()


@torch_tile.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_block_ptr(a_ptr, shape=(M, K), strides=(K, 1), offsets=(row, 0), block_shape=(BM, BK), order=(1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (1, K), (0, column), (BK, BN), (0, 1))  # lies transposed
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a, boundary_check=(0, 1)), tl.load(b, boundary_check=(0, 1)), acc)
        a = tl.advance(a, (0, BK))
        b = b.advance((BK, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (row, column), (BM, BN), (1, 0))
    if M > 0:
        c = tl.advance(c, [0, 0])
    tl.store(c, acc, boundary_check=(0, 1))


def test_product_of_blocks(launch: Launch) -> None:
    M, N, K = 37, 29, 50
    a, b, c = torch.randn(M, K), torch.randn(N, K), torch.full((M, N), 7.0)
    launch(product)[(torch_tile.cdiv(M, 16), torch_tile.cdiv(N, 16))](a, b, c, M, N, K, BM=16, BN=16, BK=16)
    torch.testing.assert_close(c, a @ b.t(), rtol=1e-4, atol=1e-4)


@torch_tile.jit
def of_other_ranks(x_ptr, o_ptr, n, B: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    v = tl.load(x, boundary_check=(0,), padding_option="zero")
    o = tl.make_block_ptr(o_ptr, (2, 3, n), (3 * n, n, 1), (0, 1, tl.program_id(0) * B), (2, 1, B), (2, 1, 0))
    tl.store(o, tl.broadcast_to(v[None, None, :], (2, 1, B)), boundary_check=(2,))


def test_one_and_three_axes(launch: Launch) -> None:
    x, o = torch.randint(-100, 100, (21,)), torch.zeros(2, 3, 21, dtype=torch.int64)
    launch(of_other_ranks)[(3,)](x, o, 21, B=8)
    assert torch.equal(o[:, 1], x.expand(2, -1)) and not o[:, 0].any() and not o[:, 2].any()


# --- what check="uninitialized" takes as defined ----------------------------------------------------------------------


@torch_tile.jit
def sum_of_block(x_ptr, o_ptr, n, PADDING: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (16,), (0,))
    tl.store(o_ptr, tl.sum(tl.load(p, boundary_check=(0,), padding_option=PADDING).to(tl.float32)))


@torch_tile.jit
def sum_of_described(x_ptr, o_ptr, n, PADDING: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [n], [1], [16], padding_option=PADDING)
    tl.store(o_ptr, tl.sum(d.load([0]).to(tl.float32)) + tl.sum(tl.load_tensor_descriptor(d, [8]).to(tl.float32)))


@torch_tile.jit
def sum_of_rows(x_ptr, o_ptr, n, PADDING: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [n, 1], [1, 1], [1, 1], padding_option=PADDING)
    tl.store(o_ptr, tl.sum(d.gather(tl.arange(0, 16), 0).to(tl.float32)))


@pytest.mark.parametrize("padding", ["zero", "nan", ""])
@pytest.mark.parametrize("kernel", [sum_of_block, sum_of_described, sum_of_rows])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int8, torch.bool])
def test_elements_outside_are_defined(kernel: Any, padding: str, dtype: torch.dtype) -> None:
    """Without a padding option, a descriptor reads 0 outside and a block pointer anything."""
    if padding == "nan" and not dtype.is_floating_point:
        return
    x, o = torch.ones(10).to(dtype), torch.zeros(1)
    run = kernel.interpret(check=True)[(1,)]
    if kernel is sum_of_block and padding == "":
        with pytest.raises(torch_tile.RaceError, match=r"on elements that a masked tl\.load did not read"):
            run(x, o, 10, PADDING=padding)
    else:
        run(x, o, 10, PADDING=padding)
        assert o.isnan() if padding == "nan" else o == (12 if kernel is sum_of_described else 10)


@torch_tile.jit
def copy_pointers(x_ptr, o_ptr, n):
    d = tl.make_tensor_descriptor(x_ptr.to(tl.pointer_type(tl.pointer_type(tl.float32))), [n], [1], [4])
    tl.store(o_ptr + tl.arange(0, 4), d.load([0]).to(tl.int64))


def test_pointers_outside_are_null(launch: Launch) -> None:
    x, o = torch.arange(1, 4), torch.ones(4, dtype=torch.int64)
    launch(copy_pointers)[(1,)](x, o, 3)
    assert o.tolist() == [1, 2, 3, 0]
    copy_pointers.interpret(check=True)[(1,)](x, o, 3)


def test_descriptors_of_the_host_are_defined_outside() -> None:
    @torch_tile.jit
    def total(d, o_ptr):
        tl.store(o_ptr, tl.sum(d.load([0])))

    x, o = torch.ones(10), torch.zeros(1)
    total.interpret(check=True)[(1,)](SimpleNamespace(base=x, shape=[10], strides=[1], block_shape=[16]), o)
    assert o == 10
