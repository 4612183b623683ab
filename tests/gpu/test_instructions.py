"""What the simulator takes instructions to do (instructions.py), against a device.

LLVM's llc makes PTX of the kernels. Where there is none, TORCH_TILE_TEST_PTX names a folder with the files that
`python -m tests.gpu.test_instructions FOLDER` writes elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.gpu import instructions
from tests.gpu.instructions import Case

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
LLC = shutil.which("llc-22") or "/usr/lib/llvm-22/bin/llc"


def ptx_of(case: Case) -> bytes:
    folder = os.environ.get("TORCH_TILE_TEST_PTX")
    if folder:
        return (Path(folder) / f"{case.name}.ptx").read_bytes()
    if not Path(LLC).exists():
        pytest.skip("needs llc, or TORCH_TILE_TEST_PTX")
    command = [LLC, "-mcpu=sm_90a", "-mattr=+ptx84", "-o", "-"]
    return subprocess.run(command, input=case.ir.encode(), capture_output=True, check=True).stdout


@pytest.mark.parametrize("case", list(instructions.cases()), ids=lambda c: c.name)
def test_on_the_device(case: Case) -> None:
    if case.name.startswith("wgmma") and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma is of compute capability 9.0")
    driver = ctypes.CDLL("libcuda.so.1")
    source, result = case.source.cuda(), torch.zeros_like(case.expected, device="cuda")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), ptx_of(case) + b"\0") == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"tile_case") == 0
    values = [ctypes.c_void_p(source.data_ptr()), ctypes.c_void_p(result.data_ptr())]
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(v) for v in values])
    threads = int(case.ir.split('"nvvm.maxntid"="')[1].split('"')[0])
    torch.cuda.synchronize()
    assert driver.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, None, arguments, None) == 0
    torch.cuda.synchronize()
    torch.testing.assert_close(
        result.cpu(), case.expected, rtol=1e-5, atol=max(case.tolerance, 1e-3) if case.tolerance else 0
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for each in instructions.cases():
        (target / f"{each.name}.ptx").write_bytes(ptx_of(each))
