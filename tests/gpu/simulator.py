"""Code for a GPU on the CPU: LLVM's IR, compiled by LLVM's clang; the threads of a block are coroutines, which between
barriers run in the order of their numbers, with TORCH_TILE_SIMULATE_REVERSED=1 in the opposite one.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CLANG = shutil.which("clang-22") or "/usr/lib/llvm-22/bin/clang"
_NAMES = {
    "llvm.nvvm.read.ptx.sreg.": "sim_",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "sim_barrier",
    "llvm.nvvm.bar.warp.sync": "sim_barrier",
    "llvm.nvvm.shfl.sync.bfly.i32": "sim_shfl_bfly",
    "llvm.nvvm.shfl.sync.idx.i32": "sim_shfl_idx",
    "@vprintf": "@vprintf_device",
}
_MAX_SHARED = 227 << 10  # of a block
_folder = Path(tempfile.mkdtemp(prefix="torch-tile-simulator-"))


def _library(command: list[str], name: str) -> Any:
    path = _folder / name
    subprocess.run([CLANG, "-O1", "-w", "-shared", "-fPIC", "-o", str(path), *command, "-lm"], check=True)
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def _compile_runtime() -> Any:
    return _library([str(Path(__file__).with_name("simulator.c"))], "simulator.so")


def for_cpu(ir: str) -> tuple[str, int]:
    """LLVM's IR of a kernel for a GPU as that of a function for the CPU, which takes its arguments from an array; and
    how many threads a block has."""
    ir = re.sub(r"^target .*$", "", ir, flags=re.M)
    ir = re.sub(r" ?addrspace\(\d+\)", "", ir)
    ir = ir.replace("ptx_kernel ", "").replace("addrspacecast ptr", "bitcast ptr")
    ir = re.sub(r"addrspacecast \(ptr (@[\w.]+) to ptr\)", r"\1", ir)
    ir = re.sub(
        r"= external (local_unnamed_addr )?global \[0 x i8\]",
        f"= internal global [{_MAX_SHARED} x i8] zeroinitializer",
        ir,
    )
    ir = re.sub(r' syncscope\("\w+"\)', "", ir)
    ir = re.sub(r"^declare .*@llvm.nvvm.ff2\w+.rn\(.*$", "", ir, flags=re.M)
    for name, type_ in (("bf16x2", "bfloat"), ("f16x2", "half")):
        ir = ir.replace(f"@llvm.nvvm.ff2{name}.rn(", f"@sim_{name}(")
        ir += f"""
define internal <2 x {type_}> @sim_{name}(float %high, float %low) alwaysinline {{
  %l = fptrunc float %low to {type_}
  %h = fptrunc float %high to {type_}
  %first = insertelement <2 x {type_}> poison, {type_} %l, i64 0
  %both = insertelement <2 x {type_}> %first, {type_} %h, i64 1
  ret <2 x {type_}> %both
}}
"""
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


class Simulated:
    """A kernel that runs on the CPU, from LLVM's IR for a GPU."""

    def __init__(self, ir: str) -> None:
        _compile_runtime()  # its functions are the kernel's
        ir, self.threads = for_cpu(ir)
        name = hashlib.sha256(ir.encode()).hexdigest()[:16]
        path = _folder / f"{name}.ll"
        path.write_text(ir)
        self.function = _library([str(path)], f"{name}.so").sim_entry

    def run(self, grid: tuple[int, int, int], values: list[int]) -> None:
        array = (ctypes.c_uint64 * max(len(values), 1))(*values)
        pointer = ctypes.cast(self.function, ctypes.c_void_p)
        if _compile_runtime().simulate(pointer, array, self.threads, *grid):
            raise RuntimeError("an assertion failed")
