"""docs/generated/accuracy-pointwise.md: the largest errors of pointwise functions, of this backend and of eager mode.

python -m tests.ops.accuracy_pointwise
"""

# ruff: noqa: E501  (tables: a function is a row)

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import torch
import torch.nn.functional as F

from tests import libdevice_table as device
from tests.compiling import compiled, fresh
from tests.ops.inputs import FLOATS
from tests.ulp import Exact, everywhere, worst

PAGE = Path(__file__).resolve().parents[2] / "docs" / "generated" / "accuracy-pointwise.md"
GROUP = 12

HEADER = """# Errors of pointwise functions

Made by `python -m tests.ops.accuracy_pointwise`; do not edit. The largest error found, in units in the last place of the
exact value (mpmath) in the result's dtype, of `tile` and of eager mode, on the CPU: over numbers of all exponents, random
ones around 0 and 1, whole and half numbers, and near both ends of the dtype. `inf`: NaN or infinite in place of a number.
`tests/ops/test_accuracy_pointwise.py` holds every entry to twice eager's and one more.

"""


@dataclasses.dataclass(frozen=True)
class Measured:
    """A function and its exact form; arguments are tried between `low` and `high`."""

    function: Callable[..., torch.Tensor]
    exact: Exact
    low: float = -math.inf
    high: float = math.inf
    count: int = 1
    dtypes: tuple[torch.dtype, ...] = FLOATS


def _of_device(name: str, function: Callable[..., torch.Tensor], **rest: Any) -> Measured:
    row = device.UNARY[name]
    return Measured(function, row.exact, row.low, row.high, **rest)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x)) if x <= 20 else x


def _gelu_tanh(x: Any) -> Any:
    # The constants of ATen are those of float64.
    return x / 2 * (1 + mp.tanh(mp.mpf(math.sqrt(2) * 2 / math.sqrt(math.pi) * 0.5) * (x + mp.mpf(0.044715) * x**3)))


def _elu(x: Any) -> Any:
    return x if x > 0 else mp.expm1(x)


def _modified_bessel_k(order: int, x: Any) -> Any:
    """The integral of exp(-x cosh t) cosh(order t) over t >= 0, by the trapezoidal rule.

    Its error falls with exp(-pi^2 / step), and where x is large with exp(-2 pi^2 / (x step^2)): below 1e-50 for x <= 80.
    mpmath's limit of two hypergeometric series takes up to half a second for a value.
    """
    step, digits = 1 / (13 + x / 8), 56
    last = int(mp.acosh(1 + digits * mp.log(10) / x) / step) + 1
    terms = (mp.exp(-x * mp.cosh(i * step)) * mp.cosh(order * i * step) for i in range(1, last + 1))
    return step * (mp.exp(-x) / 2 + mp.fsum(terms))


