"""Writes of every s-th element: those that are all of a tensor together, and those that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import compiled

Function = Callable[..., Any]


def pairs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = a.new_empty(*a.shape[:-1], 2 * a.shape[-1])
    o[..., ::2], o[..., 1::2] = a, b
    return o


def reversed_pairs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = a.new_empty(*a.shape[:-1], 2 * a.shape[-1])
    o[..., 1::2] = b * 2
    o[..., 0::2] = a + 1
    return o + 1


def rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = a.new_zeros(3 * a.shape[0], *a.shape[1:])
    o[2::3], o[::3], o[1::3] = a, b, a - b
    return o


def written_again(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = a.new_zeros(*a.shape[:-1], 2 * a.shape[-1])
    o[..., ::2] = a
    o[..., ::2] = b
    o[..., 1::2] = a
    return o


def read_between(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    o = a.new_zeros(*a.shape[:-1], 2 * a.shape[-1])
    o[..., ::2] = a
    total = o.sum()
    o[..., 1::2] = b
    return o, total


def of_itself(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = torch.cat([a, b], -1)
    o[..., ::2] = o[..., 1::2] * 2
    o[..., 1::2] = o[..., ::2] + 1
    return o


def one_is_left(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = torch.cat([a, b, a], -1)
    o[..., ::3], o[..., 2::3] = a, b
    return o


def odd_length(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = a.new_zeros(*a.shape[:-1], 2 * a.shape[-1] + 1)
    o[..., :-1:2], o[..., 1::2], o[..., -1] = a, b, 7
    return o


def shorter(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = a.new_ones(*a.shape[:-1], 2 * a.shape[-1])
    o[..., :-2:2], o[..., 1::2] = a[..., :-1], b
    return o


def numbers_and_other_dtypes(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = a.new_empty(*a.shape[:-1], 4 * a.shape[-1])
    o[..., ::4], o[..., 1::4], o[..., 2::4], o[..., 3::4] = 1, b.double(), a[:1], (a > 0)
    return o


def in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    b[..., ::2], b[..., 1::2] = a[..., 1::2].clone(), a[..., ::2].clone()
    return b * 2


PROGRAMS: list[Function] = [
    pairs, reversed_pairs, rows, written_again, read_between, of_itself, one_is_left, odd_length, shorter,
    numbers_and_other_dtypes, in_place,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_values(function: Function, dtype: torch.dtype, dynamic: bool) -> None:
    call = compiled(function, dynamic=dynamic)
    for length in (6, 6, 34):
        a, b = (torch.randint(-9, 9, (5, length)).to(dtype) for _ in range(2))
        c, d = a.clone(), b.clone()
        torch.testing.assert_close((call(a, b), a, b), (function(c, d), c, d), rtol=0, atol=0)


@pytest.mark.parametrize("function", [pairs, reversed_pairs, rows], ids=lambda f: f.__name__)
def test_gradients(function: Function) -> None:
    a, b = (torch.randn(5, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found = torch.autograd.grad(compiled(function)(a, b).sin().sum(), (a, b))
    torch.testing.assert_close(found, torch.autograd.grad(function(a, b).sin().sum(), (a, b)))


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
def test_sources_in_other_orders(dim: int, order: tuple[int, ...]) -> None:
    """A concatenation lies as its operands do, a tensor that is written as it was made."""

    def written(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shape = list(a.shape)
        shape[dim] *= 2
        o = torch.empty(shape)
        before = (slice(None),) * dim
        o[(*before, slice(None, None, 2))], o[(*before, slice(1, None, 2))] = a, b
        return o, o.view(-1)

    sizes = (3, 5, 4, 6)
    back = [order.index(k) for k in range(4)]
    a = torch.randn([sizes[k] for k in order]).permute(back)
    found, expected = compiled(written)(a, a + 1), written(a, a + 1)
    assert all(torch.equal(x, y) and x.stride() == y.stride() for x, y in zip(found, expected, strict=True))


@torch.library.custom_op("interleaved_writes::double_", mutates_args={"x"})
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


def test_a_source_that_is_written_between() -> None:
    def of_input(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        o = torch.empty(x.shape[0], 2 * x.shape[1])
        o[:, ::2] = x
        torch.ops.interleaved_writes.double_(x)
        o[:, 1::2] = b
        return o, x.sum()

    def of_value(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return of_input(x + 1, b)

    for function in (of_input, of_value):
        x, b = torch.randn(3, 4), torch.randn(3, 4)
        y = x.clone()
        torch.testing.assert_close((compiled(function)(x, b), x), (function(y, b), y))
        torch.compiler.reset()


def test_one_kernel() -> None:
    """Rotary embeddings as they are often written."""
    import torch_tile

    def rotated(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        a, b = x[..., ::2], x[..., 1::2]
        o[..., ::2] = a * c - b * s
        o[..., 1::2] = a * s + b * c
        return o

    with torch_tile.expect(kernels=1, outside=0):
        compiled(rotated)(torch.randn(2, 4, 64, 32), torch.randn(64, 16), torch.randn(64, 16))
