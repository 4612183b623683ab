"""Reductions and scans: functions that combine, and their messages; NaN beside indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

Launch = Callable[[Any], Any]


@torch_tile.jit
def reduce_pairs(x_ptr, o_ptr, F: tl.constexpr):
    i = tl.arange(0, 16)
    x, _ = tl.reduce((tl.load(x_ptr + i), i), 0, F)
    tl.store(o_ptr, x)


@torch_tile.jit
def reduce_one(x_ptr, o_ptr, F: tl.constexpr):
    tl.store(o_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, 16)), 0, F))


@torch_tile.jit
def scan_one(x_ptr, o_ptr, F: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(o_ptr + i, tl.associative_scan(tl.load(x_ptr + i), 0, F))


@torch_tile.jit
def map_two(x_ptr, o_ptr, F: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(o_ptr + i, tl.map_elementwise(F, tl.load(x_ptr + i), i))


@torch_tile.jit
def map_neighbours(x_ptr, o_ptr, F: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(o_ptr + i, tl.map_elementwise(F, tl.load(x_ptr + i), pack=2))


@torch_tile.jit
def one(a):
    return a


@torch_tile.jit
def two(a, b):
    return a + b


@torch_tile.jit
def three(a, b, c):
    return a + b + c


COMBINED = "one of each tile from the left and one of each from the right, got "


@pytest.mark.parametrize(
    ("kernel", "function", "text"),
    [
        (reduce_one, one, f"tl.reduce expected a function of 2 values, {COMBINED}one(a)"),
        (reduce_one, three, f"tl.reduce expected a function of 2 values, {COMBINED}three(a, b, c)"),
        (reduce_one, lambda a: a, f"tl.reduce expected a function of 2 values, {COMBINED}<lambda>(a)"),
        (reduce_one, 3, "tl.reduce expected a function, got 3 of type int"),
        (reduce_pairs, two, f"tl.reduce expected a function of 4 values, {COMBINED}two(a, b)"),
        (scan_one, three, f"tl.associative_scan expected a function of 2 values, {COMBINED}three(a, b, c)"),
        (map_two, one, "tl.map_elementwise expected a function of 2 values, one of each tile, got one(a)"),
        (
            map_neighbours,
            one,
            "tl.map_elementwise expected a function of 2 values, 2 neighbours of each tile, got one(a)",
        ),
    ],
)
def test_functions_of_another_number_of_values(launch: Launch, kernel: Any, function: Any, text: str) -> None:
    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        launch(kernel)[(1,)](torch.zeros(16), torch.zeros(16), F=function)
    assert text in str(caught.value)
    assert caught.value.line > kernel.fn.__code__.co_firstlineno


@pytest.mark.parametrize("function", [two, tl.maximum, lambda a, b: a + b, lambda *values: values[0] + values[1]])
def test_functions_of_two_values(launch: Launch, function: Any) -> None:
    x, o = torch.ones(16), torch.zeros(16)
    launch(reduce_one)[(1,)](x, o, F=function)
    assert o[0] == (1 if function is tl.maximum else 16)
    launch(scan_one)[(1,)](x, o, F=function)
    assert o[15] == (1 if function is tl.maximum else 16)


@torch_tile.jit
def extrema(x_ptr, o_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    value, place = tl.max(x, 0, return_indices=True)
    least, least_place = tl.min(x, 0, return_indices=True)
    tl.store(o_ptr, value)
    tl.store(o_ptr + 1, place)
    tl.store(o_ptr + 2, least)
    tl.store(o_ptr + 3, least_place)
    tl.store(o_ptr + 4, tl.argmax(x, 0))
    tl.store(o_ptr + 5, tl.argmin(x, 0))
    tl.store(o_ptr + 6, tl.max(x, 0))


def test_where_a_nan_stands_decides_beside_indices(launch: Launch) -> None:
    """Triton's combine function compares, too. Without indices NaN are passed over."""
    x = torch.arange(16.0)
    last, first = x.clone(), x.clone()
    last[15], first[0] = math.nan, math.nan
    o = torch.zeros(8)
    launch(extrema)[(1,)](last, o)
    assert o[[0, 2]].isnan().all() and o[[1, 3, 4, 5]].eq(15).all() and o[6] == 14
    launch(extrema)[(1,)](first, o)
    assert o[:7].tolist() == [15, 15, 1, 1, 15, 1, 15]


@torch_tile.jit
def place_in_all(x_ptr, F: tl.constexpr):
    tl.store(x_ptr, F(tl.load(x_ptr + tl.arange(0, 16)), axis=None))


@torch_tile.jit
def greatest_in_all(x_ptr, F: tl.constexpr):
    tl.store(x_ptr, F(tl.load(x_ptr + tl.arange(0, 16)), axis=None, return_indices=True)[0])


@pytest.mark.parametrize(
    ("kernel", "function", "text"),
    [
        (place_in_all, tl.argmax, "tl.argmax expected an axis, got None"),
        (place_in_all, tl.argmin, "tl.argmin expected an axis, got None"),
        (greatest_in_all, tl.max, "tl.max with return_indices expected an axis, got None"),
        (greatest_in_all, tl.min, "tl.min with return_indices expected an axis, got None"),
    ],
)
def test_indices_need_an_axis(launch: Launch, kernel: Any, function: Any, text: str) -> None:
    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        launch(kernel)[(1,)](torch.zeros(16), F=function)
    assert text in str(caught.value)
