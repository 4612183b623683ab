"""Python in kernels: loops, branches, helpers, closures; interpreted and compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

# ruff: noqa: SIM108
Launch = Callable[[Any], Any]
WIDTH = tl.constexpr(16)


def run(launch: Launch, kernel: Any, *args: Any, size: int = 16, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    o = torch.zeros(size, dtype=dtype)
    launch(torch_tile.jit(kernel))[(1,)](o, *args)
    return o


def test_for_carries_variables(launch: Launch) -> None:
    def kernel(o_ptr, n):
        total = 0
        acc = tl.zeros([16], tl.float32)
        for i in range(n):
            total += i
            acc += i * 0.5
        for i in range(10, 0, -3):
            total += i
        for i in tl.range(0, n, 2, num_stages=3):
            total += i
        tl.store(o_ptr, total)
        tl.store(o_ptr + 1, tl.sum(acc, 0))

    o = run(launch, kernel, 5)
    assert o[0] == 10 + 22 + 6 and o[1] == 80
    assert run(launch, kernel, 0)[0] == 22


def test_while(launch: Launch) -> None:
    def kernel(o_ptr, n):
        steps = 0
        while n > 1 and steps < 100:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        tl.store(o_ptr, steps)

    assert run(launch, kernel, 27)[0] == 100
    assert run(launch, kernel, 6)[0] == 8


def test_while_carries_numbers_that_other_variables_change(launch: Launch) -> None:
    """The first turn adds the number 0, so it does not show that the sum changes."""

    def kernel(o_ptr, n):
        total = 1.0
        power = 1.0
        i = 0
        while i < n:
            total = total + i
            power = power * (i - i + 2)
            i += 1
        tl.store(o_ptr, total)
        tl.store(o_ptr + 1, power)
        while (i > 0) & (power > 3.0):
            power = power * 0.5
            i -= 1
        tl.store(o_ptr + 2, power)

    assert run(launch, kernel, 5).tolist()[:3] == [11, 32, 2]
    assert run(launch, kernel, 0).tolist()[:3] == [1, 1, 1]


def test_for_carries_numbers_that_other_variables_change(launch: Launch) -> None:
    def kernel(o_ptr, n):
        total = 0.0
        step = 0
        other = 0
        for i in range(n):
            total += step * 0.5
            step += other
            other = other + i
        tl.store(o_ptr, total)

    assert run(launch, kernel, 5)[0] == 0.5 * (0 + 0 + 0 + 1 + 4)


def test_branches(launch: Launch) -> None:
    def kernel(o_ptr, n):
        if n > 10:
            x = 1.0
            y = 2
        elif n > 5:
            x = 3.0
            y = 4
        else:
            x = 5.0
            y = 6
        tl.store(o_ptr, x)
        tl.store(o_ptr + 1, y)
        tl.store(o_ptr + 2, 7 if n > 5 else 8)
        tl.store(o_ptr + 3, (n > 3 and n < 8).to(tl.int32))
        tl.store(o_ptr + 4, (n < 3 or n > 8).to(tl.int32))
        tl.store(o_ptr + 5, (not n > 8).to(tl.int32))
        tl.store(o_ptr + 6, (3 < n < 8).to(tl.int32))
        if n == 7:
            tl.store(o_ptr + 7, 1)

    assert run(launch, kernel, 11).tolist()[:8] == [1, 2, 7, 0, 1, 0, 0, 0]
    assert run(launch, kernel, 7).tolist()[:8] == [3, 4, 7, 1, 0, 1, 1, 1]
    assert run(launch, kernel, 1).tolist()[:8] == [5, 6, 8, 0, 1, 1, 0, 0]


def test_early_return(launch: Launch) -> None:
    def kernel(o_ptr, n):
        tl.store(o_ptr, 1)
        if n > 3:
            return
        tl.store(o_ptr + 1, 1)
        if n == 2:
            tl.store(o_ptr + 2, 1)
            return
        tl.store(o_ptr + 3, 1)

    assert run(launch, kernel, 4).tolist()[:4] == [1, 0, 0, 0]
    assert run(launch, kernel, 2).tolist()[:4] == [1, 1, 1, 0]
    assert run(launch, kernel, 1).tolist()[:4] == [1, 1, 0, 1]


@torch_tile.jit
def clipped(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x


@torch_tile.jit
def swap(a, b):
    return b, a


def plain_helper(x):
    return x * 2


def test_helpers(launch: Launch) -> None:
    def kernel(o_ptr, n):
        tl.store(o_ptr, clipped(n, 3, 6))
        a, b = swap(1, n)
        tl.store(o_ptr + 1, a - b)
        tl.store(o_ptr + 2, plain_helper(n))
        square = lambda v: v * v  # noqa: E731
        tl.store(o_ptr + 3, square(n))

    assert run(launch, kernel, 1).tolist()[:4] == [3, 0, 2, 1]
    assert run(launch, kernel, 9).tolist()[:4] == [6, 8, 18, 81]
    assert run(launch, kernel, 5).tolist()[:4] == [5, 4, 10, 25]


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


def test_python_things(launch: Launch) -> None:
    def kernel(o_ptr, n, NAMES: tl.constexpr, SCALES: tl.constexpr):
        parts = [n * s for s in SCALES]
        table = {"a": 1, "b": 2}
        pair = Pair(parts[0], parts[1])
        total = pair.left + pair.right
        for k, part in enumerate(parts):
            total += part * k
        for name in NAMES:
            if name in table:
                total += table[name]
        for i in tl.static_range(4):
            if i == 3:
                break
            total += i
        if (twice := 2 * n) is not None:
            total += twice
        first, *rest = (1, 2, 3)
        total += first + len(rest)
        tl.static_assert(f"{len(NAMES)}" == "3", f"got {NAMES}")
        assert WIDTH == 16, "width"
        width: tl.constexpr = WIDTH
        tl.store(o_ptr, total + width)

    n = 3
    expected = n + 2 * n + 2 * n + 1 + 2 + 3 + 6 + 1 + 2 + 16
    assert run(launch, kernel, n, ("a", "b", "c"), (1, 2))[0] == expected


def test_builtins(launch: Launch, capfd: pytest.CaptureFixture[str]) -> None:
    def kernel(o_ptr, n):
        tl.store(o_ptr, min(n, 5))
        tl.store(o_ptr + 1, max(n, 5, 9))
        tl.store(o_ptr + 2, min(3, 4))
        tl.store(o_ptr + 3, abs(-n))
        print("n is", n)

    assert run(launch, kernel, 7).tolist()[:4] == [5, 9, 3, 7]
    out = capfd.readouterr().out
    assert "n is" in out and "7" in out


def test_nested_loops_and_branches(launch: Launch) -> None:
    def kernel(o_ptr, n):
        count = 0
        last = -1
        for i in range(n):
            for j in range(i):
                if (i + j) % 2 == 0:
                    count += 1
                    last = i * 10 + j
                else:
                    count += 100
        tl.store(o_ptr, count)
        tl.store(o_ptr + 1, last)

    count, last = 0, -1
    for i in range(6):
        for j in range(i):
            if (i + j) % 2 == 0:
                count, last = count + 1, i * 10 + j
            else:
                count += 100
    assert run(launch, kernel, 6).tolist()[:2] == [count, last]


def test_optional_arguments(launch: Launch) -> None:
    def kernel(o_ptr, bias_ptr, SCALE: tl.constexpr = 2.0, ACTIVATION: tl.constexpr = ""):
        x = tl.full([16], 3.0, tl.float32)
        if bias_ptr is not None:
            x += tl.load(bias_ptr + tl.arange(0, 16))
        if ACTIVATION == "negate":
            x = -x
        tl.store(o_ptr + tl.arange(0, 16), x * SCALE)

    assert run(launch, kernel, None)[0] == 6
    assert run(launch, kernel, torch.ones(16))[0] == 8
    assert run(launch, kernel, None, 3.0, "negate")[0] == -9


def test_scalar_types(launch: Launch) -> None:
    def kernel(o_ptr, small, large, real, flag):
        tl.static_assert(small.dtype == tl.int32)
        tl.static_assert(large.dtype == tl.int64)
        tl.static_assert(real.dtype == tl.float32)
        tl.static_assert((small + 1).dtype == tl.int32)
        tl.static_assert((small + large).dtype == tl.int64)
        tl.static_assert((small * real).dtype == tl.float32)
        tl.static_assert((small / small).dtype == tl.float32)
        half = tl.full([16], 1, tl.float16)
        tl.static_assert((half + 1).dtype == tl.float16)
        tl.static_assert((half * 2.5).dtype == tl.float16)
        tl.static_assert((half / 2).dtype == tl.float32)
        tl.static_assert((half + real).dtype == tl.float32)
        tl.static_assert((half + small).dtype == tl.float16)
        brain = half.to(tl.bfloat16)
        tl.static_assert((half + brain).dtype == tl.float16)
        tl.static_assert((tl.arange(0, 16).to(tl.uint8) + 1).dtype == tl.uint8)
        if flag:
            tl.store(o_ptr, large / 2)

    assert run(launch, kernel, 1, 2**40, 1.5, True)[0] == 2**39


def test_three_axes_of_a_grid(launch: Launch) -> None:
    @torch_tile.jit
    def kernel(o_ptr):
        x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        at = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
        tl.store(o_ptr + at, x + 10 * y + 100 * z)

    o = torch.empty(24, dtype=torch.int64)
    launch(kernel)[lambda meta: (2, 3, 4)](o)
    assert o.tolist() == [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]


def test_pointers_carried_and_selected(launch: Launch) -> None:
    def kernel(o_ptr, a_ptr, b_ptr, n):
        p = a_ptr
        total = 0.0
        for _ in range(n):
            total += tl.load(p)
            p += 1
        q = tl.where(n > 2, a_ptr, b_ptr)
        tl.store(o_ptr, total)
        tl.store(o_ptr + 1, tl.load(q))
        if n > 2:
            r = a_ptr
        else:
            r = b_ptr
        tl.store(o_ptr + 2, tl.load(r))

    a, b = torch.arange(8.0) + 1, -torch.arange(8.0) - 1
    assert run(launch, kernel, a, b, 3).tolist()[:3] == [6, 1, 1]
    assert run(launch, kernel, a, b, 2).tolist()[:3] == [3, -1, -1]


def test_masked_lanes_divide_by_zero(launch: Launch) -> None:
    def kernel(o_ptr, d_ptr, n):
        i = tl.arange(0, 16)
        d = tl.load(d_ptr + i, mask=i < n, other=0)
        tl.store(o_ptr + i, 12 // d, mask=i < n)

    o = run(launch, kernel, torch.tensor([1, 2, 3, 4], dtype=torch.int32), 4)
    assert o.tolist() == [12, 6, 4, 3] + [0] * 12


@pytest.mark.parametrize("rows, columns", [(5, 100), (3, 64)])
def test_softmax(launch: Launch, rows: int, columns: int) -> None:
    @torch_tile.jit
    def softmax(x_ptr, o_ptr, stride, n, B: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, B)
        x = tl.load(x_ptr + row * stride + i, mask=i < n, other=-float("inf"))
        x = tl.exp(x - tl.max(x, axis=0))
        tl.store(o_ptr + row * stride + i, x / tl.sum(x, axis=0), mask=i < n)

    x = torch.randn(rows, columns)
    o = torch.empty_like(x)
    launch(softmax)[(rows,)](x, o, x.stride(0), columns, B=torch_tile.next_power_of_2(columns))
    torch.testing.assert_close(o, x.softmax(1))


def test_autotune_and_heuristics(launch: Launch) -> None:
    @torch_tile.autotune(configs=[torch_tile.Config({"B": 16}), torch_tile.Config({"B": 64})], key=["n"])
    @torch_tile.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
    @torch_tile.jit
    def kernel(o_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(o_ptr + i, i + (1000 if EVEN else 0), mask=i < n)

    for n in (100, 101):
        o = torch.empty(n)
        launch(kernel)[lambda meta: (torch_tile.cdiv(meta["n"], meta["B"]),)](o, n)
        assert torch.equal(o, torch.arange(float(n)) + (1000 if n % 2 == 0 else 0))
