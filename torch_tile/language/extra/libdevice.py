"""tl.extra.libdevice: the names of NVIDIA's math library, on our own functions."""

from __future__ import annotations

import types
from typing import Any

from torch_tile.language.extra import derived as _derived
from torch_tile.language.extra import directed as _directed
from torch_tile.language.extra import elementary as _elementary
from torch_tile.language.extra import numbers as _numbers

# What those modules import for themselves.
_HELPERS = frozenset(
    [
        "Any",
        "annotations",
        "as_tensor",
        "cast",
        "constant",
        "emit",
        "error",
        "mlir_type",
        "tensor",
        "through_torch",
        "unary_float",
        "unify",
        "where",
    ]
)


def _functions(module: types.ModuleType) -> dict[str, Any]:
    return {k: v for k, v in vars(module).items() if not k.startswith("_") and k not in _HELPERS and callable(v)}


globals().update(_functions(_elementary) | _functions(_numbers) | _functions(_derived) | _functions(_directed))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"tl.extra.libdevice has no function {name!r}")
