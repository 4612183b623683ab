"""Faults on request: tests arm one to see that a failure at any stage is contained (frontend/containment.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

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
_wrong: tuple[str, Callable[[Any], bool]] | None = None


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


@contextlib.contextmanager
def wrong_operator(name: str, only_if: Callable[[Any], bool] = lambda settings: True) -> Iterator[None]:
    """Inside the block compiled graphs add 1 to each result of an operator, as a wrong kernel might.

    Args:
        name: the operator, as in `aten.relu.default`.
        only_if: given the settings of a graph, whether it is wrong.
    """
    global _wrong
    _wrong = name, only_if
    try:
        yield
    finally:
        _wrong = None


def is_wrong() -> bool:
    """Whether an operator is made wrong, so that nothing may be kept."""
    return _wrong is not None


def right(x: Any, _: int) -> Any:
    """What is called in place of the addition that makes an operator wrong."""
    return x.clone()


def make_wrong(gm: Any, settings: Any) -> None:
    """Makes the operator wrong that a test has asked for."""
    if _wrong is None or not _wrong[1](settings):
        return
    import torch

    for node in list(gm.graph.nodes):
        if node.op == "call_function" and str(node.target) == _wrong[0]:
            with gm.graph.inserting_after(node):
                added = gm.graph.call_function(torch.ops.aten.add.Scalar, (node, 1))
            added.meta["val"] = node.meta["val"]
            added.meta["eager"] = right  # a call outside of the kernel is not wrong
            node.replace_all_uses_with(added, delete_user_cb=lambda user, added=added: user is not added)
