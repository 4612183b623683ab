"""Races between programs, and atomic operations that order programs: a lock, a flag, a counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

Launch = Callable[[Any], Any]


@torch_tile.jit
def sum_under_lock(x_ptr, o_ptr, lock_ptr, B: tl.constexpr, TAKE: tl.constexpr, GIVE: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * B + i)
    lock = lock_ptr + row * STEP
    while tl.atomic_cas(lock, 0, 1, sem=TAKE) == 1:
        pass
    tl.store(o_ptr + i, tl.load(o_ptr + i) + x)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem=GIVE)


def run_under_lock(take: Any, give: Any, step: int = 0) -> None:
    x, o, lock = torch.randn(5, 16), torch.zeros(16), torch.zeros(5, dtype=torch.int32)
    sum_under_lock.interpret(check=True)[(5,)](x, o, lock, B=16, TAKE=take, GIVE=give, STEP=step)
    torch.testing.assert_close(o, x.sum(0))


@pytest.mark.parametrize("take", [None, "acq_rel", "acquire"])
@pytest.mark.parametrize("give", [None, "acq_rel", "release"])
def test_programs_that_take_a_lock_do_not_race(take: Any, give: Any) -> None:
    run_under_lock(take, give)


@pytest.mark.parametrize(
    ("take", "give", "step"),
    [
        ("relaxed", None, 0),
        (None, "relaxed", 0),
        ("relaxed", "relaxed", 0),
        ("release", "release", 0),
        ("acquire", "acquire", 0),
        (None, None, 1),  # a lock of each program's own
    ],
)
def test_locks_that_order_nothing(take: Any, give: Any, step: int) -> None:
    with pytest.raises(torch_tile.RaceError, match=r"program \(1, 0, 0\) reads `o_ptr` at element 0, which program"):
        run_under_lock(take, give, step)


@torch_tile.jit
def group_sums(x_ptr, o_ptr, lock_ptr, n, GROUPS: tl.constexpr, B: tl.constexpr, LOCKED: tl.constexpr):
    """The weight gradient of Triton's layer norm tutorial: rows of a group add up under the group's lock."""
    i = tl.arange(0, B)
    mask = i < n
    group = tl.program_id(0) % GROUPS
    lock, count = lock_ptr + group, lock_ptr + GROUPS + group
    o = o_ptr + group * n + i
    part = tl.load(x_ptr + tl.program_id(0) * n + i, mask=mask, other=0.0)
    if LOCKED:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(o, mask=mask)
    tl.store(o, part, mask=mask)
    tl.debug_barrier()
    if LOCKED:
        tl.atomic_xchg(lock, 0)


def test_locks_of_groups() -> None:
    x, o = torch.randn(11, 20), torch.zeros(3, 20)
    group_sums.interpret(check=True)[(11,)](x, o, torch.zeros(6, dtype=torch.int32), 20, GROUPS=3, B=32, LOCKED=True)
    torch.testing.assert_close(o.sum(0), x.sum(0))
    with pytest.raises(torch_tile.RaceError, match=r"program \(3, 0, 0\) reads `o_ptr` at element 0"):
        group_sums.interpret(check="races")[(11,)](
            x, o, torch.zeros(6, dtype=torch.int32), 20, GROUPS=3, B=32, LOCKED=False
        )


@torch_tile.jit
def last_sums(x_ptr, part_ptr, o_ptr, count_ptr, n, B: tl.constexpr, SEM: tl.constexpr):
    p = tl.program_id(0)
    tl.store(part_ptr + p, tl.load(x_ptr + p) * 2)
    if tl.atomic_add(count_ptr, 1, sem=SEM) == n - 1:
        i = tl.arange(0, B)
        tl.store(o_ptr, tl.sum(tl.load(part_ptr + i, mask=i < n, other=0.0)))


def test_the_last_program_reads_what_all_stored(launch: Launch) -> None:
    def run(kernel: Any, sem: Any) -> torch.Tensor:
        o = torch.zeros(1)
        kernel[(6,)](x, torch.zeros(6), o, torch.zeros(1, dtype=torch.int32), 6, B=8, SEM=sem)
        return o

    x = torch.arange(6.0)
    assert run(launch(last_sums), None) == 30
    assert run(last_sums.interpret(check=True), None) == 30
    for sem in ("relaxed", "acquire", "release"):
        with pytest.raises(torch_tile.RaceError, match=r"reads `part_ptr` at element 0, which program \(0, 0, 0\)"):
            run(last_sums.interpret(check="races"), sem)


@torch_tile.jit
def hand_over(x_ptr, flag_ptr, TELL: tl.constexpr, LOOK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(x_ptr, 7.0)
        TELL(flag_ptr)
    else:
        LOOK(flag_ptr)
        tl.store(x_ptr + 1, tl.load(x_ptr) + 1)


@torch_tile.jit
def tell(p):
    tl.atomic_store(p, 1)


@torch_tile.jit
def tell_relaxed(p):
    tl.atomic_store(p, 1, sem="relaxed")


@torch_tile.jit
def tell_plainly(p):
    tl.store(p, 1)


@torch_tile.jit
def tell_then_overwrite(p):
    tl.atomic_store(p, 1)
    tl.store(p, 1)


@torch_tile.jit
def tell_then_count(p):
    tl.atomic_store(p, 1)
    tl.atomic_add(p, 0, sem="relaxed")  # continues the release sequence


@torch_tile.jit
def look(p):
    tl.device_assert(tl.atomic_load(p) == 1, "the flag")


@torch_tile.jit
def look_relaxed(p):
    tl.device_assert(tl.atomic_load(p, sem="relaxed") == 1, "the flag")


@torch_tile.jit
def look_plainly(p):
    tl.device_assert(tl.load(p) == 1, "the flag")


@torch_tile.jit
def poll(p):
    tl.atomic_poll(p, 1)


@torch_tile.jit
def fail_to_swap(p):
    tl.atomic_cas(p, 5, 6)


@pytest.mark.parametrize("tell", [tell, tell_then_count], ids=lambda f: f.__name__)
@pytest.mark.parametrize("look", [look, poll, fail_to_swap], ids=lambda f: f.__name__)
def test_flags(tell: Any, look: Any) -> None:
    x = torch.zeros(2)
    hand_over.interpret(check=True)[(2,)](x, torch.zeros(1, dtype=torch.int32), TELL=tell, LOOK=look)
    assert x.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("tell", "look"),
    [
        (tell_relaxed, look),
        (tell_plainly, look),
        (tell_then_overwrite, look),
        (fail_to_swap, fail_to_swap),
        (tell, look_relaxed),
        (tell, look_plainly),
    ],
    ids=lambda f: f.__name__,
)
def test_flags_that_order_nothing(tell: Any, look: Any) -> None:
    with pytest.raises(torch_tile.RaceError, match=r"reads `x_ptr` at element 0, which program \(0, 0, 0\) stored"):
        hand_over.interpret(check="races")[(2,)](
            torch.zeros(2), torch.zeros(1, dtype=torch.int32), TELL=tell, LOOK=look
        )


@torch_tile.jit
def store_after_release(x_ptr, flag_ptr):
    p = tl.program_id(0)
    tl.atomic_add(flag_ptr, 1)
    tl.store(x_ptr, p.to(tl.float32))


def test_a_release_orders_only_what_came_before_it() -> None:
    with pytest.raises(torch_tile.RaceError, match=r"programs \(0, 0, 0\) and \(1, 0, 0\) both store to `x_ptr`"):
        store_after_release.interpret(check="races")[(2,)](torch.zeros(1), torch.zeros(1, dtype=torch.int32))


@torch_tile.jit
def relay(x_ptr, flags_ptr):
    p = tl.program_id(0)
    if p > 0:
        tl.atomic_poll(flags_ptr + p - 1, 1, sem="acquire")
    if p != 1:
        tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.atomic_xchg(flags_ptr + p, 1, sem="release")


def test_order_passes_through_programs_between() -> None:
    x = torch.zeros(1)
    relay.interpret(check=True)[(4,)](x, torch.zeros(4, dtype=torch.int32))
    assert x == 3


@torch_tile.jit
def read_by_three(x_ptr, o_ptr, flag_ptr, LATE: tl.constexpr):
    """Program 2 takes turns with program LATE alone, then stores what all three read."""
    p = tl.program_id(0)
    tl.store(o_ptr + p, tl.load(x_ptr))
    if p == LATE:
        tl.atomic_xchg(flag_ptr, 1)
    if p == 2:
        tl.atomic_poll(flag_ptr, 1)
        tl.store(x_ptr, 5.0)


@pytest.mark.parametrize("late", [0, 1])
def test_readers_that_nothing_orders(late: int) -> None:
    expected = rf"program \(2, 0, 0\) stores to `x_ptr` at element 0, which program \({1 - late}, 0, 0\) reads"
    with pytest.raises(torch_tile.RaceError, match=expected):
        read_by_three.interpret(check="races")[(3,)](
            torch.zeros(1), torch.zeros(3), torch.zeros(1, dtype=torch.int32), LATE=late
        )


@torch_tile.jit
def lock_behind_a_pointer(table_ptr, x_ptr):
    """The lock's address comes from memory, so the interpreter does not know its argument."""
    lock = tl.load(table_ptr).to(tl.pointer_type(tl.int32))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.atomic_xchg(lock, 0)


