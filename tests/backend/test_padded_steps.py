"""Steps over values that are padded again: choices and masks that nobody sees are left out (SimplifyMasks.cpp)."""

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled


def flux(x, k):
    """Differences of neighbours along each dimension, padded at one end and at the other."""
    change = x
    for dim in range(x.ndim):
        size = x.shape[dim] - 1
        left, right = k.narrow(dim, 0, size), k.narrow(dim, 1, size)
        each = 2 * left * right / (left + right) * torch.diff(x, dim=dim)
        sides = [0, 0] * (x.ndim - 1 - dim)
        change = change + F.pad(each, [*sides, 0, 1]) - F.pad(each, [*sides, 1, 0], value=0.5)
    return change


def integer_quotient(x, k):
    """A division that must not see what lies outside of the mask: zeros."""
    a, b = x.narrow(0, 0, x.shape[0] - 1).to(torch.int32), (k.narrow(0, 1, k.shape[0] - 1) * 4).to(torch.int32)
    padded = F.pad(b, [0, 0] * (b.ndim - 1) + [0, 1], value=3)
    return F.pad(a, [0, 0] * (a.ndim - 1) + [0, 1], value=7) // torch.where(padded == 0, 1, padded)


def nested(x, k):
    """A part of a part, put back twice."""
    inner = x[1:-1].exp() * k[1:-1]
    outer = F.pad(inner[1:-1].abs().sqrt() + inner[2:], [0, 0] * (x.ndim - 1) + [1, 1], value=2.0)
    return F.pad(outer * inner, [0, 0] * (x.ndim - 1) + [1, 1], value=-1.0) / k


def few(x, k):
    """A small part of a large tensor: nothing else of it is read."""
    part = x[:2] * k[:2]
    return F.pad(part, [0, 0] * (x.ndim - 1) + [0, x.shape[0] - 2]) + k


def in_place(x, k):
    x = x.clone()
    x[1:] += k[:-1] * x[:-1]
    x[:-1] = torch.where(x[1:] > 0, x[1:], k[:-1]) * 2
    return x + F.pad(x[:-1], [0, 0] * (x.ndim - 1) + [1, 0])


@pytest.mark.parametrize("program", [flux, integer_quotient, nested, few, in_place])
@pytest.mark.parametrize("shape", [(9, 13), (70, 33), (16, 7, 32)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_padded_steps(program, shape, dynamic):
    torch.manual_seed(0)
    x, k = torch.randn(shape, dtype=torch.float64), torch.rand(shape, dtype=torch.float64) + 0.1
    function = compiled(program, dynamic=dynamic)
    torch.testing.assert_close(function(x, k), program(x, k), rtol=1e-12, atol=1e-12)


def test_infinities_outside_of_the_mask():
    """What a mask hides may be anything: 0 / 0, infinities, NaN."""

    def program(x):
        inverse = F.pad(1 / x[:, :-1], [0, 1])
        return F.pad(inverse[:, :-1] - inverse[:, 1:], [0, 1], value=3.0) * 2

    x = torch.ones(5, 40)
    x[:, -1] = 0
    x[:, -2] = float("nan")
    torch.testing.assert_close(compiled(program)(x), program(x), equal_nan=True)
