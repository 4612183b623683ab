"""Which schedules `max_autotune` keeps, with programs whose times are given. The CPU has one schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torch_tile import _C, config
from torch_tile.debug import record
from torch_tile.errors import OutOfResources
from torch_tile.frontend import time_schedules

Times = Callable[[Sequence[int]], list[tuple[str, float]]]


class Program:
    """Launches take the times that are given for their schedules."""

    def __init__(self, schedules: Sequence[int], times: Times) -> None:
        self.launched = times(schedules)
        self.num_launches = len(self.launched)
        self.writes_inputs = False
        self.kernels = [
            {"name": name, "hash": f"{name} {n}"} for (name, _), n in zip(self.launched, schedules, strict=True)
        ]

    def __call__(self, inputs: list[Any]) -> None:
        assert len(inputs) == 1


def search(monkeypatch: pytest.MonkeyPatch, times: Times, count: int, seconds: float = 10) -> list[int] | None:
    def launches(call: Callable[[], Any], names: list[str], device: str) -> list[tuple[str, float]]:
        call()
        return running[-1].launched

    running: list[Program] = []

    def run(self: Program, inputs: list[Any]) -> None:
        running.append(self)

    def compile_with(schedules: Sequence[int]) -> Program:
        return Program(schedules, times)

    monkeypatch.setattr(_C, "time_launches", launches)
    monkeypatch.setattr(Program, "__call__", run)
    gm = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.zeros(3))
    graph: Any = SimpleNamespace(device="cpu", constants=[])
    program: Any = compile_with([0] * count)
    end = time.perf_counter() + seconds
    return time_schedules._search(gm, graph, program, compile_with, end)  # type: ignore[arg-type]


def test_each_kernel_keeps_its_fastest_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"a": {0: 100.0, 3: 60.0, 5: 80.0}, "b": {0: 50.0, 5: 30.0}, "c": {0: 20.0, 1: 19.8}}

    def times(schedules: Sequence[int]) -> list[tuple[str, float]]:
        return [(name, table[name].get(n, 200.0)) for name, n in zip(("a", "b", "c", "a"), schedules, strict=True)]

    assert search(monkeypatch, times, 4) == [3, 5, 0, 3]


def test_what_was_fast_by_chance_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(schedules: Sequence[int]) -> list[tuple[str, float]]:
        return [("a", 40.0 if all(n == 2 for n in schedules) else 100.0), ("b", 40.0 if schedules[1] == 1 else 100.0)]

    assert search(monkeypatch, times, 2) == [0, 1]


def test_short_kernels_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(monkeypatch, lambda schedules: [("a", 4.0 if schedules[0] == 1 else 7.0)], 1) == []


def test_no_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(monkeypatch, lambda schedules: [("a", 50.0 if schedules[0] else 100.0)], 1, seconds=-1) is None


def test_schedules_that_do_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(schedules: Sequence[int]) -> list[tuple[str, float]]:
        if schedules[0] == 1:
            raise OutOfResources("codegen", "shared memory")
        return [("a", 50.0 if schedules[0] == 2 else 100.0)]

    assert search(monkeypatch, times, 1) == [2]


@pytest.mark.parametrize(
    ("function", "safe"),
    [
        (lambda x, i: x[i] + 1, True),
        (lambda x, i: x[i.view(-1).long()] + 1, True),
        (lambda x, i: torch.nn.functional.embedding(i, x), True),
        (lambda x, i: x[i - 1], False),
        (lambda x, i: x[x.argmax(0)], False),
        (lambda x, i: x.scatter_add(0, i[:, None] + 1, x), False),
        (lambda x, i: (x * i[:, None]).softmax(0), True),
        (lambda x, i: x.max(0)[0] + x.split(1)[0], True),
        (lambda x, i: torch._assert_async((x > 0).all()), False),
        (lambda x, i: torch.cat([i + 1, i * 2]), True),
        (lambda x, i: (i + 1).sum() + (i - 1).flip(0).cumsum(0), True),
        (lambda x, i: torch.nn.functional.pad(i + 1, (1, 1)), True),
        (lambda x, i: x.gather(0, (i + 1)[:, None]), False),
        (lambda x, i: (i + 1).gather(0, i), True),
        (lambda x, i: (i + 1).index_select(0, i - 1), False),
        (lambda x, i: torch.bincount(i + 1, minlength=4), False),
        (lambda x, i: torch.nn.functional.embedding(i + 1, x), False),
        (lambda x, i: x.index_put((i,), x), True),
        (lambda x, i: x.index_put((i + 1,), x), False),
    ],
)
def test_indices_are_zeros_or_the_graph_is_not_run(function: Callable[..., Any], safe: bool) -> None:
    gm = make_fx(function, tracing_mode="fake")(torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))
    assert all(time_schedules._is_safe(node) for node in gm.graph.nodes if node.op == "call_function") is safe


def test_the_cpu_has_one_schedule() -> None:
    gm = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.zeros(3))
    settings = config.resolve(None, {"max_autotune": True})
    assert not time_schedules.are_timed(gm, _C.print_graph(gm), settings)


def test_times_of_launches() -> None:
    """On the CPU by the host's clock."""
    compiled = torch.compile(lambda x: (x + 1).sum(0), backend="tile")
    x = torch.randn(1000, 1000)
    with record.recording() as records:
        torch.compiler.reset()
        compiled(x)
    names = [kernel.name for graph in records for kernel in graph.kernels]
    found = _C.time_launches(lambda: compiled(x), names, "cpu")
    assert [name for name, _ in found] == names and all(us > 1 for _, us in found)
    assert _C.time_launches(lambda: compiled(x), [], "cpu") == []
    with pytest.raises(ZeroDivisionError):
        _C.time_launches(lambda: 1 // 0, names, "cpu")
    assert len(_C.time_launches(lambda: compiled(x), names, "cpu")) == len(names)


def test_constants_keep_their_values() -> None:
    """Integers that are made for a call are 0 before each run; those that the graph holds are the user's."""
    index, constant = torch.tensor([3, 4]), torch.tensor([1, 2])
    inputs = time_schedules._Inputs([index], [constant])
    assert [value.tolist() for value in inputs.fresh()] == [[0, 0], [1, 2]]
    assert constant.tolist() == [1, 2]
