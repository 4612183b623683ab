"""A fork in the middle of compiles, loads, stores and calls of other threads: parent and child go on."""

from __future__ import annotations

import os
import re

import pytest

from tests.compiling import ROOT, run_python, tile_only

pytestmark = [tile_only, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

# Threads that compile, store, load, launch and free without end, while the main thread forks. None of them calls by way
# of Dynamo: each function has a lock there (RootGuardManager) that a thread keeps while it waits for Python's, so a
# child that calls the same function would wait for a thread that it does not have.
_BUSY = """
import faulthandler, itertools, os, threading, torch, torch_tile
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_tile import _C, config

torch.set_num_threads(1)
stop = False
numbers = itertools.count(3)
folder = config.resolve().cache_dir()

def printed(function, x):
    with FakeTensorMode() as mode:
        return _C.print_graph(make_fx(function)(mode.from_tensor(x))).text

def loaded(text):
    return _C.compile_graph(text, {}, folder, 1 << 30, None, [])

text = printed(lambda x: torch.sin(x) * 1234.5, torch.ones(7))
assert "1234.5" in text or "1.2345" in text, text

def compiled(number):
    return loaded(text.replace("1234.5", f"{number}.0").replace("1.234500e+03", f"{number}.0"))

def check(program, number, x=torch.ones(7)):
    assert torch.allclose(program([x])[0], torch.sin(x) * number)

x = torch.ones(1 << 18)
shared = loaded(printed(lambda x: torch.exp(x) + 1, x))
expected = torch.exp(x) + 1
assert torch.equal(shared([x])[0], expected)

def compile_and_load():
    while not stop:
        number = next(numbers)
        check(compiled(number), number)

def call():
    while not stop:
        assert torch.equal(shared([x])[0], expected)

def child():
    # Whatever the other threads were in the middle of: everything works here.
    faulthandler.dump_traceback_later(100, exit=True)
    assert torch.equal(shared([x])[0], expected)
    check(compiled(2), 2)
    number = os.getpid() + 10**6
    check(compiled(number), number)
    torch_tile.counters.add("children")
    _C.flush_disk_cache()
    torch_tile.empty_cache()
"""


def test_fork_in_the_middle() -> None:
    done = run_python(
        _BUSY
        + """
threads = [threading.Thread(target=f) for f in (compile_and_load, call)]
for t in threads: t.start()
try:
    for i in range(12):
        threading.Event().wait(0.07)
        pid = os.fork()
        if pid == 0:
            try:
                child()
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        assert status == 0, (i, status)
finally:
    stop = True # the process does not end before its threads
    for t in threads: t.join()
assert torch.equal(shared([x])[0], expected)
print("fine")
"""
    )
    assert "fine" in done


def test_data_loader_workers() -> None:
    done = run_python(
        """
        import torch, torch_tile

        function = torch.compile(lambda x: torch.tanh(x) * 2, backend="tile", options={"strict": True})
        function(torch.ones(1 << 18))

        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                x = torch.full((1 << 18,), float(i))
                own = torch.compile(lambda x: x + 1, backend="tile", options={"strict": True})
                return own(function(x))

        for workers in (2, 2):
            loader = torch.utils.data.DataLoader(
                Items(), batch_size=2, num_workers=workers, multiprocessing_context="fork"
            )
            seen = torch.cat(list(loader))
            expected = torch.stack([torch.tanh(torch.full((1 << 18,), float(i))) * 2 + 1 for i in range(8)])
            assert torch.allclose(seen, expected), (seen - expected).abs().max()
            assert torch.allclose(function(torch.ones(1 << 18)), torch.tanh(torch.ones(1 << 18)) * 2)
        print("fine")
        """
    )
    assert "fine" in done


def test_a_child_forked_while_a_thread_has_the_lock() -> None:
    done = run_python(
        """
        import os, threading, time
        from torch_tile.debug import trace
        from torch_tile.frontend import deterministic
        from torch_tile.language import source_trees

        for lock in (trace._lock, deterministic._lock, source_trees.TREE_LOCK):
            has_begun = threading.Event()
            def hold():
                with lock:
                    has_begun.set()
                    time.sleep(0.2)
            thread = threading.Thread(target=hold)
            thread.start()
            has_begun.wait()
            pid = os.fork()
            if pid == 0:
                os._exit(0 if lock.acquire(timeout=10) else 1)
            assert os.waitpid(pid, 0)[1] == 0
            thread.join()
            assert not lock.locked()
        print("fine")
        """
    )
    assert "fine" in done


def test_deterministic_blocks_of_other_threads_are_over_in_a_child() -> None:
    done = run_python(
        """
        import os, threading, torch
        from torch_tile.frontend.deterministic import deterministic

        has_begun, may_end = threading.Event(), threading.Event()
        def hold():
            with deterministic():
                has_begun.set()
                may_end.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        has_begun.wait()

        def forked(check):
            pid = os.fork()
            if pid == 0:
                try:
                    check()
                finally:
                    os._exit(0 if fine else 1)
            assert os.waitpid(pid, 0)[1] == 0

        fine = False
        def none_is_open():
            global fine
            assert not torch.are_deterministic_algorithms_enabled()
            with deterministic():
                assert torch.are_deterministic_algorithms_enabled()
            fine = not torch.are_deterministic_algorithms_enabled()
        forked(none_is_open)

        def own_is_open():
            global fine
            fine = torch.are_deterministic_algorithms_enabled()
        with deterministic():
            forked(own_is_open)
        may_end.set()
        thread.join()
        assert not torch.are_deterministic_algorithms_enabled()
        print("fine")
        """
    )
    assert "fine" in done


def test_static_locks_survive_a_fork() -> None:
    """A file with a lock that lives as long as the process says what a child does with it."""
    unsafe = []
    for path in (ROOT / "torch_tile").rglob("*.py"):
        text = path.read_text()
        if re.search(r"threading\.R?Lock\(\)", text) and "register_at_fork" not in text:
            unsafe.append(path.name)
    for path in (ROOT / "csrc" / "runtime").rglob("*.cpp"):
        text = path.read_text()
        is_static = re.search(r"^\s*static std::(recursive_)?mutex|^std::mutex|->mutex|\(\)\.mutex", text, re.MULTILINE)
        if is_static and "pthread_atfork" not in text:
            unsafe.append(path.name)
    assert not unsafe
