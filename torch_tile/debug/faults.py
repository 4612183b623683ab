"""Faults on request: tests arm one to see that a failure at any stage is contained (frontend/containment.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch_tile import _C

PYTHON_KINDS: dict[str, type[Exception]] = {
    "exception": KeyError,
    "bad_alloc": MemoryError,
    "logic_error": RecursionError,
    "assert": AssertionError,
}
"""Kinds of faults in Python; those of the extension and of the compiler are in csrc/compiler/driver/Guard.h."""


class Fault:
    """One armed fault. `reached` counts, once it is over."""

    def __init__(self, stage: str, kind: str) -> None:
        self.stage, self.kind, self.reached = stage, kind, 0


_armed: Fault | None = None


def point(stage: str) -> None:
    """Fails if a test asked for that here."""
    if _armed is not None and _armed.stage == stage:
        _armed.reached += 1
        raise PYTHON_KINDS.get(_armed.kind, KeyError)("injected fault")


@contextlib.contextmanager
def injected(stage: str, kind: str) -> Iterator[Fault]:
    """Inside the block the stage fails whenever it is reached, in Python, the extension or the compiler."""
    global _armed
    fault = _armed = Fault(stage, kind)
    _C.inject_fault(f"{stage}:{kind}")
    try:
        yield fault
    finally:
        _armed = None
        fault.reached += _C.inject_fault("")
