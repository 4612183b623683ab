"""Operators that write to arguments: in place where nobody can tell, else into a copy; no call of Python."""

from __future__ import annotations

import torch

from tests.compiling import IS_TILE, assert_same, compiled, count

Tensors = tuple[torch.Tensor, ...]
close = {"rtol": 1e-5, "atol": 1e-6}


@torch.library.custom_op("control_flow_test::add_to", mutates_args={"x"})
def add_to(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return y * 2


@add_to.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(y)


@torch.library.custom_op("control_flow_test::fill_both", mutates_args={"x", "y"})
def fill_both(x: torch.Tensor, y: torch.Tensor | None, value: float) -> None:
    x.fill_(value)
    if y is not None:
        y.fill_(value + 1)


def _writes(x: torch.Tensor, y: torch.Tensor) -> Tensors:
    product = x * 2
    before = product + 1
    add_to(product, y)  # `product` is new and not needed as it was
    half = product * 0.5
    add_to(product, y)  # somebody reads it before
    fill_both(product[:, :1], None, 3.0)
    twice = add_to(x, y)  # an input
    fill_both(x[0], y[1], 7.0)
    return product, before, half, twice, x + y


def test_operators_write_in_place() -> None:
    mine = [torch.randn(3, 4), torch.randn(3, 4)]
    theirs = [tensor.clone() for tensor in mine]
    program = compiled(_writes)
    assert_same(program(*mine), _writes(*theirs), exact=True)
    assert_same(mine, theirs, exact=True)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


def test_mutation_in_a_branch() -> None:
    def function(flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        def writes(x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x.sin()

        with torch.no_grad():
            return torch.cond(flag, writes, lambda x: x.cos(), (x,)) + x

    for flag in (True, False):
        mine = torch.randn(4)
        theirs = mine.clone()
        result = compiled(function)(torch.tensor(flag), mine)
        expected = (theirs.add_(1).sin() if flag else theirs.cos()) + theirs
        assert_same(result, expected, **close)
        assert_same(mine, theirs, exact=True)
