"""Ctrl-C ends a long call between two of its steps, and leaves nothing behind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.compiling import assert_same, compiled, tile_only
from torch_tile import _C

pytestmark = tile_only

SIDE = 512
STEPS = 60


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """Shells start jobs in the background with this signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def products(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        x = torch.tanh(x @ w)
    return x


def interrupted_after(delay: float, call: Callable[[], object]) -> float:
    """CPU seconds of this process that the call took until the signal, which a thread sends, ended it."""
    timer = threading.Timer(delay, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    began = time.process_time()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
        time.sleep(delay * 20)  # where the call was over before the signal came
    timer.join()
    return time.process_time() - began


def cpu_seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def test_long_call() -> None:
    w = torch.randn(SIDE, SIDE) / SIDE**0.5
    function = compiled(products)
    x = torch.randn(SIDE, SIDE)
    function(x, w)
    whole = cpu_seconds(lambda: function(x, w))
    if whole < 2:  # more rows, so that a call takes seconds
        x = torch.randn(SIDE * min(64, int(2 / whole) + 1), SIDE)
        function(x, w)
        whole = cpu_seconds(lambda: function(x, w))
    expected = products(x, w)
    used = _C.buffer_statistics()["used_bytes"]
    # Seconds of this machine's clock may be few of its processor's, so the signal comes early.
    assert interrupted_after(whole / 10, lambda: function(x, w)) < whole / 2
    assert _C.buffer_statistics()["used_bytes"] <= used
    assert_same(function(x, w), expected, rtol=1e-4, atol=1e-4)


def test_written_inputs_are_left_whole() -> None:
    """A call that ends early writes whole tensors or none; later calls go on from there."""
    w = torch.randn(SIDE, SIDE) / SIDE**0.5

    def step(x: torch.Tensor, count: torch.Tensor) -> None:
        x.copy_(products(x, w))
        count.add_(1)

    function = compiled(step)
    x, count = torch.randn(4 * SIDE, SIDE), torch.zeros(())
    whole = cpu_seconds(lambda: function(x, count))
    before = x.clone()
    interrupted_after(whole / 10, lambda: [function(x, count) for _ in range(20)])
    calls = int(count) - 1
    for _ in range(calls):
        before = products(before, w)
    # The last call may have written the one and not yet the other.
    assert torch.allclose(x, before, atol=1e-3) or torch.allclose(x, products(before, w), atol=1e-3)
    function(x, count)
    assert int(count) == calls + 2


def test_other_handlers_run_between_steps() -> None:
    """The handler's exception comes out of the call; one that raises nothing lets it go on."""
    seen = []
    old = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.process_time()))
    try:
        w = torch.randn(SIDE, SIDE) / SIDE**0.5
        x = torch.randn(8 * SIDE, SIDE)
        function = compiled(products)
        expected = function(x, w)
        timer = threading.Timer(0.05, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1))
        timer.start()
        assert_same(function(x, w), expected, exact=True)
        timer.join()
        assert_same(function(x, w), expected, exact=True)
        assert len(seen) == 1
    finally:
        signal.signal(signal.SIGUSR1, old)
