"""Calls in the bodies of higher-order operators are replaced and refused as those outside of them are."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from tests.compiling import compiled

BYTES = (
    torch.arange(2 * 3 * 33 * 41, dtype=torch.int64).mul(2654435761).remainder(251).to(torch.uint8).view(2, 3, 33, 41)
)


def test_bytes_in_a_checkpoint():
    def program(x, weight):
        def body(x, weight):
            small = F.interpolate(x, size=(20, 50), mode="bilinear", align_corners=False)
            return small.float() * weight[:, None, None]

        return checkpoint(body, x, weight, use_reentrant=False)

    weight = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    result, expected = compiled(program)(BYTES, weight), program(BYTES, weight)
    assert torch.equal(result, expected)  # products of bytes and powers of two are exact
    (gradient,) = torch.autograd.grad(result.sum(), weight)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), weight)[0])


@pytest.mark.parametrize("taken", [True, False])
def test_bytes_in_branches(taken):
    def program(x, taken):
        def one(x):
            return F.interpolate(x, size=(20, 50), mode="bilinear").float()

        def other(x):
            return F.interpolate(x, size=(20, 50), mode="bicubic").float() * 2

        return torch.cond(taken, one, other, (x,))

    taken = torch.tensor(taken)
    assert torch.equal(compiled(program)(BYTES, taken), program(BYTES, taken))


def test_kept_size_in_a_branch():
    def program(x, taken):
        return torch.cond(taken, lambda x: F.interpolate(x, scale_factor=1.05, mode="bilinear"), torch.cos, (x,))

    x, taken = torch.linspace(-2, 2, 128).view(1, 2, 8, 8), torch.tensor(True)
    assert torch.equal(compiled(program)(x, taken), program(x, taken))


def test_circular_pad_in_a_checkpoint():
    def program(x, weight):
        def body(x, weight):
            return F.pad(x * weight, (1, 2, 0, 1), mode="circular").sin()

        return checkpoint(body, x, weight, use_reentrant=False)

    x, weight = torch.linspace(-2, 2, 128).view(1, 2, 8, 8), torch.tensor(0.5, requires_grad=True)
    result, expected = compiled(program)(x, weight), program(x, weight)
    torch.testing.assert_close(result, expected)
    (gradient,) = torch.autograd.grad(result.sum(), weight)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), weight)[0])


def test_refused_in_a_checkpoint():
    def program(x):
        return checkpoint(lambda x: F.hardshrink(x), x, use_reentrant=False)

    x = torch.arange(8)
    with pytest.raises(NotImplementedError):
        program(x)
    with pytest.raises(NotImplementedError, match="hardshrink"):
        torch.compile(program, backend="tile")(x)
