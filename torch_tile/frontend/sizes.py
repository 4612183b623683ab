"""Text of sizes that go through floating point."""

from __future__ import annotations

from typing import Any

from sympy.printing.str import StrPrinter


class _ExactFloats(StrPrinter):  # type: ignore[misc]
    """Floats with all their digits; sympy's own text keeps 15."""

    def _print_Float(self, expression: Any) -> str:
        return repr(float(expression))


def exact_text(expression: Any) -> str:
    return str(_ExactFloats().doprint(expression))
