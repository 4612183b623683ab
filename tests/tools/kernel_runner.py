"""Compiles text of the tile dialect with tile-compile and runs it in this process through the compiler library."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TORCH_TILE_BUILD_DIR", ROOT / "build"))
TILE_COMPILE = BUILD / "bin" / "tile-compile"
LIBRARY = BUILD / "lib" / "libtorch_tile_compiler.so"


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _Status(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("stage", _Buffer),
        ("text", _Buffer),
    ]


class _Args(ctypes.Structure):
    _fields_ = [("pointers", ctypes.c_void_p), ("integers", ctypes.c_void_p)]


class _Context(ctypes.Structure):
    _fields_ = [("scratch", ctypes.c_void_p), ("error", ctypes.c_int64 * 3)]


_KernelFn = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.POINTER(_Args),
    ctypes.POINTER(_Context),
    ctypes.c_int64,
    ctypes.c_int64,
)


def compile_text(text: str, *flags: str) -> bytes:
    """What tile-compile writes for `text`; the object of its one kernel by default."""
    result = subprocess.run(
        [TILE_COMPILE, "-", *flags],
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(result.stderr.decode())
    return result.stdout


class Kernel:
    """One kernel, loaded. Scalars are passed as ints, or as floats for f32 arguments."""

    def __init__(self, text: str, target: str = "host", scratch_bytes: int = 1 << 20) -> None:
        flags = [f"--target={target}", "--sleef=false"]
        self.symbol = compile_text(text, *flags, "--emit=symbols").split()[1]
        code = compile_text(text, *flags)
        self.library = ctypes.CDLL(str(LIBRARY))
        self.library.ttc_load.restype = _Status
        function, handle = ctypes.c_void_p(), ctypes.c_void_p()
        status = self.library.ttc_load(
            code,
            ctypes.c_size_t(len(code)),
            self.symbol,
            None,
            None,
            ctypes.byref(function),
            ctypes.byref(handle),
        )
        if status.kind:
            raise RuntimeError(status.text.data.decode())
        self.handle = handle
        self.function = _KernelFn(function.value)
        self.scratch = torch.empty(scratch_bytes + 64, dtype=torch.uint8)
        self.error: list[int] = []

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.library.ttc_unload(self.handle)

    def __call__(
        self,
        tensors: Sequence[torch.Tensor],
        scalars: Sequence[int | float] = (),
        programs: int = 1,
    ) -> int:
        pointers = (ctypes.c_void_p * max(1, len(tensors)))(*[tensor.data_ptr() for tensor in tensors])
        bits = [struct.unpack("<i", struct.pack("<f", s))[0] if isinstance(s, float) else s for s in scalars]
        integers = (ctypes.c_int64 * max(1, len(bits)))(*bits)
        args = _Args(ctypes.addressof(pointers), ctypes.addressof(integers))
        context = _Context(scratch=(self.scratch.data_ptr() + 63) // 64 * 64)
        code = int(self.function(ctypes.byref(args), ctypes.byref(context), 0, programs))
        self.error = list(context.error)
        return code
