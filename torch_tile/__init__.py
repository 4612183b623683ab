"""torch.compile(backend="tile"): fused kernels, compiled in-process through MLIR and LLVM.

Importing this package is cheap and registers nothing: torch finds the backend by its entry point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch_tile.errors import CompileError, InvalidKernelError, TileError, UnsupportedError

if TYPE_CHECKING:
    from torch_tile import config
    from torch_tile.debug.counters import counters
    from torch_tile.debug.explain import explain

__version__ = "0.1.0"
__all__ = [
    "CompileError",
    "InvalidKernelError",
    "TileError",
    "UnsupportedError",
    "config",
    "counters",
    "explain",
]

_LAZY = {
    "config": ("torch_tile.config", None),
    "counters": ("torch_tile.debug.counters", "counters"),
    "explain": ("torch_tile.debug.explain", "explain"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'torch_tile' has no attribute {name!r}")
    from importlib import import_module

    module_name, attribute = _LAZY[name]
    module = import_module(module_name)
    return module if attribute is None else getattr(module, attribute)
