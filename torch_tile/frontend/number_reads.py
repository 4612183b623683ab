"""Integers that a graph reads from tensors where Dynamo does not break it: `n.tolist()` of a tensor of no dimension.

Dynamo knows the value of such an input by a symbol, and keeps the reading in its graph. AOTAutograd's copies of the
input do not know it, and refuse the reading unless `capture_scalar_outputs` is set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def allowed() -> Iterator[None]:
    """While AOTAutograd traces, what a graph reads from a tensor is a number that its run gives."""
    context = torch._guards.TracingContext.try_get()
    mode = context.fake_mode if context else None
    if mode is None or mode.allow_scalar_outputs:
        yield
        return
    mode.allow_scalar_outputs = True
    try:
        yield
    finally:
        mode.allow_scalar_outputs = False
