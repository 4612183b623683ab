"""What the interpreter finds, and what it lets one see."""

from __future__ import annotations

import io
import pdb
import sys
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

# ruff: noqa: RUF043


@torch_tile.jit
def add(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=m) + tl.load(y_ptr + i, mask=m), mask=m)


def test_out_of_range_names_argument_index_and_program() -> None:
    x, y, o = torch.zeros(100), torch.zeros(90), torch.zeros(100)
    with pytest.raises(torch_tile.MemoryAccessError) as caught:
        add.interpret[(4,)](x, y, o, 100, B=32)
    message = str(caught.value)
    assert "tl.load reads `y_ptr` at element 90 and 5 more, outside its storage (elements 0 to 89)" in message
    assert "in program (2, 0, 0), lane 26" in message
    assert isinstance(caught.value, IndexError)


def test_far_out_of_range_does_not_crash() -> None:
    @torch_tile.jit
    def far(x_ptr, n):
        tl.store(x_ptr + n, 1.0)

    with pytest.raises(torch_tile.MemoryAccessError, match="tl.store writes `x_ptr` at element -1000000"):
        far.interpret[(1,)](torch.zeros(4), -1000000)

    @torch_tile.jit
    def wild(x_ptr):
        pointer = tl.load(x_ptr).to(tl.pointer_type(tl.float32))
        tl.store(pointer, 1.0)

    with pytest.raises(torch_tile.MemoryAccessError, match="belongs to no argument"):
        wild.interpret[(1,)](torch.tensor([16]))


def test_views_in_place() -> None:
    base = torch.arange(20.0).reshape(4, 5)
    a, b = base.split([2, 3], dim=1)
    expected = base.clone()
    expected[:, :2] += 1

    @torch_tile.jit
    def increment(x_ptr, rows, columns, stride, B: tl.constexpr):
        i = tl.arange(0, B)
        m = i < columns
        for r in range(rows):
            p = x_ptr + r * stride + i
            tl.store(p, tl.load(p, mask=m) + 1, mask=m)

    increment.interpret[(1,)](a, 4, 2, a.stride(0), B=4)
    assert torch.equal(base, expected)
    increment.interpret[(1,)](b, 4, 3, b.stride(0), B=4)
    expected[:, 2:] += 1
    assert torch.equal(base, expected)


def test_some_programs() -> None:
    o = torch.zeros(128)
    add.interpret(programs=[(3, 0, 0), 1])[(4,)](torch.ones(128), torch.ones(128), o, 128, B=32)
    assert torch.equal(o.reshape(4, 32).sum(1), torch.tensor([0.0, 64, 0, 64]))
    with pytest.raises(ValueError, match="inside the grid"):
        add.interpret(programs=[(4, 0, 0)])[(4,)](torch.ones(128), torch.ones(128), o, 128, B=32)


def test_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TILE_INTERPRET", "1")
    o = torch.zeros(8)
    seen = []

    @torch_tile.jit
    def look(o_ptr):
        seen.append(tl.load(o_ptr))
        tl.store(o_ptr, 1.0)

    look[(1,)](o)
    assert o[0] == 1 and seen[0].value == 0


