"""Messages that name what the user wrote, and what to write in its place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from math import log2
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

Launch = Callable[[Any], Any]


@torch_tile.jit
def divide(x_ptr, OP: tl.constexpr):
    a, b = tl.load(x_ptr), tl.load(x_ptr).to(tl.uint32)
    if OP == "/":
        tl.store(x_ptr, a / b)
    elif OP == "//":
        tl.store(x_ptr, a // b)
    elif OP == "%":
        tl.store(x_ptr, a % b)
    else:
        tl.store(x_ptr, b / a)


@pytest.mark.parametrize("operator", ["/", "//", "%", "reversed /"])
def test_divisions_of_two_signednesses_name_the_operator(launch: Launch, operator: str) -> None:
    expected = rf"Cannot use `{operator.split()[-1]}` on u?int32 and u?int32 because they have different signedness"
    with pytest.raises(torch_tile.InvalidKernelError, match=expected):
        launch(divide)[(1,)](torch.ones(1, dtype=torch.int32), operator)


@torch_tile.jit
def root(x_ptr):
    tl.store(x_ptr, math.sqrt(tl.load(x_ptr)))


@torch_tile.jit
def logarithm(x_ptr):
    tl.store(x_ptr, log2(tl.load(x_ptr)))


@torch_tile.jit
def hyperbolic(x_ptr):
    tl.store(x_ptr, tl.exp(math.tanh(tl.load(x_ptr))))


@torch_tile.jit
def lesser_known(x_ptr):
    tl.store(x_ptr, math.dist([tl.load(x_ptr)], [0.0]))


@torch_tile.jit
def to_float(x_ptr):
    tl.store(x_ptr, float(tl.sqrt(tl.load(x_ptr))))


def helper(x: Any) -> Any:
    return math.exp(x)


@torch_tile.jit
def through_a_helper(x_ptr):
    tl.store(x_ptr, helper(tl.load(x_ptr)))


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        (root, "use tl.sqrt, which takes run-time values"),
        (logarithm, "use tl.log2, which takes run-time values"),
        (hyperbolic, "use tl.math.tanh, which takes run-time values"),
        (lesser_known, "use `.to(tl.float32)`"),
        (to_float, "use `.to(tl.float32)`"),
        (through_a_helper, "use tl.exp, which takes run-time values"),
    ],
)
def test_functions_of_numbers(kernel: Any, advice: str) -> None:
    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        kernel[(1,)](torch.ones(1))
    assert str(caught.value).endswith(f"expected a number known when the kernel is compiled, got fp32; {advice}")


@torch_tile.jit
def fill(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, n)


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"num_warp": 3}, "kernel fill(x_ptr, n, BLOCK): it has no argument 'num_warp' (the nearest: num_warps)"),
        ({"BLOK": 3}, "kernel fill(x_ptr, n, BLOCK): missing a required argument: 'n'; it has no argument 'BLOK'"),
        ({"whatever": 3}, "kernel fill(x_ptr, n, BLOCK): it has no argument 'whatever'"),
        ({"num_stage": 1, "m": 3}, "'num_stage' (the nearest: num_stages), 'm'"),
    ],
)
def test_unknown_names(launch: Launch, named: dict[str, int], text: str) -> None:
    known = {"BLOCK": 4} if "BLOK" in named else {"n": 1, "BLOCK": 4}
    with pytest.raises(TypeError) as caught:
        launch(fill)[(1,)](torch.ones(1), **known, **named)
    assert text in str(caught.value) and "unexpected" not in str(caught.value)


@torch_tile.jit
def overflow(x_ptr, TYPE: tl.constexpr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i)
    tl.store(x_ptr + i, tl.full([16], 1e10, TYPE))
    tl.store(x_ptr + i, x * x + 1e6)
    tl.store(x_ptr + i, (x.to(tl.float32) * 1e30).to(TYPE))
    tl.store(x_ptr, 1e300)
    tl.atomic_add(x_ptr + 1, 1e9)


@pytest.mark.parametrize(("dtype", "type_"), [(torch.float16, tl.float16), (torch.bfloat16, tl.bfloat16)])
def test_infinities_are_no_warnings(launch: Launch, dtype: torch.dtype, type_: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.full((16,), 60000.0, dtype=dtype)
        launch(overflow)[(1,)](x, type_)
    assert x[0] == math.inf
