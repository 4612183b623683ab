"""Writes of every s-th element along dimensions whose sizes are symbols: one program for several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import assert_same, assert_same_or_refused, compiled, copy_inputs, count, fresh


def filled(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[:, 1::3] = 7
    return result


def added(x: torch.Tensor) -> torch.Tensor:
    result = x * 2
    result[:, 2::7] += result[:, 2::7] * 3
    return result


def spread(x: torch.Tensor) -> torch.Tensor:
    result = x.new_zeros(x.shape[0], 5 * x.shape[1])
    result[:, 3::5] = x
    return result


def of_both(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[1::2, 9::4] = -1
    return result * 3


def bounded(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[:, 2:11:3] = x[:, :3]
    return result


def from_behind(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[:, -9::2] = 4
    return result


def in_place(x: torch.Tensor) -> torch.Tensor:
    x[:, ::3] += 1
    return x.sum(0)


FUNCTIONS = [filled, added, spread, of_both, bounded, from_behind, in_place]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_sizes(function: Callable[..., Any], dtype: torch.dtype) -> None:
    other = compiled(function, dynamic=None)
    fresh()
    for size in (200, 11, 12, 13, 16, 33, 64, 130, 4100):
        x = torch.randint(-9, 10, (4, size)).to(dtype)
        torch._dynamo.maybe_mark_dynamic(x, 1)
        (given,) = copy_inputs((x,))
        torch._dynamo.maybe_mark_dynamic(given, 1)
        expected = function(x)
        assert_same(other(given), expected, exact=True)
        assert_same(given, x, exact=True)
    assert count("graphs") <= 2  # a part of one element may be another program


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_short_sizes(function: Callable[..., Any]) -> None:
    """Parts may be empty, of which nothing is read."""
    other = compiled(function, dynamic=True)
    fresh()
    for size in (12, 9, 8, 5, 3, 2, 1, 0):
        assert_same_or_refused(other, function, torch.randint(-9, 10, (4, size)).float())


@pytest.mark.parametrize("size", [70, 71])
def test_gradients(size: int) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = x * 2
        result[:, 1::7] = y * 3
        return (result[:, ::2] * result[:, ::2]).sum()

    other = compiled(function, dynamic=None)
    fresh()
    given = [torch.randn(3, size, requires_grad=True), torch.randn(3, 10, requires_grad=True)]
    for value in given:
        torch._dynamo.maybe_mark_dynamic(value, 1)
    own, eager = (torch.autograd.grad(f(*given), given) for f in (other, function))
    assert_same(own, eager)
