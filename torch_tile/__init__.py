"""torch.compile(backend="tile"): fused kernels, compiled in-process through MLIR and LLVM.

Importing this package is cheap: torch finds the backend by its entry point. Beside torch, it registers the type of its
cache artifacts alone, without which `torch.compiler.load_cache_artifacts` leaves them out.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from torch_tile import config
from torch_tile.config import list_mode_options, list_options
from torch_tile.counters import counters
from torch_tile.errors import (
    ArtifactError,
    CompileError,
    InvalidKernelError,
    MemoryAccessError,
    OptionError,
    PackageError,
    RaceError,
    TileError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from torch_tile import aot, language, remote_cache
    from torch_tile.debug.expect import expect
    from torch_tile.debug.explain import explain
    from torch_tile.frontend.standalone import CompiledArtifact, standalone_compile
    from torch_tile.language.aggregates import aggregate
    from torch_tile.language.autotune import Config, autotune, heuristics
    from torch_tile.language.interpret_triton import interpret
    from torch_tile.language.jit import JITFunction, constexpr_function, jit
    from torch_tile.language.launch_arguments import TensorWrapper, reinterpret
    from torch_tile.triton_compat import runtime, testing, tools

# The one place of the version: CMake and both distributions read it here.
__version__ = "0.2.0"
__all__ = [
    "ArtifactError",
    "CompileError",
    "CompiledArtifact",
    "Config",
    "InvalidKernelError",
    "JITFunction",
    "MemoryAccessError",
    "OptionError",
    "PackageError",
    "RaceError",
    "TensorWrapper",
    "TileError",
    "UnsupportedError",
    "aggregate",
    "aot",
    "autotune",
    "cdiv",
    "cmake_prefix_path",
    "config",
    "constexpr_function",
    "counters",
    "empty_cache",
    "expect",
    "explain",
    "heuristics",
    "interpret",
    "jit",
    "language",
    "list_mode_options",
    "list_options",
    "must_use_result",
    "next_power_of_2",
    "reinterpret",
    "remote_cache",
    "runtime",
    "set_allocator",
    "standalone_compile",
    "testing",
    "tools",
]

# Name -> module it comes from, imported when it is first asked for.
_LAZY = {
    "CompiledArtifact": "torch_tile.frontend.standalone",
    "aot": "torch_tile",
    "Config": "torch_tile.language.autotune",
    "JITFunction": "torch_tile.language.jit",
    "TensorWrapper": "torch_tile.language.launch_arguments",
    "aggregate": "torch_tile.language.aggregates",
    "autotune": "torch_tile.language.autotune",
    "constexpr_function": "torch_tile.language.jit",
    "expect": "torch_tile.debug.expect",
    "explain": "torch_tile.debug.explain",
    "heuristics": "torch_tile.language.autotune",
    "interpret": "torch_tile.language.interpret_triton",
    "jit": "torch_tile.language.jit",
    "language": "torch_tile",
    "reinterpret": "torch_tile.language.launch_arguments",
    "remote_cache": "torch_tile",
    "runtime": "torch_tile.triton_compat",
    "standalone_compile": "torch_tile.frontend.standalone",
    "testing": "torch_tile.triton_compat",
    "tools": "torch_tile.triton_compat",
}
_MODULES = frozenset({"aot", "language", "remote_cache", "runtime", "testing", "tools"})


def cdiv(x: Any, y: Any) -> Any:
    """How many pieces of `y` hold `x`: (x + y - 1) // y."""
    return (x + y - 1) // y


def cmake_prefix_path() -> str:
    """Where CMake's `find_package(TorchTile)` finds the runner of packaged models.

    Raises:
        FileNotFoundError: in a checkout that was not built; says how to.
    """
    from pathlib import Path

    folder = Path(__file__).parent / "cmake"
    if not (folder / "TorchTileConfig.cmake").is_file():
        raise FileNotFoundError(
            f"{folder} holds no CMake package of torch-tile: `make build` in the checkout installs it, and so does "
            "`pip install .`"
        )
    return str(folder)


def empty_cache() -> None:
    """Give memory of freed CPU buffers, which is kept for later calls, back to the system."""
    from torch_tile import _C

    _C.empty_cache()


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below `n`; 1 for 0."""
    return 1 if n <= 1 else 1 << (n - 1).bit_length()


def must_use_result(x: Any, s: Any = True) -> Any:
    """Triton's mark of functions whose result must not be dropped; without effect here."""
    return x if callable(x) else lambda function: function


def set_allocator(allocator: Any) -> None:
    """Triton's allocator of workspaces; kernels need none here, so it is not kept."""


def _load_extension() -> Any:
    """torch_tile._C, which fits the minor version of torch that it was built for and no other."""
    import importlib

    import torch

    try:
        from torch_tile._build import TORCH
    except ImportError:  # built without CMake, for the torch that was there
        TORCH = torch.__version__
    built, found = (".".join(version.split(".")[:2]) for version in (TORCH, torch.__version__))
    if built != found:
        raise ImportError(
            f"torch_tile was built for torch {built}, and this is torch {torch.__version__}; "
            f'run: pip install "torch=={built}.*", or build torch_tile again for this torch'
        )
    extension = importlib.import_module("torch_tile._C")
    if config.get("perf_map"):
        extension.set_perf_map(True)
    return extension


def __getattr__(name: str) -> Any:
    if name == "_C":
        return _load_extension()
    if name in _LAZY:
        import importlib

        if name in _MODULES:
            value: Any = importlib.import_module(f"{_LAZY[name]}.{name}")
        else:
            value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'torch_tile' has no attribute {name!r}")


if "torch" in sys.modules:
    with contextlib.suppress(ImportError):  # another torch than this was built for, which the first use says
        from torch_tile import cache_artifacts  # noqa: F401
