"""`triton.language.extra.libdevice` on CPU: Triton's own names for CUDA. The compiler knows those that are one
operation, and the others are made of these (formulas_in_triton.py) or are kernels (device_library.py)."""

from __future__ import annotations

from typing import Any

from triton.language.extra.cuda import libdevice as _cuda
from triton.language.extra.cuda.libdevice import *  # noqa: F403

from torch_tile.triton import device_library as _kernels
from torch_tile.triton import formulas_in_triton as _special


def _functions(module: Any) -> dict[str, Any]:
    """Those that have one of Triton's names."""
    return {k: v for k, v in vars(module).items() if not k.startswith("_") and hasattr(_cuda, k)}


globals().update(_functions(_special) | _functions(_kernels))