def test_races() -> None:
    @torch_tile.jit
    def collide(o_ptr):
        tl.store(o_ptr + tl.arange(0, 16) // 2, tl.arange(0, 16).to(tl.float32))

    @torch_tile.jit
    def both(o_ptr):
        tl.store(o_ptr, tl.program_id(0).to(tl.float32))

    @torch_tile.jit
    def chain(o_ptr):
        p = tl.program_id(0)
        tl.store(o_ptr + p + 1, tl.load(o_ptr + p) + 1)

    @torch_tile.jit
    def shift(o_ptr):
        p = tl.program_id(0)
        tl.store(o_ptr + p, tl.load(o_ptr + p + 1))

    @torch_tile.jit
    def count(o_ptr):
        tl.atomic_add(o_ptr, 1.0)

    def run(kernel, check="races"):
        kernel.interpret(check=check)[(4,)](torch.zeros(16))

    with pytest.raises(torch_tile.RaceError, match="two elements of one tl.store go to `o_ptr` at element 0"):
        run(collide)
    with pytest.raises(torch_tile.RaceError, match=r"programs \(0, 0, 0\) and \(1, 0, 0\) both store to `o_ptr`"):
        run(both)
    with pytest.raises(torch_tile.RaceError, match=r"reads `o_ptr` at element 1, which program \(0, 0, 0\) stored"):
        run(chain)
    with pytest.raises(torch_tile.RaceError, match=r"stores to `o_ptr` at element 1, which program \(0, 0, 0\) reads"):
        run(shift)
    run(count)
    for kernel in (collide, both, chain, shift):
        run(kernel, check=())


def test_uninitialized_elements() -> None:
    @torch_tile.jit
    def total(x_ptr, o_ptr, n, OTHER: tl.constexpr, B: tl.constexpr):
        i = tl.arange(0, B)
        x = tl.load(x_ptr + i, mask=i < n, other=OTHER)
        tl.store(o_ptr, tl.sum(x, 0))

    @torch_tile.jit
    def selected(x_ptr, o_ptr, n, B: tl.constexpr):
        i = tl.arange(0, B)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(o_ptr, tl.sum(tl.where(i < n, x, 0), 0))

    x, o = torch.ones(8), torch.zeros(1)
    with pytest.raises(torch_tile.RaceError, match=r"stored to `o_ptr` at element 0 in program \(0, 0, 0\) depends"):
        total.interpret(check="uninitialized")[(1,)](x, o, 5, None, 8)
    total.interpret(check="uninitialized")[(1,)](x, o, 5, 0.0, 8)
    selected.interpret(check="uninitialized")[(1,)](x, o, 5, 8)
    assert o.item() == 5


def test_division_and_nan() -> None:
    @torch_tile.jit
    def divide(x_ptr, n):
        tl.store(x_ptr, 7 // n)

    @torch_tile.jit
    def root(x_ptr):
        tl.store(x_ptr, tl.sqrt(tl.load(x_ptr) - 1))

    x = torch.zeros(1, dtype=torch.int32)
    divide.interpret[(1,)](x, 0)
    with pytest.raises(torch_tile.InvalidKernelError, match=r"integer division by zero in program \(0, 0, 0\)"):
        divide.interpret(check="division")[(1,)](x, 0)
    with pytest.raises(torch_tile.InvalidKernelError, match="NaN is born"):
        root.interpret(check="nan")[(1,)](torch.zeros(1))
    with pytest.raises(ValueError, match="unknown check"):
        root.interpret(check="colour")[(1,)](torch.zeros(1))


def test_device_assert_is_always_checked() -> None:
    @torch_tile.jit
    def check(x_ptr, B: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, B))
        tl.device_assert(x < 3, "small")

    with pytest.raises(AssertionError, match=r"at element \(3,\) in program \(0, 0, 0\): small"):
        check.interpret[(1,)](torch.arange(4), B=4)


def test_device_print(capsys: pytest.CaptureFixture[str]) -> None:
    @torch_tile.jit
    def show(x_ptr):
        tl.device_print("x", tl.load(x_ptr + tl.arange(0, 2)))
        tl.device_print("n", tl.program_id(0), hex=True)

    show.interpret[(1,)](torch.tensor([1.5, 2.5]))
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 0, 0) idx (0) x: 1.5",
        "pid (0, 0, 0) idx (1) x: 2.5",
        "pid (0, 0, 0) n: 0x0",
    ]


def test_debugger_stops_in_the_users_frame() -> None:
    commands = io.StringIO("p v[0]\np v\np B\nwhere\nc\n")
    output = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=output, nosigint=True, readrc=False)

    @torch_tile.jit
    def stop(x_ptr, n, B: tl.constexpr):
        v = tl.load(x_ptr + tl.arange(0, B))
        if n > 3 and n < 10:
            debugger.set_trace(sys._getframe())
        tl.store(x_ptr, v.sum(0))

    stop.interpret[(1,)](torch.arange(4.0) + 1, 5, B=4)
    text = output.getvalue()
    assert "test_interpreter.py" in text and "stop(" in text
    assert "1.0" in text and "[1. 2. 3. 4.]" in text and "4" in text