FUNCTIONS: dict[str, Measured] = {
    **{name: _of_device(name, getattr(torch, name)) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1",
        "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
    )},
    "atan2": Measured(torch.atan2, mp.atan2, count=2),
    "digamma": Measured(torch.digamma, mp.digamma, 0.01),
    "elu": Measured(F.elu, _elu, -200.0, 200.0),
    "gelu": Measured(F.gelu, lambda x: x * _normal(x), -4.0),
    "gelu(tanh)": Measured(lambda x: F.gelu(x, approximate="tanh"), _gelu_tanh, -3.0, 1e6),
    "hypot": Measured(torch.hypot, device.BINARY["hypot"].exact, count=2, dtypes=(torch.float32, torch.float64)),
    "logsigmoid": Measured(F.logsigmoid, lambda x: -_softplus(-x) if x >= -20 else x - mp.log1p(mp.exp(x)), -1e6),
    "mish": Measured(F.mish, lambda x: x * mp.tanh(mp.log1p(mp.exp(x))), -15.0, 1e6),
    "pow": Measured(torch.pow, device.BINARY["pow"].exact, count=2),
    "reciprocal": Measured(torch.reciprocal, lambda x: 1 / x),
    "sigmoid": Measured(torch.sigmoid, _sigmoid, -87.0),
    "silu": Measured(F.silu, lambda x: x * _sigmoid(x), -80.0),
    "softplus": Measured(F.softplus, _softplus, -80.0),
    "special.bessel_j0": _of_device("j0", torch.special.bessel_j0, dtypes=(torch.float32,)),
    "special.erfcx": _of_device("erfcx", torch.special.erfcx, dtypes=(torch.float32, torch.float64)),
    "special.i0": _of_device("cyl_bessel_i0", torch.special.i0),
    "special.i0e": Measured(torch.special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), -1e4, 1e4),
    "special.i1": _of_device("cyl_bessel_i1", torch.special.i1, dtypes=(torch.float32, torch.float64)),
    "special.i1e": Measured(torch.special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), -1e4, 1e4,
                            dtypes=(torch.float32, torch.float64)),
    "special.modified_bessel_k0": Measured(torch.special.modified_bessel_k0, lambda x: _modified_bessel_k(0, x), 0.0, 80.0,
                                           dtypes=(torch.float32, torch.float64)),
    "special.modified_bessel_k1": Measured(torch.special.modified_bessel_k1, lambda x: _modified_bessel_k(1, x), 1e-30, 80.0,
                                           dtypes=(torch.float32, torch.float64)),
    "special.ndtr": _of_device("normcdf", torch.special.ndtr, dtypes=(torch.float32, torch.float64)),
    "special.ndtri": _of_device("normcdfinv", torch.special.ndtri, dtypes=(torch.float32, torch.float64)),
    "special.zeta(x, 2.5)": Measured(lambda x: torch.special.zeta(x, 2.5), lambda x: mp.zeta(x, mp.mpf(2.5)), 1.1, 60.0,
                                     dtypes=(torch.float32, torch.float64)),
}  # fmt: skip


def operands(name: str, dtype: torch.dtype, count: int = 160) -> list[torch.Tensor]:
    """Arguments of a function, at which its exact value is within the range of normal numbers."""
    row = FUNCTIONS[name]
    if row.count == 2:
        x, y = everywhere(dtype, 2 * count), everywhere(dtype, 2 * count, seed=1)
        if name == "pow":
            x, y = x.abs(), y.clamp(-30, 30)
        keep = (x != 0) & (y != 0)
        return [x[keep], y[keep]]
    return [device.arguments(device.Function(row.exact, (0, 0), low=row.low, high=row.high), dtype, count)]


def errors(names: Sequence[str], dtype: torch.dtype) -> dict[str, tuple[Any, Any]]:
    """What `ulp.worst` says of tile's and of eager's results."""
    fresh()
    sets = [operands(name, dtype) for name in names]
    functions = [FUNCTIONS[name].function for name in names]

    def together(sets: Any) -> Any:
        return [function(*each) for function, each in zip(functions, sets, strict=True)]

    found = {}
    for name, each, result, expected in zip(names, sets, compiled(together)(sets), together(sets), strict=True):
        exact = FUNCTIONS[name].exact
        found[name] = (worst(result, each, exact), worst(expected, each, exact))
    return found


def groups(dtype: torch.dtype) -> list[list[str]]:
    names = [name for name, row in FUNCTIONS.items() if dtype in row.dtypes]
    return [names[i : i + GROUP] for i in range(0, len(names), GROUP)]


def main() -> None:
    cells: dict[str, dict[torch.dtype, str]] = {name: {} for name in FUNCTIONS}
    for dtype in FLOATS:
        for names in groups(dtype):
            for name, (mine, eager) in errors(names, dtype).items():
                cells[name][dtype] = f"{mine[0]:.3g} / {eager[0]:.3g}"
    titles = [str(dtype).removeprefix("torch.") for dtype in FLOATS]
    lines = [HEADER + "| tile / eager | " + " | ".join(titles) + " |", "|---|" + "---|" * len(titles)]
    for name in sorted(cells):
        lines.append(f"| `{name}` | " + " | ".join(cells[name].get(dtype, "") for dtype in FLOATS) + " |")
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
