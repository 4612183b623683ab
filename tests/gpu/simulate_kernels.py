"""The CPU's tests of the tile language with code for a GPU, simulated: LLVM's IR for a GPU is compiled for the CPU, and
the threads of a block are coroutines. So the lowering to threads is tested on machines without a GPU.

    python -m pytest -p tests.gpu.simulate_kernels tests/language/test_ops.py -k compile

Needs LLVM's clang. Arithmetic is the CPU's. Between barriers threads run in the order of their numbers, with
TORCH_TILE_SIMULATE_REVERSED=1 in the opposite one: where a barrier is missing, one of them gives other results.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from torch_tile import _C
from torch_tile.language import compile as language

_CLANG = shutil.which("clang-22") or "/usr/lib/llvm-22/bin/clang"
_NAMES = {
    "llvm.nvvm.read.ptx.sreg.": "sim_",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "sim_barrier",
    "llvm.nvvm.bar.warp.sync": "sim_barrier",
    "llvm.nvvm.shfl.sync.bfly.i32": "sim_shfl_bfly",
    "llvm.nvvm.shfl.sync.idx.i32": "sim_shfl_idx",
    "@vprintf": "@vprintf_device",
}
_folder = Path(tempfile.mkdtemp(prefix="torch-tile-simulator-"))
_kernels: dict[str, Any] = {}


def _library(command: list[str], name: str) -> Any:
    path = _folder / name
    subprocess.run([_CLANG, "-O1", "-w", "-shared", "-fPIC", "-o", str(path), *command, "-lm"], check=True)
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


_runtime = _library([str(Path(__file__).with_name("simulator.c"))], "simulator.so")


def for_cpu(ir: str) -> tuple[str, int]:
    """LLVM's IR of a kernel for a GPU as that of a function for the CPU, which takes its arguments from an array; and
    how many threads a block has."""
    ir = re.sub(r"^target .*$", "", ir, flags=re.M)
    ir = re.sub(r" ?addrspace\(\d+\)", "", ir)
    ir = ir.replace("ptx_kernel ", "").replace("addrspacecast ptr", "bitcast ptr")
    ir = re.sub(r"addrspacecast \(ptr (@[\w.]+) to ptr\)", r"\1", ir)
    ir = re.sub(r' syncscope\("\w+"\)', "", ir)
    for old, new in _NAMES.items():
        ir = ir.replace(old, new)
    ir = re.sub(r"@sim_(n?cta|)(i?d|tid)\.", lambda m: m.group(0)[:-1] + "_", ir)
    ir = re.sub(r'asm "(\w+)\.[a-z0-9.]+ [^"]*", "=f[f,]*"', r"@sim_\1", ir)
    ir += "\ndeclare float @sim_ex2(float)\ndeclare float @sim_rcp(float)\ndeclare float @sim_div(float, float)\n"
    threads = int(re.search(r'"nvvm.maxntid"="(\d+)"', ir).group(1))  # type: ignore[union-attr]
    kernel = re.search(r"^define void @(tile_\w+)\((.*?)\) #", ir, flags=re.M)
    assert kernel is not None
    types = [p.strip().split(" ")[0] for p in kernel.group(2).split(",") if p.strip()]
    lines, names = [], []
    for k, type_ in enumerate(types):
        lines += [f"  %p{k} = getelementptr ptr, ptr %all, i64 {k}", f"  %v{k} = load {type_}, ptr %p{k}"]
        names.append(f"{type_} %v{k}")
    lines.append(f"  call void @{kernel.group(1)}({', '.join(names)})\n  ret void")
    return ir + "\ndefine void @sim_entry(ptr %all) {\n" + "\n".join(lines) + "\n}\n", threads


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


class Simulated:
    def __init__(self, text: str, is_distinct: bool) -> None:
        files: dict[str, str] = {}
        options = {"target": "sm_90", "distinct_arguments": str(is_distinct).lower()}
        _C.compile_kernel(text, options, files.__setitem__)
        ir, self.threads = for_cpu(files["50-kernel.ll"])
        name = hashlib.sha256(ir.encode()).hexdigest()[:16]
        path = _folder / f"{name}.ll"
        path.write_text(ir)
        self.function = _library([str(path)], f"{name}.so").sim_entry
        signature = re.search(r"tile\.kernel @\w+\((.*?)\) ", text)
        assert signature is not None
        self.types = [p.rsplit(": ", 1)[1] for p in signature.group(1).split(", ") if p]

    def run(self, x: int, y: int, z: int, flat: list[Any]) -> None:
        values = [_bits(v, t) for v, t in zip(flat, self.types, strict=True)]
        array = (ctypes.c_uint64 * max(len(values), 1))(*values)
        pointer = ctypes.cast(self.function, ctypes.c_void_p)
        if _runtime.simulate(pointer, array, self.threads, x, y, z):
            raise RuntimeError("an assertion failed")


def _run(self: Any, x: int, y: int, z: int, flat: list[Any]) -> None:
    storages = [v.untyped_storage().data_ptr() for v in flat if isinstance(v, torch.Tensor)]
    is_distinct = len(set(storages)) == len(storages)
    key = f"{is_distinct} {self.traced.text}"
    if key not in _kernels:
        _kernels[key] = Simulated(self.traced.text, is_distinct)
    _kernels[key].run(x, y, z, flat)


language.CompiledKernel.run = _run  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{len(_kernels)} kernels for a GPU were simulated")
