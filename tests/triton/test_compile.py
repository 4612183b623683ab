"""Triton kernels in graphs that torch.compile gives to this backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
from torch.library import triton_op, wrap_triton

import torch_tile

from . import kernels

tuned_add = triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 256)], key=["n"])(kernels.add)


def fresh_output(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    kernels.add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x * 2, y, out, n, BLOCK=256)
    return out.relu() + 1


def tuned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    tuned_add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.sin(), y, out, n)
    return out + 1


def in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = x.numel()
    kernels.add[(triton.cdiv(n, 256),)](x, y, x, n, BLOCK=256)
    return x.sum()


def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    n = x.numel()
    for _ in range(2):
        kernels.add[(triton.cdiv(n, 256),)](out, y, out, n, BLOCK=256)
    return out * x


@triton_op("torch_tile_tests::add", mutates_args={})
def add_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(kernels.add)[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), 128)
    return out


def registered_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return add_op(x * 2, y) + 1


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.add[(triton.cdiv(x.numel(), 256),)](x, x, out, x.numel(), BLOCK=256)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(grads[0])
        kernels.add[(triton.cdiv(out.numel(), 256),)](grads[0], grads[0], out, out.numel(), BLOCK=256)
        return out


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [fresh_output, tuned, in_place, twice, registered_op])
def test_equal_to_eager(function: Any, dynamic: bool) -> None:
    torch._dynamo.reset()
    torch_tile.counters.clear()
    compiled = torch.compile(function, backend="tile", fullgraph=True, dynamic=dynamic, options={"strict": True})
    for n in (1000, 2000, 77):
        x, y = torch.randn(n), torch.randn(n)
        expected_x = x.clone()
        expected = function(expected_x, y)
        torch.testing.assert_close(compiled(x, y), expected)
        assert torch.equal(x, expected_x)


def test_training() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: (Double.apply(x) ** 2).sum(), backend="tile", fullgraph=True, options={"strict": True}
    )
    x = torch.randn(300, requires_grad=True)
    compiled(x).backward()
    torch.testing.assert_close(x.grad, 8 * x.detach())
