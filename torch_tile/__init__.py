"""torch.compile(backend="tile"): fused kernels, compiled in-process through MLIR and LLVM.

Importing this package is cheap and registers nothing: torch finds the backend by its entry point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch_tile import config
from torch_tile.counters import counters
from torch_tile.errors import CompileError, InvalidKernelError, OptionError, TileError, UnsupportedError

if TYPE_CHECKING:
    from torch_tile.debug.explain import explain

__version__ = "0.1.0"
__all__ = [
    "CompileError",
    "InvalidKernelError",
    "OptionError",
    "TileError",
    "UnsupportedError",
    "config",
    "counters",
    "explain",
]


def __getattr__(name: str) -> Any:
    if name == "explain":
        from torch_tile.debug.explain import explain

        return explain
    raise AttributeError(f"module 'torch_tile' has no attribute {name!r}")
