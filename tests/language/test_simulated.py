"""Code for a GPU, simulated on the CPU: tests of the language run once more, in a process of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.compiling import ROOT
from tests.language.conftest import has_compiler

CLANG = shutil.which("clang-22") or shutil.which("/usr/lib/llvm-22/bin/clang")
pytestmark = pytest.mark.skipif(CLANG is None or not has_compiler(), reason="needs a compiler and LLVM's clang")
KERNELS = "atomics or gather or scan or cumsum or sort or dot or split or histogram or reduce or trans or softmax"


@pytest.mark.parametrize("order", ["in order", "reversed"])
def test_kernels_on_a_simulated_gpu(order: str) -> None:
    """Threads run one after the other between barriers; a barrier that is missing shows in one of the two orders."""
    environment = {**os.environ, "TORCH_TILE_SIMULATE_REVERSED": "1"}
    if order == "in order":
        del environment["TORCH_TILE_SIMULATE_REVERSED"]
    # Where lanes collide, the one that comes last depends on the order.
    chosen = f"compile and ({KERNELS}) and not colliding"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.gpu.simulate_kernels", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/language/test_ops.py", "-k", chosen],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "kernels for a GPU were simulated" in done.stdout
