"""Option `deterministic`: graphs are traced and called as under torch.use_deterministic_algorithms(True).

Kernels of graphs add in a fixed order. What varies are operators of ATen that add by atomics: torch's switch chooses
others, or makes them refuse the call. The switch is of the process, so while a call runs, operators of other threads
see it too.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_tile import _C

_lock = threading.Lock()
_depth = 0
_before = (False, False)


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
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                torch.use_deterministic_algorithms(_before[0], warn_only=_before[1])


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
