"""A fork in the middle of compiles, loads, stores and calls of other threads: parent and child go on."""

from __future__ import annotations

import os
import re

import pytest

from tests.compiling import ROOT, run_python, tile_only

pytestmark = [tile_only, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

# Threads that compile, store, load, launch and free without end, while the main thread forks. They go round Dynamo,
# whose own lock a child would inherit.
_BUSY = """
import itertools, os, signal, threading, torch, torch_tile
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_tile import _C, config

torch.set_num_threads(1)
stop = False
numbers = itertools.count(3)
folder = config.resolve().cache_dir()
with FakeTensorMode() as mode:
    text = _C.print_graph(make_fx(lambda x: torch.sin(x) * 1234.5)(mode.from_tensor(torch.ones(7)))).text
assert "1234.5" in text or "1.2345" in text, text

def compiled(number):
    text_of = text.replace("1234.5", f"{number}.0").replace("1.234500e+03", f"{number}.0")
    return _C.compile_graph(text_of, {}, folder, 1 << 30, None, [])

def check(program, number, x=torch.ones(7)):
    assert torch.allclose(program([x])[0], torch.sin(x) * number)

shared = torch.compile(lambda x: torch.exp(x) + 1, backend="tile", options={"strict": True})
x = torch.ones(1 << 18)
expected = torch.exp(x) + 1
assert torch.equal(shared(x), expected)

def compile_and_load():
    while not stop:
        number = next(numbers)
        check(compiled(number), number)

def call():
    while not stop:
        assert torch.equal(shared(x), expected)

def child():
    # Whatever the other threads were in the middle of: everything works here.
    signal.alarm(100)
    assert torch.equal(shared(x), expected)
    check(compiled(2), 2)
    number = os.getpid() + 10**6
    check(compiled(number), number)
    torch_tile.counters.add("children")
    _C.flush_disk_cache()
    torch_tile.empty_cache()
"""


# Threads compile and call without end while children are forked: on a machine with other work one run takes minutes.
@pytest.mark.slow
def test_fork_in_the_middle() -> None:
    done = run_python(
        _BUSY
        + """
threads = [threading.Thread(target=f) for f in (compile_and_load, call)]
for t in threads: t.start()
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
stop = True
for t in threads: t.join()
assert torch.equal(shared(x), expected)
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


def test_static_locks_survive_a_fork() -> None:
    """A file with a lock that lives as long as the process says what a child does with it."""
    unsafe = []
    for path in (ROOT / "csrc" / "runtime").rglob("*.cpp"):
        text = path.read_text()
        is_static = re.search(r"^\s*static std::(recursive_)?mutex|^std::mutex|->mutex|\(\)\.mutex", text, re.MULTILINE)
        if is_static and "pthread_atfork" not in text:
            unsafe.append(path.name)
    assert not unsafe
