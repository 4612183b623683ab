"""The compiler library of torch-tile, without torch and for any Python, and its two tools."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LIBRARY = FOLDER / "libtorch_tile_compiler.so"


def _run(tool: str) -> None:
    path = str(FOLDER / "bin" / tool)
    os.execv(path, [path, *sys.argv[1:]])


def tile_opt() -> None:
    """Any pass on MLIR text."""
    _run("tile-opt")


def tile_compile() -> None:
    """The whole compiler on text of a graph or of kernels."""
    _run("tile-compile")
