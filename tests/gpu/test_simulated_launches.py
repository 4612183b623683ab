"""Launches inside graphs for a GPU are steps of the program; their kernels run on the CPU (tests/gpu/simulator.py)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._functorch._aot_autograd.utils import make_boxed_func

import torch_tile
import torch_tile.language as tl
from tests.gpu import simulator
from tests.language.conftest import has_compiler
from torch_tile import _C
from torch_tile.frontend import language_kernels

pytestmark = pytest.mark.skipif(
    not Path(simulator.CLANG).exists() or not has_compiler(), reason="needs a compiler and LLVM's clang"
)


@torch_tile.jit
def scaled(rows, x_ptr, scale, o_ptr, columns, B: tl.constexpr):
    row, at = tl.program_id(1), tl.program_id(0) * B + tl.arange(0, B)
    inside = (at < columns) & (row < rows)
    tl.store(o_ptr + row * columns + at, tl.load(x_ptr + row * columns + at, mask=inside) * scale, mask=inside)


def compile_for_gpu(
    function: Any, *arguments: Any, monkeypatch: pytest.MonkeyPatch, target: str = "sm_90"
) -> tuple[str, dict[str, str]]:
    """Text of the graph, and the stages of its compilation for a GPU."""
    import torch_tile.frontend.aot as aot

    found: list[tuple[str, dict[str, str]]] = []
    init = language_kernels._Launch.__init__

    def on_gpu(self: Any, node: Any) -> None:
        init(self, node)
        self.device = torch.device("cuda", 0)

    def compile_graph(gm: Any, inputs: Any, kind: str, settings: Any) -> Any:
        text = _C.print_graph(language_kernels.replace_language_kernels(gm)).text
        files: dict[str, str] = {}
        _C.compile_graph(text, {"target": target}, None, 0, files.__setitem__, [None] * 64, device="cuda:0")
        found.append((text, files))
        return make_boxed_func(gm.forward)

    monkeypatch.setattr(language_kernels._Launch, "__init__", on_gpu)
    monkeypatch.setattr(aot, "compile_graph", compile_graph)
    torch._dynamo.reset()
    torch.compile(function, backend="tile", fullgraph=True)(*arguments)
    (result,) = found
    return result


def test_a_launch_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns, block = 5, 200, 64

    def function(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        grid = (torch_tile.cdiv(columns, block), rows)
        scaled[grid](rows, x, 3.0, o, columns, B=block, num_warps=4, maxnreg=40)
        return o

    x = torch.randn(rows, columns)
    text, files = compile_for_gpu(function, x, monkeypatch=monkeypatch)
    # Pointers are the first arguments; nothing is known of 5 and 200, and all of the tensors.
    assert "tile.kernel @scaled(%x_ptr: !tile.ptr<f32>, %o_ptr: !tile.ptr<f32>, %rows: i32, %scale: f32" in text
    assert "tile.argument_multiples = array<i64: 16, 16, 0, 0, 0>" in text
    assert "tile.wanted_threads = 128 : i64" in text and "tile.max_registers = 40 : i64" in text
    program = files["55-program.txt"]
    assert "launch scaled_0(" in program and "programs 20 of grid [4, 5, 1]" in program
    assert "extern" not in program and "call" not in program
    assert ".maxntid 128\n.maxnreg 40\n" in files["60-kernel.ptx"]
    o = torch.zeros_like(x)
    values = [x.data_ptr(), o.data_ptr(), rows, simulator.bits_of(3.0, "f32"), columns]
    simulator.Simulated(files["50-kernel.ll"]).run((4, 5, 1), values)
    assert torch.equal(o, 3 * x)


def test_fixed_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers that are 1, or multiples of 16, are known, and tensors but for views that begin elsewhere."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        scaled[(1, 1)](1, y[1:], 3.0, y, 32, B=32)
        return y

    text, _ = compile_for_gpu(function, torch.randn(64), monkeypatch=monkeypatch)
    (known,) = re.findall(r"tile.argument_multiples = array<i64: (.*?)>", text)
    assert known == "0, 16, 1, 0, 16"


def test_sizes_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        scaled[(torch_tile.cdiv(x.shape[1], 64), x.shape[0])](x.shape[0], x, 3.0, o, x.shape[1], B=64)
        return o

    x = torch.randn(6, 100)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(x, 1)
    text, files = compile_for_gpu(function, x, monkeypatch=monkeypatch)
    assert "tile.argument_multiples = array<i64: 16, 16, 0, 0, 0>" in text
    assert "%rows: i64" in text and " of grid [" in files["55-program.txt"]


@torch_tile.jit
def quotients(x_ptr, y_ptr, near_ptr, rounded_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(near_ptr + at, x / y)
    tl.store(rounded_ptr + at, tl.div_rn(x, y))


def test_quotients_are_rounded_on_request() -> None:
    """`/` is Triton's division on GPU; a kernel of a graph, which has no mark, rounds."""
    x, y = torch.randn(128), torch.randn(128)
    near, rounded = torch.zeros(128), torch.zeros(128)
    code = quotients.warmup(x, y, near, rounded, N=128, target="sm_80")
    assert code.asm["ptx"].count("div.full.f32") == code.asm["ptx"].count("div.rn.f32") == 4
    simulator.SimulatedKernel(code.asm["llir"], code.asm["tile"]).run(1, 1, 1, [x, y, near, rounded])
    assert torch.equal(near, x / y) and torch.equal(rounded, x / y)


@torch_tile.jit
def product(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


@pytest.mark.parametrize("maxnreg, instruction", [(32, "mma.sync"), (96, "wgmma.mma_async"), (None, "wgmma.mma_async")])
def test_few_registers(maxnreg: int | None, instruction: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Instructions of four warps cannot spill their sums."""
    N = 64

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.empty(N, N)
        product[(1,)](a, b, c, N=N, num_warps=4, maxnreg=maxnreg)
        return c

    a, b, c = torch.randn(N, N).bfloat16(), torch.randn(N, N).bfloat16(), torch.zeros(N, N)
    _, files = compile_for_gpu(function, a, b, monkeypatch=monkeypatch, target="sm_90a")
    ptx = files["60-kernel.ptx"]
    assert (f".maxnreg {maxnreg}\n" in ptx) == (maxnreg is not None)
    assert [name for name in ("mma.sync", "wgmma.mma_async") if name in ptx] == [instruction]
    if (ptxas := shutil.which("ptxas")) is not None:
        (tmp_path / "kernel.ptx").write_text(ptx)
        command = [ptxas, "-arch=sm_90a", "-o", str(tmp_path / "cubin"), str(tmp_path / "kernel.ptx")]
        subprocess.run(command, check=True)
    simulator.Simulated(files["50-kernel.ll"]).run((1, 1, 1), [x.data_ptr() for x in (a, b, c)])
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-3)
