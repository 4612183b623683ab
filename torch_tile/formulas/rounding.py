"""Arithmetic that rounds down, up or toward zero, as arithmetic in float64 that rounds to the nearest.

Each operation gives its result rounded to the nearest, and what that misses, of which the sign decides: the result or
its neighbour. Operands are in float64; results of the float32 forms are numbers of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MODES = ("rd", "ru", "rz")
_SPLITTER = 134217729.0  # 2**27 + 1
_LARGEST = {False: 3.4028234663852886e38, True: 1.7976931348623157e308}
_LEAST = {False: 2.0**-149, True: 5e-324}
_HALF_UNIT = {False: 2.0**-24, True: 2.0**-53}


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b rounded, and what is missing."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(a: Any) -> tuple[Any, Any]:
    large = a * _SPLITTER
    high = large - (large - a)
    return high, a - high


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b rounded, and what is missing."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _neighbour(x: Any, sign: float, is_double: bool) -> Any:
    """The next number above (sign 1) or below (-1); that of an infinity is the largest number."""
    largest = _LARGEST[is_double]
    step = x.abs() * (1.4 * _HALF_UNIT[is_double])
    least = _LEAST[is_double] * (1.0 if is_double else 0.75)
    step = torch.where(step < least, least, step)
    moved = x + sign * step
    if not is_double:
        moved = moved.float().double()
    return torch.where(x == -sign * float("inf"), -sign * largest, moved)


def directed(value: Any, missing: Any, mode: str, is_double: bool) -> Any:
    """value + missing rounded as `mode` says, to float64 or to a number of float32."""
    near = value if is_double else value.float().double()
    rest = missing if is_double else (value - near) + missing
    below = _neighbour(near, -1.0, is_double)
    above = _neighbour(near, 1.0, is_double)
    if mode == "rd":
        return torch.where(rest < 0.0, below, near)
    if mode == "ru":
        return torch.where(rest > 0.0, above, near)
    lower = torch.where((rest < 0.0) & (near > 0.0), below, near)
    return torch.where((rest > 0.0) & (near < 0.0), above, lower)


def _add(a: Any, b: Any) -> tuple[Any, Any]:
    return _two_sum(a, b)


def _sub(a: Any, b: Any) -> tuple[Any, Any]:
    return _two_sum(a, -b)


def _mul(a: Any, b: Any) -> tuple[Any, Any]:
    return two_product(a, b)


def _div(a: Any, b: Any) -> tuple[Any, Any]:
    quotient = a / b
    product, missing = two_product(quotient, b)
    return quotient, ((a - product) - missing) / b


def _sqrt(a: Any) -> tuple[Any, Any]:
    root = torch.sqrt(a)
    product, missing = two_product(root, root)
    return root, ((a - product) - missing) / (root * 2.0)


def _fma(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    product, missing = two_product(a, b)
    total, rest = _two_sum(product, c)
    return _two_sum(total, rest + missing)


def _rcp(a: Any) -> tuple[Any, Any]:
    quotient = 1.0 / a
    product, missing = two_product(quotient, a)
    return quotient, ((1.0 - product) - missing) / a


_OPERATIONS: dict[str, tuple[Callable[..., tuple[Any, Any]], int]] = {
    "add": (_add, 2),
    "sub": (_sub, 2),
    "mul": (_mul, 2),
    "div": (_div, 2),
    "fma": (_fma, 3),
    "sqrt": (_sqrt, 1),
    "rcp": (_rcp, 1),
}
# Name -> number of operands, of the functions that `arithmetic` computes.
NAMES = {f"{name}_{mode}": count for name, (_, count) in _OPERATIONS.items() for mode in MODES}


def arithmetic(name: str, is_double: bool, *operands: Any) -> Any:
    """The function of CUDA's library of device functions that is called `name`, like "add_rd"."""
    kind, mode = name.split("_")
    value, missing = _OPERATIONS[kind][0](*operands)
    if not is_double and kind == "mul":
        missing = missing * 0.0  # the product of two numbers of float32 is exact
    result = directed(value, missing, mode, is_double)
    if mode == "rd" and kind in ("add", "sub"):
        # Of opposite numbers the sum is -0, as long as it is rounded down.
        a, b = operands[0], operands[1] if kind == "add" else -operands[1]
        result = torch.where((value == 0.0) & (a == -b) & (a.abs() > 0.0), -0.0, result)
    return result


def from_integer(high: Any, low: Any, mode: str, is_double: bool) -> Any:
    """high * 2**32 + low, both whole numbers, of which the latter is not negative."""
    return directed(*_two_sum(high * 4294967296.0, low), mode, is_double)
