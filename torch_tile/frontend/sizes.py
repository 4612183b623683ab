"""Text of sizes that go through floating point; facts from strides that need no guard."""

from __future__ import annotations

from typing import Any

import torch
from sympy.printing.str import StrPrinter


class _ExactFloats(StrPrinter):  # type: ignore[misc]
    """Floats with all their digits; sympy's own text keeps 15."""

    def _print_Float(self, expression: Any) -> str:
        return repr(float(expression))


def exact_text(expression: Any) -> str:
    return str(_ExactFloats().doprint(expression))


def has_strides_of(value: torch.Tensor, memory_format: torch.memory_format) -> bool:
    """Whether a fake tensor is stored in this order for certain: asked without a guard, and told from others by the
    strides of dimensions of one element, as operators tell it."""
    with torch.no_grad():
        like = torch.empty_like(value, memory_format=memory_format)
    return str(tuple(like.stride())) == str(tuple(value.stride()))


def hint_of(value: Any) -> Any:
    """The number that a size was traced with; what is no size as it is."""
    if not isinstance(value, torch.SymInt):
        return value
    from torch.fx.experimental import symbolic_shapes

    name = "guarding_hint_or_throw" if hasattr(symbolic_shapes, "guarding_hint_or_throw") else "hint_int"  # torch 2.11
    return int(getattr(symbolic_shapes, name)(value))
