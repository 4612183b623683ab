"""The CPU's tests of the tile language with code for a GPU, simulated (tests/gpu/simulator.py). So the lowering to
threads is tested on machines without a GPU.

    python -m pytest -p tests.gpu.simulate_kernels tests/language/test_ops.py -k compile

Needs LLVM's clang. Arithmetic is the CPU's. Between barriers threads run in the order of their numbers, with
TORCH_TILE_SIMULATE_REVERSED=1 in the opposite one: where a barrier is missing, one of them gives other results.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import torch

from tests.gpu.simulator import Simulated
from torch_tile import _C
from torch_tile.language import compile as language


def _bits(value: Any, type_: str) -> int:
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    if type_ in ("f32", "f64"):
        letter, size = ("f", "I") if type_ == "f32" else ("d", "Q")
        return int(struct.unpack(size, struct.pack(letter, float(value)))[0])
    if type_ in ("f16", "bf16"):
        dtype = torch.float16 if type_ == "f16" else torch.bfloat16
        return int(torch.tensor(float(value)).to(dtype).view(torch.int16)) & 0xFFFF
    return int(value) & 0xFFFFFFFFFFFFFFFF


class Kernel:
    def __init__(self, text: str, is_distinct: bool) -> None:
        files: dict[str, str] = {}
        options = {"target": "sm_90", "distinct_arguments": str(is_distinct).lower()}
        _C.compile_kernel(text, options, files.__setitem__)
        self.simulated = Simulated(files["50-kernel.ll"])
        signature = re.search(r"tile\.kernel @\w+\((.*?)\) ", text)
        assert signature is not None
        self.types = [p.rsplit(": ", 1)[1] for p in signature.group(1).split(", ") if p]

    def run(self, x: int, y: int, z: int, flat: list[Any]) -> None:
        self.simulated.run((x, y, z), [_bits(v, t) for v, t in zip(flat, self.types, strict=True)])


_kernels: dict[str, Kernel] = {}


def _run(self: Any, x: int, y: int, z: int, flat: list[Any]) -> None:
    storages = [v.untyped_storage().data_ptr() for v in flat if isinstance(v, torch.Tensor)]
    is_distinct = len(set(storages)) == len(storages)
    key = f"{is_distinct} {self.traced.text}"
    if key not in _kernels:
        _kernels[key] = Kernel(self.traced.text, is_distinct)
    _kernels[key].run(x, y, z, flat)


language.CompiledKernel.run = _run  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{len(_kernels)} kernels for a GPU were simulated")
