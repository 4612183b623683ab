"""The command tile-compile, which lies in the compiler library: text of a graph or of kernels to any stage."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import NoReturn

_LIBRARY = "libtorch_tile_compiler.so"


def library_path() -> Path:
    """The compiler library, beside this package or in the distribution torch-tile-compiler.

    Raises:
        FileNotFoundError: it is in neither place.
    """
    package = Path(__file__).resolve().parent
    for path in (package / _LIBRARY, package.parent / "torch_tile_compiler" / _LIBRARY):
        if path.exists():
            return path
    raise FileNotFoundError(f"there is no {_LIBRARY} in {package}: install torch-tile-compiler of the same version")


def main() -> NoReturn:
    """Runs the tool with the arguments of this process, and ends with its status."""
    try:
        library = ctypes.CDLL(str(library_path()))
    except OSError as error:
        sys.exit(f"tile-compile: {error}")
    arguments = [b"tile-compile", *(argument.encode() for argument in sys.argv[1:])]
    sys.exit(library.ttc_tile_compile(len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)))
