"""Builds C++ programs against the installed runner, and runs packages in them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

import torch_tile

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(torch_tile.__file__).parent
_CODES = {
    torch.int64: (0, 64), torch.int32: (0, 32), torch.uint8: (1, 8), torch.float32: (2, 32), torch.float64: (2, 64),
    torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.bool: (6, 8),
}  # fmt: skip


def reason_to_skip() -> str:
    """Why C++ programs cannot be built here; empty if they can."""
    if not (PACKAGE / "libtorch_tile_runtime.so").exists():
        return "this build has no runner"
    return "" if shutil.which("g++") else "there is no C++ compiler"


def environment() -> dict[str, str]:
    """Where LibTorch is, for a torch_tile that does not lie beside it; Python is not to be found."""
    return {"LD_LIBRARY_PATH": os.path.join(os.path.dirname(torch.__file__), "lib"), "PATH": "/usr/bin:/bin"}


@functools.cache
def harness() -> Path:
    """The program of harness.cpp."""
    program = Path(tempfile.mkdtemp(prefix="torch-tile-harness-")) / "harness"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{PACKAGE / 'include'}",
         str(Path(__file__).parent / "harness.cpp"), "-o", str(program), f"-L{PACKAGE}", "-ltorch_tile_runtime",
         f"-Wl,-rpath,{PACKAGE}", "-pthread"],
        check=True,
    )  # fmt: skip
    return program


def run(
    model: Path | str, inputs: list[Any], folder: Path, threads: int = 0, has_torch: bool = True
) -> tuple[list[Any], bool]:
    """Results of a package in C++, and whether LibTorch ran it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, value in enumerate(inputs):
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        lines.append(" ".join(map(str, (*_CODES[tensor.dtype], *tensor.shape))))
        (folder / f"in{number}.bin").write_bytes(_bytes(tensor))
    (folder / "shapes.txt").write_text("".join(line + "\n" for line in lines))
    ran = subprocess.run(
        [str(harness()), str(model), str(folder), *([str(threads)] if threads else [])],
        env=environment() if has_torch else {},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    results = []
    for number, line in enumerate((folder / "results.txt").read_text().splitlines()):
        results.append(None if line == "none" else _read(line, folder / f"out{number}.bin"))
    return results, ran.stdout.split()[1] == "1"


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _read(line: str, path: Path) -> torch.Tensor:
    code, bits, *dims = map(int, line.split())
    dtype = next(dtype for dtype, known in _CODES.items() if known == (code, bits))
    memory = torch.frombuffer(bytearray(path.read_bytes() or b"\0" * 8), dtype=dtype)
    return memory.as_strided(dims[: len(dims) // 2], dims[len(dims) // 2 :])
