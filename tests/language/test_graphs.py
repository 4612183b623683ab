"""Kernels inside torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")


@torch_tile.jit
def add(x_ptr, y_ptr, o_ptr, n, SCALE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    tl.store(o_ptr + i, SCALE * tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


@torch_tile.jit
def increment(x_ptr, n, amount, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    for _ in range(2):
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + amount, mask=i < n)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tile", **options)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_between_other_operators(fullgraph: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        o = torch.empty_like(x)
        add[(torch_tile.cdiv(x.numel(), 64),)](x, y, o, x.numel(), SCALE=3.0, B=64)
        return o.relu() + 1

    run = compiled(function, fullgraph=fullgraph)
    for size in (100, 257, 1000):
        x, y = torch.randn(size), torch.randn(size)
        torch.testing.assert_close(run(x, y), (3 * x.sin() + y).relu() + 1)


def test_in_place_on_an_input() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        increment[lambda meta: (torch_tile.cdiv(meta["n"], meta["B"]),)](x, x.numel(), 1.5, 32)
        return x * 2

    x = torch.zeros(70)
    assert torch.equal(compiled(function, fullgraph=True)(x), torch.full((70,), 6.0))
    assert torch.equal(x, torch.full((70,), 3.0))


def test_dynamic_sizes_compile_once() -> None:
    counts = []

    def backend(graph: Any, inputs: Any) -> Any:
        counts.append(1)
        return graph

    def function(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        add[(torch_tile.cdiv(x.numel(), 64),)](x, x, o, x.numel(), 1.0, 64)
        return o

    run = torch.compile(function, backend=backend, dynamic=True, fullgraph=True)
    for size in (65, 130, 777):
        x = torch.randn(size)
        assert torch.equal(run(x), 2 * x)
    assert len(counts) == 1


def test_training_through_a_custom_function() -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            o = torch.empty_like(x)
            add[(torch_tile.cdiv(x.numel(), 64),)](x, x, o, x.numel(), 2.0, 64)
            return o

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            grad = grad.contiguous()
            o = torch.empty_like(grad)
            add[(torch_tile.cdiv(grad.numel(), 64),)](grad, grad, o, grad.numel(), 2.0, 64)
            return o

    x = torch.randn(100, requires_grad=True)
    compiled(lambda x: Scale.apply(x).sum())(x).backward()
    assert torch.equal(x.grad, torch.full((100,), 3.0))


def test_autotuned_kernel_breaks_the_graph() -> None:
    tuned = torch_tile.autotune(configs=[torch_tile.Config({"B": 32}), torch_tile.Config({"B": 64})], key=["n"])(add)

    def function(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        tuned[lambda meta: (torch_tile.cdiv(meta["n"], meta["B"]),)](x, x, o, x.numel(), SCALE=1.0)
        return o + 1

    x = torch.randn(100)
    torch.testing.assert_close(compiled(function)(x), 2 * x + 1)


@torch_tile.jit
def apply(x_ptr, n, FUNCTION: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, FUNCTION(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


def test_a_function_as_argument_breaks_the_graph() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        apply[(1,)](y, 100, lambda v: v * v, 128)
        return y + 1

    x = torch.randn(100)
    torch.testing.assert_close(compiled(function)(x), (x + 1) ** 2 + 1)


def test_equal_bits_interpreted_and_compiled() -> None:
    x, y = torch.randn(300).bfloat16(), torch.randn(300).bfloat16()
    a, b = torch.empty_like(x), torch.empty_like(x)
    add[(5,)](x, y, a, 300, 3.0, 64)
    add.interpret[(5,)](x, y, b, 300, 3.0, 64)
    assert torch.equal(a, b) and torch.equal(a, 3.0 * x + y)
