"""What threads make at the same time and all use: launchers, packed weights, frozen programs, kernels, compiles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
from tests.compiling import assert_same, compiled, tile_only
from torch_tile import _C
from torch_tile import language as tl

pytestmark = tile_only

THREADS = 8


def together(work: Callable[[int], None]) -> None:
    """Runs `work(index)` on all threads, begun at the same moment; the first failure is raised here."""
    barrier = threading.Barrier(THREADS)
    failures: list[BaseException] = []

    def run(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@torch_tile.jit
def add_one(x: Any, o: Any, n: Any, SIZE: tl.constexpr) -> None:  # type: ignore[valid-type]
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(o + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def test_first_aliased_launch() -> None:
    """Eight threads at once find that a launcher has no code for shared memory; none runs what another replaces."""
    size = 4096
    made: list[bytes] = []
    original = _C.compile_kernel

    def keep(*args: Any, **kwargs: Any) -> bytes:
        made.append(original(*args, **kwargs))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_C, "compile_kernel", keep)
        x = torch.zeros(size)
        add_one[(size // 16,)](x, torch.empty(size), size, SIZE=16)
        add_one[(size // 16,)](x, x, size, SIZE=16)
    distinct, aliased = made
    add_one.launchers.clear()  # so that each launcher below links its code anew

    def make_aliased() -> bytes:
        time.sleep(0.001)  # until all threads are here
        return aliased

    for _ in range(15):
        launcher = _C.make_launcher(distinct, "aaa", 0, make_aliased)

        def work(index: int, launcher: Any = launcher) -> None:
            y = torch.full((size,), float(index))
            for _ in range(4):
                launcher(size // 16, 1, 1, y, y, size)
            assert_same(y, torch.full((size,), index + 4.0), exact=True)

        together(work)
        del launcher, work


def test_first_packed_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are packed by the first call that gains by it. Programs are made anew, and called without Dynamo."""
    made: list[tuple[Any, ...]] = []
    given: list[Any] = []
    original = _C.freeze_program

    def freeze(*args: Any) -> Any:
        made.append(args)

        def call(inputs: list[Any]) -> Any:
            given[:] = inputs
            return original(*args)(inputs)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    monkeypatch.setattr(_C, "freeze_program", freeze)
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))
    x = torch.randn(64, 512)
    with torch.no_grad():
        expected = model(x)
        assert_same(compiled(model, freezing=True, matmul_library="onednn")(x), expected, rtol=1e-4, atol=1e-4)
        for _ in range(5):
            program = original(*made[0])

            def work(index: int, program: Any = program) -> None:
                for _ in range(5):
                    assert program.num_packed in (0, 1, 2)
                    assert_same(program(list(given))[0], expected, rtol=1e-4, atol=1e-4)

            together(work)
            assert program.num_packed == (2 if _C.prefers_onednn("onednn") else 0)


def test_frozen_parameters_change_under_threads() -> None:
    """All threads find the program stale at once: one makes the next, the others take it."""
    model = torch.nn.Linear(64, 64)
    x = torch.randn(4, 64)
    with torch.no_grad():
        function = compiled(model, freezing=True)
        function(x)
        for _ in range(4):
            model.weight.mul_(1.5)
            expected = model(x)

            def work(index: int, expected: torch.Tensor = expected) -> None:
                with torch.no_grad():
                    for _ in range(10):
                        assert_same(function(x), expected, rtol=1e-5, atol=1e-5)

            together(work)


def test_compiles_and_calls() -> None:
    """Threads compile equal and different graphs, call each other's, and let theirs die."""
    shared = compiled(lambda x: torch.softmax(x * 3, -1))
    x = torch.randn(33, 65)
    expected = torch.softmax(x * 3, -1)
    shared(x)

    def work(index: int) -> None:
        for turn in range(4):
            k = index % 3 + turn
            own = compiled(eval(f"lambda x: torch.exp(x) * {k} + {k}", {"torch": torch}))  # code of its own
            assert_same(own(x), torch.exp(x) * k + k)
            assert_same(shared(x), expected)
            del own

    together(work)


def test_first_import_of_operators() -> None:
    """Tables of the importer are made when the first graph is read."""
    from tests.compiling import run_python

    run_python(
        """
        import threading, torch
        def work(k):
            f = torch.compile(lambda x: torch.sin(x) * k, backend="tile", options={"strict": True})
            x = torch.ones(5)
            assert torch.allclose(f(x), torch.sin(x) * k)
            done.append(k)
        torch._dynamo.lookup_backend("tile")  # torch's table of backends does not bear two first look-ups at once
        done = []
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert len(done) == 8
        """,
        imports=False,
    )
