"""Operators that write to arguments: in place where nobody can tell, else into a copy; no call of Python."""

from __future__ import annotations

from collections.abc import Callable

import pytest
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


@torch.library.custom_op("control_flow_test::increase", mutates_args={"x"})
def increase(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y.amax().to(x.dtype) + 1)


MADE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cast of a cast": lambda x: (x > 0).to(torch.int32),
    "narrower and back": lambda x: x.to(torch.int8).to(torch.int64),
    "wider": lambda x: x.to(torch.bfloat16).to(torch.float32),
    "zeros": lambda x: torch.zeros_like(x),
    "ones": lambda x: torch.ones_like(x),
    "one number": lambda x: torch.full((1,), -0.0).expand(3, 4).contiguous(),
    "scalar": lambda x: torch.ones(()),
    "indices": lambda x: torch.arange(4),
    "bounded": lambda x: x - x.amax(1, keepdim=True),
    "copy": lambda x: x.clone(),
    "parts": lambda x: torch.cat([x[:1], x[1:] * 2]),
    "padding": lambda x: torch.nn.functional.pad(x[:, 1:], (1, 0)),
    "one hot": lambda x: torch.nn.functional.one_hot(torch.arange(3), 4),
    "choice": lambda x: torch.where(x > 0, x, 1.0),
    "maximum": lambda x: x.amax(1, keepdim=True),
    "pair": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
}
READ: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": lambda x, v: x + v,
    "sum in place": lambda x, v: v + x,
    "difference": lambda x, v: x - v,
    "product": lambda x, v: x * v,
    "quotient": lambda x, v: x / v,
    "power": lambda x, v: x.abs() ** v,
    "float64": lambda x, v: v.to(torch.float64),
    "float32": lambda x, v: v.to(torch.float32) * 0.5,
    "int64": lambda x, v: v.to(torch.int64),
    "bool": lambda x, v: v.to(torch.bool),
    "exponential": lambda x, v: v.float().exp(),
    "softmax": lambda x, v: v.float().reshape(-1, 1).softmax(0),
    "index": lambda x, v: torch.arange(100).index_select(0, v.long().abs().clamp(max=99).reshape(-1)),
    "choice": lambda x, v: torch.where(v > 1, x.mean(), 0),
    "total": lambda x, v: v.sum() + v.amax(),
    "view": lambda x, v: v.reshape(-1)[::2] * 1,
}


@pytest.mark.parametrize("made", MADE)
def test_what_an_operator_has_written_is_read(made: str) -> None:
    """No rewrite takes a value for what made it once an operator has written it. All readers, before and after."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Tensors:
        results = []
        for read in READ.values():
            value = MADE[made](x)
            before = value + 0
            increase(value, y)
            results += [before, read(x, value)]
        return tuple(results)

    x, y = torch.randint(-4, 5, (3, 4), generator=torch.Generator().manual_seed(1)).float(), torch.arange(3)
    assert_same(compiled(function)(x, y), function(x, y), **close)
