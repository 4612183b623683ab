"""Keeps Dynamo from tracing the compiler and compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def untraced(function: Callable[..., Any], reason: str) -> Callable[..., Any]:
    """The function, run as it is wherever Dynamo would trace it."""
    result: Callable[..., Any] = torch._dynamo.disable(function, reason=reason)  # type: ignore[no-untyped-call]
    if getattr(function, "_boxed_call", False):
        result._boxed_call = True  # type: ignore[attr-defined]  # a property of the type, which wrapping does not copy
    for name in ("_fx_graph_cache_key", "_fx_graph_cache_debug_lines"):
        if hasattr(function, name):
            setattr(result, name, getattr(function, name))
    return result
