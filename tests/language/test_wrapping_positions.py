"""Positions of 32 bits wrap, in addresses as in the masks that are made of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")

N = 32


@torch_tile.jit
def by_an_argument(x_ptr, out_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i * stride
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=-1.0))


@torch_tile.jit
def twice_by_an_argument(x_ptr, out_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = (i * stride) * stride + i
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=-1.0))


@torch_tile.jit
def by_constants(x_ptr, out_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = (i * 65536) * 65536 + i
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=-1.0))


@torch_tile.jit
def by_a_large_constant(x_ptr, out_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i * 1073741824
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=-1.0))


@torch_tile.jit
def in_a_loop(x_ptr, out_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i * stride
    for k in range(2):
        tl.store(out_ptr + i, tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=-1.0) - k)
        at += k


@torch_tile.jit
def of_a_store(x_ptr, out_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = (i * stride) * stride + i
    tl.store(out_ptr + at, tl.load(x_ptr + i), mask=(at >= 0) & (at < n))


def wrapped(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.int32).long()


EXPECTED: dict[Any, tuple[int, Any]] = {
    by_an_argument: (2**30, lambda i: wrapped(i * 2**30)),
    twice_by_an_argument: (2**16, lambda i: i),
    by_constants: (1, lambda i: i),
    by_a_large_constant: (1, lambda i: wrapped(i * 2**30)),
    in_a_loop: (2**30, lambda i: wrapped(i * 2**30)),
    of_a_store: (2**16, lambda i: i),
}


@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("lanes", [N, 8])
def test_addresses_are_what_masks_compare(kernel: Any, lanes: int) -> None:
    stride, positions = EXPECTED[kernel]
    x, out = torch.arange(float(N)), torch.zeros(N)
    kernel[(1,)](x, out, stride, N, B=lanes)
    at = positions(torch.arange(lanes))
    expected = torch.where((at >= 0) & (at < N), at.float(), -1.0) - (1 if kernel is in_a_loop else 0)
    assert torch.equal(out[:lanes], expected)