def test_overlapping_storage_is_seen() -> None:
    """A view and its base are one storage: what one argument stores the other reads."""

    @torch_tile.jit
    def through(x_ptr, y_ptr):
        tl.store(x_ptr + 1, 5.0)
        tl.store(x_ptr, tl.load(y_ptr))

    base = torch.zeros(4)
    through.interpret[(1,)](base, base[1:])
    assert base[0] == 5


@torch_tile.jit
def store_scalar(x_ptr, o_ptr, B: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, B))).to(o_ptr.dtype.element_ty))
    tl.atomic_add(o_ptr + 1, tl.load(x_ptr).to(o_ptr.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int8])
def test_scalars_of_narrow_types_are_stored(launch: Any, dtype: torch.dtype) -> None:
    x, o = torch.ones(8, dtype=dtype), torch.zeros(2, dtype=dtype)
    launch(store_scalar)[(1,)](x, o, B=8)
    assert o.tolist() == [8, 1]


# --- what users do on a bad day ---------------------------------------------------------------------------------------


@torch_tile.jit
def bad_atomic(o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o_ptr + i, 1.0)


def test_atomics_outside_of_the_storage() -> None:
    expected = (
        r"line \d+: tl\.atomic_add updates `o_ptr` at element 10 and 5 more, outside its storage \(elements 0 to 9\), "
        r"in program \(1, 0, 0\), lane 2; add a mask"
    )
    with pytest.raises(torch_tile.MemoryAccessError, match=expected) as caught:
        bad_atomic.interpret[(2,)](torch.zeros(10), 10, B=8)
    assert caught.value.line == bad_atomic.fn.__code__.co_firstlineno + 3


@torch_tile.jit
def bad_division(x_ptr, o_ptr, d, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x // x + x % d)


@pytest.mark.parametrize(
    ("divisor", "expected"),
    [
        (3, r"by zero in program \(0, 0, 0\), lane 1 and 1 more: the divisor of `//`"),
        (0, r"by zero in program \(0, 0, 0\): the divisor of `%`"),
    ],
)
def test_divisions_by_zero(divisor: int, expected: str) -> None:
    x = torch.tensor([1, 0, 2, 0] if divisor else [1, 1, 2, 3])
    with pytest.raises(torch_tile.InvalidKernelError, match=expected) as caught:
        bad_division.interpret(check="division")[(1,)](x, torch.zeros(4), divisor, B=4)
    assert caught.value.line == bad_division.fn.__code__.co_firstlineno + 4


@torch_tile.jit
def unread_condition(x_ptr, o_ptr, n):
    first = tl.load(x_ptr, mask=n > 3)
    if first == 0:
        tl.store(o_ptr + tl.program_id(0), 1.0)


@torch_tile.jit
def unread_mask(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, 1.0, mask=x == 0)


def test_stores_that_depend_on_elements_which_were_not_read() -> None:
    expected = (
        r"whether program \(1, 0, 0\) makes the store to `o_ptr` in line \d+ depends on elements that a masked tl"
    )
    with pytest.raises(torch_tile.RaceError, match=expected) as caught:
        unread_condition.interpret(programs=[1], check="uninitialized")[(2,)](torch.zeros(4), torch.zeros(4), 2)
    assert caught.value.line == unread_condition.fn.__code__.co_firstlineno + 4
    expected = r"whether a store is made to `o_ptr` at element 2 in program \(0, 0, 0\) depends"
    with pytest.raises(torch_tile.RaceError, match=expected):
        unread_mask.interpret(check="uninitialized")[(1,)](torch.ones(4), torch.zeros(4), 2, B=4)
    unread_mask.interpret(check="uninitialized")[(1,)](torch.ones(4), torch.zeros(4), 4, B=4)


def test_wrong_arguments_are_named(launch: Any) -> None:
    x = torch.zeros(4)
    with pytest.raises((TypeError, ValueError), match="CPU tensors, got `o_ptr` on meta"):
        launch(bad_division)[(1,)](x.int(), torch.empty(4, device="meta"), 3, B=4)
    with pytest.raises(TypeError, match=r"expected a tensor, got an array of numpy; pass `torch\.from_numpy"):
        launch(bad_division)[(1,)](x.int().numpy(), x, 3, B=4)
    with pytest.raises(torch_tile.InvalidKernelError, match=r"expected an integer, got 4\.0 of type float"):
        launch(bad_division)[(1,)](x.int(), x, 3, B=4.0)
