"""Models compiled ahead of time into one file, for Python and for C++ programs without Python.

torch_tile.aot.package(torch.export.export(model, args), "model.tile", targets=["x86-64-v3", "x86-64-v4"])
model = torch_tile.aot.load("model.tile")
model(*args)
"""

from typing import TYPE_CHECKING, Any

from torch_tile.aot.loader import LoadedModel, load, verify

if TYPE_CHECKING:
    from torch_tile.aot.packager import package

__all__ = ["LoadedModel", "load", "package", "verify"]


def __getattr__(name: str) -> Any:
    """`package` traces and compiles; a process that loads a model imports nothing of that."""
    if name != "package":
        raise AttributeError(f"module 'torch_tile.aot' has no attribute {name!r}")
    from torch_tile.aot.packager import package

    globals()[name] = package
    return package
