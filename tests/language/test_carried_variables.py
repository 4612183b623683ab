"""Variables that a loop carries keep their shapes and types: the interpreter refuses what the compiler refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.test_wrong_kernels import line_of

Launch = Callable[[Any], Any]

# ruff: noqa: B007, F841, RUF100, SIM113


def shape_in_for(x_ptr, n):
    acc = tl.zeros([1, 4], tl.float32)
    for _ in range(n):  # here
        acc = acc + tl.zeros([4, 1], tl.float32)


def shape_in_while(x_ptr, n):
    i, acc = 0, tl.zeros([1, 4], tl.float32)
    while i < n:  # here
        acc = acc + tl.zeros([4, 1], tl.float32)
        i += 1


def shape_in_a_tuple(x_ptr, n):
    pair = (tl.zeros([1, 4], tl.float32), 0)
    for i in tl.range(0, n):  # here
        pair = (pair[0] + tl.zeros([4, 1], tl.float32), i)


def shape_of_a_number(x_ptr, n):
    acc = 0.0
    for i in range(n):  # here
        acc = acc + tl.zeros([4], tl.float32)


def shape_in_the_inner_loop(x_ptr, n):
    for i in range(n):
        acc = tl.zeros([1, 4], tl.float32)
        for j in range(n):  # here
            acc = acc + tl.zeros([4, 1], tl.float32)


def type_of_a_tile(x_ptr, n):
    acc = tl.zeros([4], tl.int32)
    for i in range(n):  # here
        acc = acc * 0.5


def type_of_a_number(x_ptr, n):
    acc = 0.0
    for i in range(n):  # here
        acc = i


def text(x_ptr, n):
    name = "a"
    for i in range(n):  # here
        name = name + "b"


SHAPE = "variable `{}` carried by this loop changes shape from {} to {}; start with a value of the final shape"
REFUSED = [
    (shape_in_for, SHAPE.format("acc", [1, 4], [4, 4])),
    (shape_in_while, SHAPE.format("acc", [1, 4], [4, 4])),
    (shape_in_a_tuple, SHAPE.format("pair", [1, 4], [4, 4])),
    (shape_of_a_number, SHAPE.format("acc", [], [4])),
    (shape_in_the_inner_loop, SHAPE.format("acc", [1, 4], [4, 4])),
    (type_of_a_tile, "variable `acc` carried by this loop changes type from int32 to fp32; start with a value of type"),
    (type_of_a_number, "variable `acc` carried by this loop changes type from fp32 to int32"),
    (text, "variable `name` carried by this loop changes from 'a'"),
]


@pytest.mark.parametrize(("function", "message"), [pytest.param(f, m, id=f.__name__) for f, m in REFUSED])
def test_refused(launch: Launch, function: Any, message: str) -> None:
    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        launch(torch_tile.jit(function))[(1,)](torch.zeros(16), 2)
    assert message in str(caught.value)
    assert caught.value.line == line_of(function)


@torch_tile.aggregate
class State:
    total: tl.tensor
    step: tl.constexpr


@torch_tile.jit
def accepted(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    wide = tl.zeros([1], tl.float32)
    for _ in tl.static_range(2):  # Python's loop
        wide = tl.join(wide, wide).reshape([wide.shape[0] * 2])
    left = tl.zeros([1], tl.float32)
    for k in range(3):  # so is one with a break
        if k > 1:
            break
        left = tl.join(left, left).reshape([left.shape[0] * 2])
    count, late, scale, state, none = 0, 0, 2, State(tl.zeros([B], tl.float32), 2), None
    table = {"a": tl.zeros([B], tl.float32), "b": 1}
    for k in range(n):
        count += late  # changes from the second turn on
        late += 1
        inner = tl.full([B], 1.0, tl.float32) if none is None else none
        state = State(state.total + inner * state.step, state.step)
        table = {"a": table["a"] + scale, "b": k}
    while count > 100:
        count -= 1
    tl.store(x_ptr + i, state.total + table["a"] + table["b"] + count + wide + left)


def test_accepted(launch: Launch) -> None:
    x = torch.zeros(4)
    launch(accepted)[(1,)](x, 5, B=4)
    assert x.tolist() == [10 + 10 + 4 + 10] * 4
