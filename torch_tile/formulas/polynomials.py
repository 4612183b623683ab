"""Chebyshev polynomials of a degree that is data: circular functions within [-1, 1], hyperbolic ones outside. Those of
Hermite, Laguerre and Legendre of a degree that is a small number, by recurrence.

Computed in float64 by kernels for the CPU, as the functions of `special_functions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_tile.formulas.special_functions import computed

aten = torch.ops.aten


def _is_odd(n: torch.Tensor) -> torch.Tensor:
    return torch.remainder(n, 2.0) == 1.0


def _angles(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The angle whose cosine is x, and the hyperbolic one whose cosine is |x|; each 0 where the other counts."""
    beyond = (x.abs() - 1.0).clamp(min=0.0)
    return torch.acos(x.clamp(-1.0, 1.0)), torch.log1p(beyond + torch.sqrt(beyond * (beyond + 2.0)))


def _assembled(
    x: torch.Tensor, n: torch.Tensor, inside: torch.Tensor, outside: torch.Tensor, first: torch.Tensor
) -> torch.Tensor:
    value = torch.where(x.abs() < 1.0, inside, outside)
    value = torch.where(n == 0.0, 1.0, torch.where(n == 1.0, first, value))
    # Also where n is NaN.
    return torch.where(n >= 0.0, torch.where(torch.isnan(x) & (n > 0.0), x, value), 0.0)


def _turned(value: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """(-1)^n for negative x."""
    return torch.where((x < 0.0) & _is_odd(n), -value, value)


def _first_kind(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    angle, hyperbolic = _angles(x)
    return _assembled(x, n, torch.cos(n * angle), _turned(torch.cosh(n * hyperbolic), x, n), x)


def _second_kind(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    angle, hyperbolic = _angles(x)
    m = n + 1.0
    outside = torch.where(hyperbolic == 0.0, m, torch.sinh(m * hyperbolic) / torch.sinh(hyperbolic))
    return _assembled(x, n, torch.sin(m * angle) / torch.sin(angle), _turned(outside, x, n), x + x)


def _third_outside(hyperbolic: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of |x|: the third kind's value and the fourth's."""
    half = hyperbolic * 0.5
    m = (n + 0.5) * hyperbolic
    fourth = torch.where(hyperbolic == 0.0, n + n + 1.0, torch.sinh(m) / torch.sinh(half))
    return torch.cosh(m) / torch.cosh(half), fourth


def _third_kind(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    angle, hyperbolic = _angles(x)
    inside = torch.cos((n + 0.5) * angle) / torch.cos(angle * 0.5)
    third, fourth = _third_outside(hyperbolic, n)
    return _assembled(x, n, inside, _turned(torch.where(x < 0.0, fourth, third), x, n), x + x - 1.0)


def _fourth_kind(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    angle, hyperbolic = _angles(x)
    inside = torch.sin((n + 0.5) * angle) / torch.sin(angle * 0.5)
    third, fourth = _third_outside(hyperbolic, n)
    return _assembled(x, n, inside, _turned(torch.where(x < 0.0, third, fourth), x, n), x + x + 1.0)


_Kind = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _shifted(kind: _Kind) -> _Kind:
    return lambda x, n: kind(x + x - 1.0, n)


# The longest recurrence that is written out.
_MOST_STEPS = 32


def _next_hermite(x: Any, k: int, last: Any, before: Any) -> Any:
    return 2.0 * (x * last - k * before)


def _next_probabilist(x: Any, k: int, last: Any, before: Any) -> Any:
    return x * last - k * before


def _next_laguerre(x: Any, k: int, last: Any, before: Any) -> Any:
    return ((2 * k + 1 - x) * last - k * before) / (k + 1)


def _next_legendre(x: Any, k: int, last: Any, before: Any) -> Any:
    return ((2 * k + 1) * x * last - k * before) / (k + 1)


def _recurrent(first: Callable[[Any], Any], following: Callable[..., Any]) -> Callable[..., Any]:
    def decomposition(x: torch.Tensor, n: Any) -> Any:
        if not isinstance(n, (int, float)) or not -_MOST_STEPS <= n <= _MOST_STEPS or x.dtype.is_complex:
            return NotImplemented
        degree = int(n)

        def value(x: torch.Tensor) -> torch.Tensor:
            last, before = torch.ones_like(x), torch.zeros_like(x)
            for k in range(degree):
                last, before = first(x) if k == 0 else following(x, k, last, before), last
            return last if degree >= 0 else before

        return computed(value)(x)

    return decomposition


def _computed(kind: _Kind) -> Callable[..., Any]:
    def decomposition(x: Any, n: Any) -> Any:
        dtype = torch.result_type(x, n)
        if not dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        tensors = [value for value in (x, n) if isinstance(value, torch.Tensor)]
        wide = torch.float64 if all(t.device.type == "cpu" for t in tensors) else torch.float32

        def operand(value: Any) -> torch.Tensor:
            if not isinstance(value, torch.Tensor):
                value = torch.scalar_tensor(value, dtype=dtype, device=tensors[0].device)
            wide_value: torch.Tensor = value.to(dtype).to(wide)
            return wide_value

        return kind(operand(x), torch.trunc(operand(n))).to(dtype)

    return decomposition


def polynomials() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    kinds = {"t": _first_kind, "u": _second_kind, "v": _third_kind, "w": _fourth_kind}
    table: dict[Any, Callable[..., Any]] = {}
    for name, kind in kinds.items():
        for prefix, function in (("", kind), ("shifted_", _shifted(kind))):
            packet = getattr(aten, f"special_{prefix}chebyshev_polynomial_{name}")
            for overload in ("default", "x_scalar", "n_scalar"):
                table[getattr(packet, overload)] = _computed(function)
    recurrences: dict[str, tuple[Callable[[Any], Any], Callable[..., Any]]] = {
        "hermite_polynomial_h": (lambda x: 2.0 * x, _next_hermite),
        "hermite_polynomial_he": (lambda x: x, _next_probabilist),
        "laguerre_polynomial_l": (lambda x: 1.0 - x, _next_laguerre),
        "legendre_polynomial_p": (lambda x: x, _next_legendre),
    }
    for name, recurrence in recurrences.items():
        table[getattr(aten, f"special_{name}").n_scalar] = _recurrent(*recurrence)
    return table
