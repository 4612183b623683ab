"""Code for a GPU on the CPU: LLVM's IR, compiled by LLVM's clang; the threads of a block are coroutines, which between
barriers run in the order of their numbers, with TORCH_TILE_SIMULATE_REVERSED=1 in the opposite one.

What it finds beside wrong results: threads that wait at different barriers, or meet at different instructions; reads of
shared memory that nobody has written (NaN), or that a copy is still on its way to; addresses that are not aligned; uses
of a product's results that are not waited for.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.gpu.products_under_way import uses_under_way
from tests.gpu.simulator_instructions import replace_assembly, replace_intrinsics

CLANG = shutil.which("clang-22") or "/usr/lib/llvm-22/bin/clang"
_NAMES = {
    "llvm.nvvm.read.ptx.sreg.": "sim_",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "sim_barrier",
    "llvm.nvvm.barrier.cta.sync.aligned.count": "sim_barrier_count",
    "llvm.nvvm.bar.warp.sync": "sim_warp",
    "llvm.nvvm.shfl.sync.bfly.i32": "sim_shfl_bfly",
    "llvm.nvvm.shfl.sync.idx.i32": "sim_shfl_idx",
    "llvm.nvvm.shfl.sync.up.i32": "sim_shfl_up",
    "llvm.nvvm.shfl.sync.down.i32": "sim_shfl_down",
    "llvm.nvvm.prmt(": "sim_prmt(",
    "llvm.nvvm.f2tf32.rna(": "sim_f2tf32_rna(",
    "@vprintf": "@vprintf_device",
}
_SHARED_START = 0x70000000  # see simulator.h
_MAX_SHARED = 227 << 10  # of a block
_RUNTIME = ("simulator.c", "simulator_matrix.c")
_folder = Path(tempfile.mkdtemp(prefix="torch-tile-simulator-"))


def _library(command: list[str], name: str) -> Any:
    path = _folder / name
    subprocess.run([CLANG, "-O1", "-w", "-shared", "-fPIC", "-o", str(path), *command, "-lm"], check=True)
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def _compile_runtime() -> Any:
    return _library([str(Path(__file__).with_name(name)) for name in _RUNTIME], "simulator.so")


def _place_shared(ir: str) -> tuple[str, int]:
    """Shared memory at fixed addresses: what the code declares, and then what the launch provides, which is one memory
    under each of its names. Returns the text, and how many bytes there are."""
    used, dynamic = 0, []
    pattern = r"^@([\w.]+) = (?:[\w ]+ )?addrspace\(3\) global \[(\d+) x i8\].*?(?:align (\d+))?$\n"
    places: dict[str, int] = {}
    for name, size, alignment in re.findall(pattern, ir, flags=re.M):
        if int(size) == 0:
            dynamic.append(name)
            continue
        used = -(-used // int(alignment or 16)) * int(alignment or 16)
        places[name] = used
        used += int(size)
    ir = re.sub(pattern, "", ir, flags=re.M)
    # Swizzled matrices begin at multiples of 1024 bytes.
    start = -(-used // 1024) * 1024 if dynamic else used
    places.update(dict.fromkeys(dynamic, start))
    for name, place in places.items():
        pointer = f"inttoptr (i64 {_SHARED_START + place} to ptr addrspace(3))"
        ir = re.sub(rf"@{re.escape(name)}(?![\w.])", pointer, ir)
    return ir, max(used, start + _MAX_SHARED - used if dynamic else 0)


def for_cpu(ir: str) -> tuple[str, int, int]:
    """LLVM's IR of a kernel for a GPU as that of a function for the CPU, which takes its arguments from an array; how
    many threads a block has, and how many bytes of shared memory."""
    ir, shared_bytes = _place_shared(ir)
    ir = re.sub(r"^target .*$", "", ir, flags=re.M)
    ir = re.sub(r" ?addrspace\(\d+\)", "", ir)
    ir = ir.replace("ptx_kernel ", "").replace("addrspacecast ptr", "bitcast ptr")
    ir = re.sub(r"addrspacecast \(ptr (@[\w.]+|inttoptr \([^)]*\)) to ptr\)", r"\1", ir)
    ir = re.sub(r"@llvm\.mem(cpy|set|move)(\.p\d)+\.i", lambda m: re.sub(r"\.p\d", ".p0", m[0]), ir)
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
    ir, by_name = replace_intrinsics(ir)
    ir, by_text = replace_assembly(ir)
    ir = re.sub(r"@sim_(n?cta|)(i?d|tid)\.", lambda m: m.group(0)[:-1] + "_", ir)
    ir = re.sub(r'asm "(\w+)\.[a-z0-9.]+ [^"]*", "=f[f,]*"', r"@sim_\1", ir)
    for function in sorted(by_name | by_text):
        ir += f"\ndeclare void @{function}(ptr, ptr, i32, i32, i32, i32)"
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
    ir = ir.replace(f"define void @{kernel.group(1)}(", f"define internal void @{kernel.group(1)}(")
    return ir + "\ndefine void @sim_entry(ptr %all) {\n" + "\n".join(lines) + "\n}\n", threads, shared_bytes


class Simulated:
    """A kernel that runs on the CPU, from LLVM's IR for a GPU."""

    def __init__(self, ir: str) -> None:
        _compile_runtime()  # its functions are the kernel's
        ir, self.threads, self.shared_bytes = for_cpu(ir)
        name = hashlib.sha256(ir.encode()).hexdigest()[:16]
        path = _folder / f"{name}.ll"
        path.write_text(ir)
        self.function = _library([str(path)], f"{name}.so").sim_entry

    def run(self, grid: tuple[int, int, int], values: list[int]) -> None:
        array = (ctypes.c_uint64 * max(len(values), 1))(*values)
        pointer = ctypes.cast(self.function, ctypes.c_void_p)
        if _compile_runtime().simulate(pointer, array, self.shared_bytes, self.threads, *grid):
            raise RuntimeError("the launch failed; the standard error output says why")


def bits_of(value: Any, type_: str) -> int:
    """An argument of a kernel as 64 bits."""
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    if type_ in ("f32", "f64"):
        letter, size = ("f", "I") if type_ == "f32" else ("d", "Q")
        return int(struct.unpack(size, struct.pack(letter, float(value)))[0])
    if type_ in ("f16", "bf16"):
        dtype = torch.float16 if type_ == "f16" else torch.bfloat16
        return int(torch.tensor(float(value)).to(dtype).view(torch.int16)) & 0xFFFF
    return int(value) & 0xFFFFFFFFFFFFFFFF


class SimulatedKernel:
    """A kernel of the tile language that runs on the CPU, from its LLVM IR for a GPU and its text."""

    def __init__(self, ir: str, text: str) -> None:
        assert not uses_under_way(ir)
        self.simulated = Simulated(ir)
        signature = re.search(r"tile\.kernel @\w+\((.*?)\) ", text)
        assert signature is not None
        self.types = [p.rsplit(": ", 1)[1] for p in signature.group(1).split(", ") if p]

    def run(self, x: int, y: int, z: int, flat: list[Any]) -> None:
        self.simulated.run((x, y, z), [bits_of(v, t) for v, t in zip(flat, self.types, strict=True)])
