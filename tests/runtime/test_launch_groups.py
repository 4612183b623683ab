"""Launches that share a parallel region: which do, that order is kept where it matters, errors."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from .artifact_builder import Builder, Slot

SIZE, BLOCK = 640, 64
COST = 3000  # ns of a program: ten of them to a launch
MEDIUM = 100_000


def digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


@pytest.fixture(params=[1, 2, 7], ids=lambda n: f"{n} threads")
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


class Adds(Builder):
    """Programs of additions, and what they should give."""

    def __init__(self, code: bytes, num_inputs: int) -> None:
        super().__init__()
        self.number = self.kernel("add", "addKernel", digest("add"), code)
        self.arguments = [torch.randn(SIZE) for _ in range(num_inputs)]
        self.values = {self.input([SIZE]): x.clone() for x in self.arguments}

    def add(self, x: Slot, y: Slot, out: Slot | None = None, cost_ns: int = COST) -> Slot:
        out = out or self.alloc([SIZE])
        self.launch(self.number, [x, y, out], [BLOCK, SIZE], SIZE // BLOCK, cost_ns)
        self.values[out] = self.values[x] + self.values[y]
        return out

    def check(self, runtime: ModuleType, results: list[Slot], **options: bool) -> list[list[int]]:
        for slot in results:
            self.output(slot)
        program = runtime.load_artifact(self.build(), [], **options)
        for _ in range(5):
            arguments = [x.clone() for x in self.arguments]
            given = list(arguments)
            for got, slot in zip(program(given), results, strict=True):
                assert torch.equal(got, self.values[slot])
            for x, slot in zip(arguments, self.values, strict=False):
                assert torch.equal(x, self.values[slot])
        return program.launch_groups


def test_levels(runtime: ModuleType, kernel_code: bytes, threads: int) -> None:
    b = Adds(kernel_code, 3)
    x, y, z = b.values
    results = []
    for _ in range(4):
        first = b.add(x, y)
        results.append(b.add(first, z))
    assert b.check(runtime, results) == [[4, 4]]


def test_chain_keeps_its_steps(runtime: ModuleType, kernel_code: bytes) -> None:
    b = Adds(kernel_code, 2)
    x, y = b.values
    for _ in range(4):
        x = b.add(x, y)
    assert b.check(runtime, [x]) == []


def test_writes_wait_for_reads(runtime: ModuleType, kernel_code: bytes, threads: int) -> None:
    b = Adds(kernel_code, 3)
    x, y, z = b.values
    first = b.add(x, y)
    b.add(y, z, out=x)  # x is read by the launch before
    second = b.add(x, z)
    third = b.add(y, z)
    assert b.check(runtime, [first, second, third]) == [[2, 1, 1]]


def test_long_launches_stand_alone(runtime: ModuleType, kernel_code: bytes, threads: int) -> None:
    b = Adds(kernel_code, 2)
    x, y = b.values
    results = [b.add(x, y), b.add(y, y), b.add(x, x, cost_ns=MEDIUM), b.add(x, y), b.add(x, x)]
    assert b.check(runtime, results) == [[2], [2]]


def test_freed_slots(runtime: ModuleType, kernel_code: bytes, threads: int) -> None:
    b = Adds(kernel_code, 2)
    x, y = b.values
    results = []
    for _ in range(3):
        first, second = b.add(x, y), b.add(y, y)
        results.append(b.add(first, second))
        b.free(first)
        b.free(second)
    assert b.check(runtime, results, poison=True) == [[6, 3]]


def test_much_memory_is_not_held(runtime: ModuleType, kernel_code: bytes) -> None:
    b = Adds(kernel_code, 2)
    x, y = b.values
    results = []
    for _ in range(6):
        large = b.alloc([600_000])  # 2.4 MB, which nothing reads
        results.append(b.add(x, y))
        b.free(large)
    assert [sum(levels) for levels in b.check(runtime, results)] == []


@pytest.mark.parametrize(("elements", "groups"), [(1000, [[4]]), (30_000, [])])
def test_the_peak_is_not_raised(
    runtime: ModuleType, kernel_code: bytes, elements: int, groups: list[list[int]]
) -> None:
    """What launches free one by one is not held until the last of them, unless all of it is little."""
    b = Adds(kernel_code, 2)
    x, y = b.values
    results = []
    for _ in range(4):
        temporary = b.alloc([elements])
        results.append(b.add(x, y))
        b.free(temporary)
    assert b.check(runtime, results) == groups


def test_where_the_peak_is_elsewhere_launches_are_grouped(runtime: ModuleType, kernel_code: bytes) -> None:
    b = Adds(kernel_code, 2)
    x, y = b.values
    results = []
    for _ in range(4):
        temporary = b.alloc([30_000])
        results.append(b.add(x, y))
        b.free(temporary)
    large = b.alloc([200_000])
    results.append(b.add(x, y, cost_ns=MEDIUM))
    b.free(large)
    assert b.check(runtime, results) == [[4]]


def test_what_no_launch_of_a_group_uses_is_freed_before_it(runtime: ModuleType, kernel_code: bytes) -> None:
    b = Adds(kernel_code, 2)
    x, y = b.values
    first = b.add(x, y, cost_ns=MEDIUM)
    results = [b.add(first, y, cost_ns=MEDIUM)]
    b.free(first)
    results += [b.add(x, y), b.add(y, y)]
    for slot in results:
        b.output(slot)
    program = runtime.load_artifact(b.build(), [])
    assert program.launch_groups == [[2]]
    kinds = [step[0] for step in runtime.planned_steps(program, {})]
    assert kinds[2:8] == ["alloc", "launch", "alloc", "launch", "free", "alloc"]


def test_slots_that_may_share_memory(runtime: ModuleType, kernel_code: bytes, threads: int) -> None:
    b = Adds(kernel_code, 2)
    x, y = b.values
    z = b.add(x, y)
    (view,) = b.extern("aten::view", [z, [SIZE]], [[SIZE]])
    b.values[view] = b.values[z]
    b.share(z, 0)
    b.share(view, 1, 0)
    first = b.add(view, y)
    b.add(x, x, out=z)  # the memory of the view
    second = b.add(y, y)
    assert b.check(runtime, [first, second, z]) == [[2, 1]]


def test_lowest_failure_speaks(runtime: ModuleType, kernel_code: bytes, threads: int) -> None:
    b = Builder()
    k = b.kernel("gather", "gatherKernel", digest("gather"), kernel_code)
    table = b.input([5])
    indices = [b.input([64], dtype="i64") for _ in range(8)]
    for index in indices:
        out = b.alloc([64])
        b.launch(k, [table, index, out], [5], 64, 1000, scratch=64)
        b.output(out)
    program = runtime.load_artifact(b.build(), [])
    assert program.launch_groups == [[8]]
    x, given = torch.randn(5), [torch.randint(5, (64,)) for _ in indices]
    for out, index in zip(program([x, *given]), given, strict=True):
        assert torch.equal(out, x[index])
    given[3][5], given[3][60], given[6][0] = 7, 8, 9
    for _ in range(20):
        with pytest.raises(IndexError, match="index 7 is out of bounds for dimension with size 5"):
            program([x, *given])


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(runtime: ModuleType, kernel_code: bytes, threads: int, seed: int) -> None:
    choose = random.Random(seed)
    b = Adds(kernel_code, 4)
    slots = list(b.values)
    live = list(slots)
    for _ in range(40):
        x, y = choose.choice(live), choose.choice(live)
        out = choose.choice([None, None, choose.choice(live)])
        if out is not None and out in (x, y):
            out = None
        result = b.add(x, y, out, choose.choice([10, COST, COST, 2 * COST]))
        if result not in live:
            live.append(result)
        if len(live) > 12:
            gone = choose.choice(live[4:])
            live.remove(gone)
            b.free(gone)
    b.check(runtime, live, poison=choose.random() < 0.5)


def test_profiler_sees_each_kernel_of_a_group(runtime: ModuleType, kernel_code: bytes, threads: int) -> None:
    """Each once, with the shapes of its arguments, and on the threads that run them: what is profiled is what runs."""
    b = Adds(kernel_code, 2)
    x, y = b.values
    for slot in [b.add(x, y) for _ in range(6)]:
        b.output(slot)
    program = runtime.load_artifact(b.build(), [])
    assert program.launch_groups == [[6]]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        for _ in range(5):
            program(list(b.arguments))
    events = [event for event in profile.events() if event.name == "add"]
    assert len(events) == 30
    assert all(event.input_shapes == [[SIZE]] * 3 for event in events)
    used = {event.thread for event in profile.events() if event.name.startswith("add")}
    assert (len(used) > 1) == (threads > 1)
