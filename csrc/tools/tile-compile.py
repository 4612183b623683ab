#!python
"""tile-compile as `pip install` puts it on PATH: the compiler library has it, and needs no torch."""

from torch_tile.tile_compile import main

main()
