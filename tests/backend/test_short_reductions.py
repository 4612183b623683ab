"""Reductions of a few points that feed longer ones."""

from __future__ import annotations

import pytest
import torch

import torch_tile
from tests.compiling import fresh


def density(x, y):
    return torch.exp(-((x[:, None] - y[None]) ** 2).sum(-1)).mean(1)


def nearest(x, y):
    return ((x[:, None] - y[None]).abs().amax(-1)).amin(1)


def farthest(x, y):
    return (x[:, None] - y[None]).abs().sum(-1).max(1)


def norms(x, y):
    return (x[:, None] * y[None]).norm(dim=-1).logsumexp(1)


def products(x, y):
    return (x[:, None] + y[None]).prod(-1).sum(1)


def both(x, y):
    distance = (x[:, None] - y[None]).square().sum(-1)
    return distance, distance.sum(1)


@pytest.mark.parametrize("function", [density, nearest, farthest, norms, products, both], ids=lambda f: f.__name__)
@pytest.mark.parametrize("components", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_equals_eager(function, components, dynamic):
    fresh()
    x, y = torch.randn(40, components, dtype=torch.float64), torch.randn(70, components, dtype=torch.float64)
    result = torch.compile(function, backend="tile", fullgraph=True, dynamic=dynamic)(x, y)
    torch.testing.assert_close(result, function(x, y))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int32], ids=str)
def test_types(dtype):
    fresh()
    x = (torch.randn(30, 50, 3) * 4).to(dtype)

    def function(x):
        return (x * x).sum(-1).amax(1), (x == 1).any(-1).sum(1)

    torch.testing.assert_close(torch.compile(function, backend="tile", fullgraph=True)(x), function(x))


def test_signs_of_zeros():
    fresh()
    x = torch.full((4, 5, 3), -0.0)

    def function(x):
        return (1 / x.sum(-1)).amax(1)

    torch.testing.assert_close(torch.compile(function, backend="tile", fullgraph=True)(x), function(x))


def test_the_two_are_one_kernel():
    fresh()
    with torch_tile.expect(kernels=1, outside=0, fallbacks=0):
        torch.compile(density, backend="tile", fullgraph=True)(torch.randn(40, 3), torch.randn(70, 3))
