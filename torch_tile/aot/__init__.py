"""Models compiled ahead of time into one file, for Python and for C++ programs without Python.

torch_tile.aot.package(torch.export.export(model, args), "model.tile", targets=["x86-64-v3", "x86-64-v4"])
model = torch_tile.aot.load("model.tile")
model(*args)
"""

from torch_tile.aot.loader import LoadedModel, load, verify
from torch_tile.aot.packager import package

__all__ = ["LoadedModel", "load", "package", "verify"]
