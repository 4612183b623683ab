"""Option `deterministic`: graphs are traced and called as under torch.use_deterministic_algorithms(True).

Kernels of graphs add in a fixed order. What varies are operators of ATen that add by atomics: torch's switch chooses
others, or makes them refuse the call. The switch is of the process, so while a call runs, operators of other threads
see it too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_tile import _C
from torch_tile.forks import lock_across_forks

_lock = lock_across_forks()
_depth = 0
_before = (False, False)
_of_thread = threading.local()


def _end() -> None:
    torch.use_deterministic_algorithms(_before[0], warn_only=_before[1])


def _forget_other_threads() -> None:
    """In a forked child: the blocks of threads that it does not have are over."""
    global _depth
    was, _depth = _depth, getattr(_of_thread, "depth", 0)
    if was > 0 and _depth == 0:
        _end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextlib.contextmanager
def deterministic(is_wanted: bool = True) -> Iterator[None]:
    """torch's switch is on inside the block; the last block to end, on any thread, puts it back."""
    global _depth, _before
    if not is_wanted:
        yield
        return
    with _lock:
        if _depth == 0:
            _before = (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            )
            torch.use_deterministic_algorithms(True)
        _depth += 1
        _of_thread.depth = getattr(_of_thread, "depth", 0) + 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            _of_thread.depth -= 1
            if _depth == 0:
                _end()


def called_deterministically(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph whose calls outside are made under torch's switch; as it is if it makes none."""
    if isinstance(compiled, _C.Program) and compiled.num_externs + compiled.num_pycalls == 0:
        return compiled

    @functools.wraps(compiled)
    def call(*args: Any) -> Any:
        with deterministic():
            return compiled(*args)

    call._boxed_call = getattr(compiled, "_boxed_call", True)  # type: ignore[attr-defined]
    return call
