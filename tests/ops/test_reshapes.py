"""Reshapes that cut tensors where their rows do not end: chains of views and copies of which each element's place is a
quotient or a remainder, beside what reads them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled

Function = Callable[[torch.Tensor], torch.Tensor]


def _factors(rng: random.Random, count: int, rank: int) -> list[int]:
    if count == 0:
        return [0] * rank
    sizes = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        sizes.append(rng.choice(divisors))
        count //= sizes[-1]
    return [*sizes, count]


def _step(rng: random.Random, shape: list[int]) -> tuple[Function, list[int]]:
    """One step that changes where elements lie, for a tensor of this shape, and the shape after it."""
    kind = rng.choice(["reshape", "reshape", "permute", "narrow", "pad", "flip", "roll", "expand", "stride"])
    dim = rng.randrange(len(shape))
    if kind == "permute":
        order = rng.sample(range(len(shape)), len(shape))
        return lambda x: x.permute(order), [shape[d] for d in order]
    if kind == "narrow" and shape[dim] > 2:
        start, length = rng.randint(0, 1), shape[dim] - rng.randint(1, 2)
        return lambda x: x.narrow(dim, start, length - start), [*shape[:dim], length - start, *shape[dim + 1 :]]
    if kind == "pad" and math.prod(shape) < 4000:
        before, after = rng.randint(0, 2), rng.randint(0, 2)
        sides = [0, 0] * (len(shape) - 1 - dim) + [before, after]
        return lambda x: F.pad(x, sides, value=3.0), [*shape[:dim], shape[dim] + before + after, *shape[dim + 1 :]]
    if kind == "flip":
        return lambda x: x.flip(dim), shape
    if kind == "roll":
        return lambda x: x.roll(2, dim), shape
    if kind == "expand" and math.prod(shape) < 2000:
        return lambda x: x.unsqueeze(dim).expand(*shape[:dim], 3, *shape[dim:]), [*shape[:dim], 3, *shape[dim:]]
    if kind == "stride" and shape[dim] > 3:
        return lambda x: x[(slice(None),) * dim + (slice(1, None, 2),)], [
            *shape[:dim],
            shape[dim] // 2,
            *shape[dim + 1 :],
        ]
    sizes = _factors(rng, math.prod(shape), rng.randint(1, 3))
    return lambda x: x.reshape(sizes), sizes


def draw(seed: int) -> tuple[Function, list[int]]:
    rng = random.Random(seed)
    shape = first = [rng.choice([2, 3, 5, 7, 9, 13]) for _ in range(rng.randint(2, 3))]
    steps = []
    for _ in range(rng.randint(3, 7)):
        step, shape = _step(rng, shape)
        steps.append(step)
    last = rng.randrange(4)
    rank = len(shape)

    def function(x: torch.Tensor) -> torch.Tensor:
        for number, step in enumerate(steps):
            x = step(x)
            if number % 3 == 2:
                x = x * 2 + 1
        if last == 1:
            return x.sum(rank - 1)
        if last == 2:
            return x.amax(0) if math.prod(shape) else x
        return torch.cat([x, x * 2], 0) if last == 3 else x + 1

    return function, first


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_chains(first: int) -> None:
    for seed in range(first, first + 20):
        torch.compiler.reset()
        function, shape = draw(seed)
        x = torch.randint(-50, 50, shape).double().requires_grad_()
        expected = function(x)
        found = compiled(function)(x)
        assert torch.equal(found, expected), seed
        # Dimensions of one element have the strides of torch's meta functions.
        strides = zip(found.stride(), expected.stride(), expected.shape, strict=True)
        assert expected.numel() == 0 or all(a == b or size == 1 for a, b, size in strides), seed
        weights = torch.randint(-9, 9, expected.shape).double()
        found, expected = (torch.autograd.grad(each, x, weights)[0] for each in (found, expected))
        assert torch.equal(found, expected), seed


def test_chains_of_dynamic_sizes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape
        skewed = F.pad(x, (0, 1)).reshape(-1)[: n * m].reshape(n, m)
        return x.t().reshape(x.shape) + skewed * 2

    call = compiled(function, dynamic=True)
    for shape in ((7, 13), (9, 20), (31, 8)):
        x = torch.randn(shape)
        assert torch.equal(call(x), function(x))


@pytest.mark.parametrize("rows", [2, 5, 16])
@pytest.mark.parametrize("columns", [3, 5, 16, 17])
def test_rows_shifted_by_their_number(rows: int, columns: int) -> None:
    """Positions relative to each row, and back: masks say in which row of the reshaped tensor a point lies."""

    def relative(x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape[-2:]
        x = F.pad(x, (1, 0)).reshape(*x.shape[:-2], m + 1, n)
        return x[..., 1:, :].reshape(*x.shape[:-2], n, m)

    def absolute(x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape[-2:]
        flat = F.pad(F.pad(x, (0, 1)).flatten(-2), (0, m))[..., : (n + 1) * m]
        return flat.reshape(*x.shape[:-2], n + 1, m)[..., :n, m // 2 :]

    for function in (relative, absolute):
        x = torch.randn(2, 3, rows, columns, dtype=torch.float64, requires_grad=True)
        found, expected = compiled(function)(x), function(x)
        assert torch.equal(found, expected)
        weights = torch.randn_like(expected)
        assert torch.equal(*(torch.autograd.grad(each, x, weights)[0] for each in (found, expected)))


def test_a_source_that_is_written_afterwards() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        taken = x.t().reshape(7, -1)
        x.mul_(2)
        return taken.t().reshape(-1, 5) + 1, x.t().reshape(-1, 5)

    x = torch.randn(35, 11)
    y = x.clone()
    for found, expected in zip(compiled(function)(x), function(y), strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(x, y)
