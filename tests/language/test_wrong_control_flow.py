"""Control flow that cannot be compiled: the message, and the line marked `# here`."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler
from tests.language.test_wrong_kernels import line_of

pytestmark = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")

# ruff: noqa: F841, RUF100, B007, SIM108
WRONG: list[tuple[Any, str]] = []


def wrong(message: str) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        WRONG.append((function, message))
        return function

    return add


@wrong("variable `acc` carried by this loop changes type from int32 to fp32; start with a value of type fp32")
def carried_type(x_ptr, n):
    acc = tl.zeros([16], tl.int32)
    for i in range(n):  # here
        acc = acc * 0.5
    tl.store(x_ptr + tl.arange(0, 16), acc)


@wrong("variable `acc` carried by this loop changes shape from [16] to [16, 16]")
def carried_shape(x_ptr, n):
    acc = tl.zeros([16], tl.float32)
    for i in range(n):  # here
        acc = acc[:, None] + acc[None, :]


@wrong("variable `name` carried by this loop changes from 'a'")
def carried_text(x_ptr, n):
    name = "a"
    for i in range(n):  # here
        name = name + "b"


@wrong("variable `y` is assigned on one path only, and read after it")
def one_path(x_ptr, n):
    if n > 3:
        y = 1.0
    tl.store(x_ptr, y)  # here


@wrong("variable `y` is assigned inside a loop only, and read after it; give it a value before the loop")
def loop_only(x_ptr, n):
    for i in range(n):
        y = i
    tl.store(x_ptr, y)  # here


@wrong("variable `i` is the variable of a loop, and read after it")
def loop_variable(x_ptr, n):
    for i in range(n):
        pass
    tl.store(x_ptr, i)  # here


@wrong("variable `y` has type int32 after one branch of this `if` and fp32 after the other")
def branch_types(x_ptr, n):
    if n > 3:  # here
        y = n
    else:
        y = tl.load(x_ptr)
    tl.store(x_ptr, y)


@wrong("variable `y` has shape [16] after one branch of this `if` and [32] after the other")
def branch_shapes(x_ptr, n):
    if n > 3:  # here
        y = tl.arange(0, 16)
    else:
        y = tl.arange(0, 32)


@wrong("only values of the tile language may differ")
def branch_texts(x_ptr, n):
    if n > 3:  # here
        y = "a"
    else:
        y = "b"


@wrong("a loop left by break, continue or return expected conditions known when the kernel is compiled")
def run_time_break(x_ptr, n):
    for i in tl.static_range(4):
        if n > i:  # here
            break


@wrong("expected bounds known when the kernel is compiled; use a `while`")
def break_of_run_time_loop(x_ptr, n):
    for i in range(n):  # here
        if i == 3:
            break


@wrong("tl.static_assert expected a condition known when the kernel is compiled")
def run_time_assertion(x_ptr, n):
    tl.static_assert(n > 3)  # here


@wrong("`while` expected a scalar condition, got <[16], int1>")
def while_of_tile(x_ptr, n):
    x = tl.arange(0, 16)
    while x < n:  # here
        x += 1


@wrong("this `while` does not end: its condition is known when the kernel is compiled, and is still true after")
def endless(x_ptr, n):
    while True:  # here
        pass


@wrong("this `while` does not end")
def endless_with_numbers(x_ptr, n):
    i = 0
    while i >= 0:  # here
        i += 1


@wrong("this `while` does not end")
def endless_with_break(x_ptr, n):
    i = 0
    while True:  # here
        if i < 0:
            break


@wrong("a loop left by break, continue or return expected conditions known when the kernel is compiled")
def endless_with_run_time_break(x_ptr, n):
    while True:
        if tl.load(x_ptr) > 3:  # here
            break


@wrong("made inside a loop, branch or combine function is used outside of it")
def escape(x_ptr, n):
    kept = [0]
    for i in range(n):
        kept[0] = i
    tl.store(x_ptr, kept[0])  # here


@wrong("has type int32 after one branch of this `if` and fp32 after the other")
def return_types(x_ptr, n):
    tl.store(x_ptr, mixed(n))


@torch_tile.jit
def mixed(n):
    if n > 3:  # here
        return n
    return n * 0.5


@wrong("expected an integer known when the kernel is compiled, got a run-time value")
def index_of_list(x_ptr, n):
    table = [1, 2, 3]
    for i in range(n):
        tl.store(x_ptr, table[i])  # here


@wrong("expected something to iterate over, got <[16], int32>")
def iterate_over_tile(x_ptr, n):
    for v in tl.arange(0, 16):  # here
        pass


@pytest.mark.parametrize("function, message", [pytest.param(f, m, id=f.__name__) for f, m in WRONG])
def test_message_and_line(function: Any, message: str) -> None:
    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        torch_tile.jit(function)[(1,)](torch.zeros(64), 5)
    assert message in str(caught.value)
    line = line_of(mixed.fn if function is return_types else function)
    assert caught.value.line == line
    assert traceback.extract_tb(caught.value.__traceback__)[-1].lineno == line
