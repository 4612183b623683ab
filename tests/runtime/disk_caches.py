"""A cache folder with the calls of tests, and graphs for the stand-in compiler."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

import torch

from .artifact_builder import Builder

NO_LIMIT = 1 << 30


def add_text(code: bytes, kernel: str = "cached-add", extra: int = 0) -> str:
    """A graph that adds 16 numbers, for the stand-in compiler. `extra` makes another graph of the same kernel."""
    b = Builder()
    x, y = b.input([16]), b.input([16])
    k = b.kernel("add", "addKernel", hashlib.sha256(kernel.encode()).digest(), code)
    z = b.alloc([16])
    b.launch(k, [x, y, z], [16, 16], 1)
    b.output(z)
    for i in range(extra):
        b.output(i)
    return b.build().hex()


class Cache:
    """A cache folder with the calls of these tests."""

    def __init__(self, runtime: ModuleType, folder: Path) -> None:
        self.runtime = runtime
        self.folder = folder

    def compile(self, text: str, limit: int = NO_LIMIT, **options: object) -> str:
        arguments = {
            "options": {},
            "cache_dir": str(self.folder),
            "cache_limit_bytes": limit,
            "dump": None,
            "pycalls": [],
        }
        program = self.runtime.compile_graph(text, **{**arguments, **options})
        x = torch.arange(16, dtype=torch.float32)
        assert torch.equal(program([x, x])[0], x + x)
        self.runtime.flush_disk_cache()
        return program.loaded_from

    def graphs(self) -> list[Path]:
        return sorted((self.folder / "graphs").glob("*"))

    def kernels(self) -> list[Path]:
        return sorted((self.folder / "kernels").glob("*"))

    def files(self) -> list[Path]:
        return self.graphs() + self.kernels()
