"""Kernels with tiles too long for registers, written by hand, run and give what torch gives."""

from __future__ import annotations

import pytest
import torch

from .kernel_runner import ROOT, TILE_COMPILE, Kernel

pytestmark = pytest.mark.skipif(not TILE_COMPILE.exists(), reason="tile-compile is not built")


def lit_text(name: str) -> str:
    return (ROOT / "tests" / "lit" / "tile" / name).read_text()


@pytest.mark.parametrize("target", ["host", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("n", [32768, 32767, 1000, 1])
def test_softmax_of_32768_lanes(target: str, n: int) -> None:
    kernel = Kernel(lit_text("softmax-block-32768.mlir"), target)
    x = torch.randn(3, n) * 5
    out = torch.full((3 * n + 1,), 7.0)
    assert kernel([x, out], [n], programs=3) == 0
    torch.testing.assert_close(out[:-1].view(3, n), torch.softmax(x.double(), 1).float(), rtol=2e-5, atol=1e-9)
    assert out[-1] == 7.0


def test_transpose_over_a_grid() -> None:
    first, second = lit_text("transpose.mlir").split("tile.kernel")[1:3]
    assert "@short" in second
    kernel = Kernel(f"tile.kernel{first}")
    x, out = torch.randn(48, 64), torch.empty(64, 48)
    assert kernel([x, out], [48, 64, 3, 4, 1], programs=12) == 0
    assert torch.equal(out, x.T)


@pytest.mark.parametrize("shift", [-65, -1, 0, 1, 64])
def test_shifted_store(shift: int) -> None:
    kernel = Kernel(
        """
tile.kernel @shift(%p: !tile.ptr<f32>, %from: i64, %to: i64) {
  %v = tile.load %p[%from] strides [1] : !tile.ptr<f32> -> tensor<4096xf32>
  %w = arith.negf %v : tensor<4096xf32>
  tile.store %w, %p[%to] strides [1] : tensor<4096xf32>, !tile.ptr<f32>
  tile.return
}"""
    )
    x = torch.randn(4300)
    expected = x.clone()
    expected[100 + shift : 4196 + shift] = -x[100:4196]
    assert kernel([x], [100, 100 + shift]) == 0
    assert torch.equal(x, expected)


def test_two_stores_and_a_load_between() -> None:
    """The second load sees the first store; the first load does not see the second."""
    kernel = Kernel(
        """
tile.kernel @swap(%p: !tile.ptr<i64>, %q: !tile.ptr<i64>) {
  %zero = arith.constant 0 : i64
  %a = tile.load %p[%zero] strides [1] : !tile.ptr<i64> -> tensor<1000xi64>
  %b = tile.load %q[%zero] strides [1] : !tile.ptr<i64> -> tensor<1000xi64>
  tile.store %b, %p[%zero] strides [1] : tensor<1000xi64>, !tile.ptr<i64>
  %c = tile.load %p[%zero] strides [1] : !tile.ptr<i64> -> tensor<1000xi64>
  %d = arith.addi %a, %c : tensor<1000xi64>
  tile.store %d, %q[%zero] strides [1] : tensor<1000xi64>, !tile.ptr<i64>
  tile.return
}"""
    )
    p, q = torch.randint(0, 99, (1000,)), torch.randint(0, 99, (1000,))
    first, second = p.clone(), q.clone()
    assert kernel([p, q]) == 0
    assert torch.equal(p, second) and torch.equal(q, first + second)


def test_gather_reverse_in_place_and_argmax() -> None:
    kernel = Kernel(
        """
tile.kernel @reverse(%p: !tile.ptr<f32>, %where: !tile.ptr<i32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %i = tile.iota : tensor<4096xi32>
  %last = arith.constant dense<4095> : tensor<4096xi32>
  %raw = arith.subi %last, %i : tensor<4096xi32>
  %j = tile.check_index %raw in %n line 3 : tensor<4096xi32> -> tensor<4096xi32>
  %v = tile.gather %p[%j] : !tile.ptr<f32>, tensor<4096xi32> -> tensor<4096xf32>
  tile.store %v, %p[%zero] strides [1] : tensor<4096xf32>, !tile.ptr<f32>
  %m, %k = tile.reduce (%v, %i) axis 0 : (tensor<4096xf32>, tensor<4096xi32>) -> (f32, i32) {
  ^bb0(%a: f32, %ai: i32, %b: f32, %bi: i32):
    %gt = arith.cmpf ogt, %a, %b : f32
    %r = arith.select %gt, %a, %b : f32
    %ri = arith.select %gt, %ai, %bi : i32
    tile.yield %r, %ri : f32, i32
  }
  tile.store %k, %where[%zero] strides [] : i32, !tile.ptr<i32>
  tile.return
}"""
    )
    x, where = torch.randperm(4096).float(), torch.zeros(1, dtype=torch.int32)
    expected = x.flip(0)
    assert kernel([x, where], [4096]) == 0
    assert torch.equal(x, expected)
    assert where.item() == int(expected.argmax())
    assert kernel([x, where], [4000]) == 1 and kernel.error == [4095, 4000, 3]
