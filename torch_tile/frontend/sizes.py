"""Text of sizes that go through floating point; facts from strides that need no guard; guards where they are kept."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from sympy.printing.str import StrPrinter
from torch.fx.experimental.symbolic_shapes import guard_or_false
from torch.utils._sympy import functions


class _ExactFloats(StrPrinter):  # type: ignore[misc]
    """Floats with all their digits; sympy's own text keeps 15."""

    def _print_Float(self, expression: Any) -> str:
        return repr(float(expression))


def exact_text(expression: Any) -> str:
    return str(_ExactFloats().doprint(expression))


def plain_expression(expression: Any) -> Any:
    """Absolute values as maxima, bits under a constant mask as remainders, and choices on the outside."""
    for name, make in (("and", _common_bits), ("or", _any_bits), ("xor", _different_bits)):
        if function := getattr(functions, f"BitwiseFn_bitwise_{name}", None):
            expression = expression.replace(function, make)
    expression = expression.replace(sympy.Abs, lambda x: functions.Max(x, -x))  # type: ignore[no-untyped-call]
    return sympy.piecewise_fold(expression) if expression.has(sympy.Piecewise) else expression


# Of so many bits: a mask of more would make long expressions.
_MOST_BITS = 8


def _common_bits(a: Any, b: Any) -> Any:
    value, mask = (a, b) if b.is_Integer else (b, a)
    bits = [k for k in range(62) if mask.is_Integer and int(mask) >> k & 1]
    if not mask.is_Integer or not 0 <= int(mask) < 1 << 62 or len(bits) > _MOST_BITS:
        return functions.BitwiseFn_bitwise_and(a, b)
    return sympy.Add(*(functions.PythonMod(functions.FloorDiv(value, 1 << k), 2) * (1 << k) for k in bits))


def _any_bits(a: Any, b: Any) -> Any:
    return a + b - _common_bits(a, b)


def _different_bits(a: Any, b: Any) -> Any:
    return a + b - 2 * _common_bits(a, b)


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


_keeps_guards = contextvars.ContextVar("_keeps_guards", default=True)


@contextlib.contextmanager
def without_guards() -> Iterator[None]:
    """For programs that were exported: a guard that is asked for now would not be checked by their callers."""
    token = _keeps_guards.set(False)
    try:
        yield
    finally:
        _keeps_guards.reset(token)


def guarded(condition: Any) -> bool:
    """Whether a condition on sizes holds, which then is a guard of the program; no where it cannot be one."""
    return (isinstance(condition, bool) and condition) or (_keeps_guards.get() and guard_or_false(condition))