@torch_tile.jit
def lock_behind_a_pointer_of_an_argument(table_ptr, x_ptr, lock_ptr):
    lock_behind_a_pointer(table_ptr, x_ptr)


def test_locks_behind_pointers() -> None:
    lock, x = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    lock_behind_a_pointer_of_an_argument.interpret(check="races")[(3,)](torch.tensor([lock.data_ptr()]), x, lock)
    assert x == 3


@torch_tile.jit
def row_locks(o_ptr, lock_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(lock_ptr + i, 1, mask=i > 0)
    tl.store(o_ptr + i, tl.load(o_ptr + i, mask=i > 0, other=0) + 1, mask=i > 0)
    tl.atomic_add(lock_ptr + i, 1, mask=i > 0)


def test_tiles_of_atomics() -> None:
    o = torch.zeros(16)
    row_locks.interpret(check=True)[(3,)](o, torch.zeros(16, dtype=torch.int32), B=16)
    assert o.tolist() == [0] + [3] * 15


def test_orders_of_compare_and_swap_are_checked(launch: Launch) -> None:
    @torch_tile.jit
    def swap(x_ptr):
        tl.atomic_cas(x_ptr, 0, 1, sem="sequential")

    with pytest.raises(torch_tile.InvalidKernelError, match=r"tl\.atomic_cas expected sem to be one of"):
        launch(swap)[(1,)](torch.zeros(1, dtype=torch.int32))
