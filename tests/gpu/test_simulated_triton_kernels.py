"""`@triton.jit` kernels of graphs for a GPU, compiled here, are steps. They run on the CPU (tests/gpu/simulator.py)."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._functorch._aot_autograd.utils import make_boxed_func

import torch_tile
from tests.gpu import simulator
from tests.language.conftest import has_compiler
from torch_tile import _C, config, counters
from torch_tile.errors import OptionError

HAS_TRITON = importlib.util.find_spec("triton") is not None and not torch.cuda.is_available()
pytestmark = pytest.mark.skipif(
    not HAS_TRITON or not Path(simulator.CLANG).exists() or not has_compiler(),
    reason="needs Triton, no GPU, a compiler and LLVM's clang",
)
if HAS_TRITON:
    import triton
    import triton.language as tl

    from tests.triton import kernels
    from torch_tile.frontend import triton_kernels
    from torch_tile.frontend.launches import on_gpu


class _NotRun(Exception):
    """A graph is compiled, and not run."""


class Compiled:
    """What a function with launches becomes on a GPU."""

    def __init__(self, text: str, files: dict[str, str], pycalls: int, notes: list[str]) -> None:
        self.text, self.files, self.pycalls, self.notes = text, files, pycalls, notes

    def run(self, grid: tuple[int, ...], values: list[Any]) -> None:
        """The only kernel; `values` has its pointers first."""
        signature = re.search(r"tile\.kernel @\w+\((.*?)\) ", self.text)
        assert signature is not None
        types = [p.split(": ", 1)[1].split(" loc(")[0] for p in signature.group(1).split(", ") if ": " in p]
        flat = [simulator.bits_of(v, t) for v, t in zip(values, types, strict=True)]
        simulator.Simulated(self.files["50-kernel.ll"]).run((*grid, 1, 1)[:3], flat)


@pytest.fixture
def compile_for_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Compiled]:
    """Compiles a function as for a GPU, with `triton_compiler` as given."""
    import torch_tile.frontend.aot as aot

    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(tmp_path))
    target = "sm_90"
    found: list[Compiled] = []

    def compile_graph(gm: Any, inputs: Any, kind: str, settings: Any) -> Any:
        gm = triton_kernels.replace_triton_kernels(gm, settings)
        graph = _C.print_graph(gm)
        files: dict[str, str] = {}
        if not graph.pycalls:
            _C.compile_graph(graph.text, {"target": target}, None, 0, files.__setitem__, [None] * 64, device="cuda:0")
        notes = gm.meta[triton_kernels.LAUNCH_NOTES]
        found.append(Compiled(graph.text, files, len(graph.pycalls), notes))
        return make_boxed_func(stop)

    def stop(*arguments: Any) -> None:
        raise _NotRun

    def run(function: Any, *arguments: Any, compiler: str = "tile") -> Compiled:
        found.clear()
        torch._dynamo.reset()
        counters.clear()
        options = {"triton_compiler": compiler}
        with pytest.raises(_NotRun):
            torch.compile(function, backend="tile", fullgraph=True, options=options)(*arguments)
        (result,) = found
        return result

    monkeypatch.setattr(on_gpu, "target_of", lambda launch: target)
    monkeypatch.setattr(
        triton_kernels.Launch, "devices", property(lambda launch: {torch.device("cuda", 0)}), raising=True
    )
    monkeypatch.setattr(aot, "compile_graph", compile_graph)
    return run


def test_values_of_the_option() -> None:
    assert config.KNOBS["triton_compiler"].choices == ("triton", "tile")
    assert config.resolve(options={"triton_compiler": "tile"})["triton_compiler"] == "tile"
    assert "triton_compiler" in torch_tile.list_options()
    with pytest.raises(OptionError, match="'triton_compiler' expected one of triton, tile, got 'ptx'"):
        torch.compile(torch.sin, backend="tile", options={"triton_compiler": "ptx"})


def test_the_option_is_part_of_keys() -> None:
    """A graph that is cached with Triton's launches is not found where kernels are to be compiled here."""
    from torch_tile.frontend import autograd_key

    keys = [
        config.resolve(options={"triton_compiler": name}).key(autograd_key._IRRELEVANT) for name in ("triton", "tile")
    ]
    assert keys[0] != keys[1]


def test_a_launch_is_a_step(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.add[(triton.cdiv(1000, 128),)](x, y, out, 1000, BLOCK=128, num_warps=2, maxnreg=40, num_stages=1)
        return out

    x, y, out = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
    compiled = compile_for_gpu(function, x, y)
    program = compiled.files["55-program.txt"]
    assert compiled.pycalls == 0 and "launch add_0(" in program and "call" not in program
    assert "tile.wanted_threads = 64 : i64" in compiled.text and "tile.max_registers = 40 : i64" in compiled.text
    assert "tile.argument_multiples = array<i64: 16, 16, 16, 0>" in compiled.text
    assert "tile.num_stages" not in compiled.text
    assert ".maxntid 64\n.maxnreg 40\n" in compiled.files["60-kernel.ptx"]
    compiled.run((8,), [x, y, out, 1000])
    assert torch.equal(out, x + y)


def test_the_default_is_triton(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.add[(1,)](x, x, out, 100, BLOCK=128)
        return out

    compiled = compile_for_gpu(function, torch.randn(100), compiler="triton")
    assert compiled.pycalls == 1 and counters["triton_refusals"] == 0 and not compiled.notes


def test_pointers_come_first(compile_for_gpu: Any) -> None:
    """Numbers between pointers, a float, and known divisibility."""

    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.softmax[(3,)](x, out, 32, 29, BLOCK=32)
        return out

    x, out = torch.randn(3, 32), torch.zeros(3, 32)
    compiled = compile_for_gpu(function, x)
    assert "tile.argument_multiples = array<i64: 16, 16, 16, 0>" in compiled.text
    compiled.run((3,), [x, out, 32, 29])
    torch.testing.assert_close(out[:, :29], x[:, :29].softmax(1))
    assert not out[:, 29:].any()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-2), (torch.bfloat16, 1e-2)])
def test_products(dtype: torch.dtype, tolerance: float, compile_for_gpu: Any) -> None:
    """Operands of float32 are rounded to TF32 unless a kernel says otherwise, as by Triton on CUDA."""
    M, N, K = 40, 32, 48

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = a.new_empty(M, N)
        kernels.matmul[(2, 1)](a, b, c, M, N, K, BM=32, BN=32, BK=16)
        return c

    a, b, c = torch.randn(M, K).to(dtype), torch.randn(K, N).to(dtype), torch.zeros(M, N, dtype=dtype)
    compiled = compile_for_gpu(function, a, b)
    assert ('tile.input_precision = "tf32"' in compiled.text) and "mma" in compiled.files["60-kernel.ptx"]
    compiled.run((2, 1), [a, b, c, M, N, K])
    # TF32 and bfloat16 round operands, by 2^-11 and not at all; sums of 48 products, bfloat16 results.
    torch.testing.assert_close(c, a @ b, rtol=tolerance, atol=tolerance)


def test_attention(compile_for_gpu: Any) -> None:
    n, D = 48, 32

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(q)
        kernels.attention[(3,)](q, k, v, out, n, D=D, BM=16, BN=16)
        return out

    q, k, v = (torch.randn(n, D) / 4 for _ in range(3))
    out = torch.zeros(n, D)
    compile_for_gpu(function, q, k, v).run((3,), [q, k, v, out, n])
    # TF32 rounds operands by 2^-11; scores are below 4, values below 1.
    torch.testing.assert_close(out, (q @ k.T).softmax(1) @ v, rtol=0, atol=2e-3)


def test_layer_norm(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.layer_norm[(4,)](x, out, w, b, 50, 1e-5, BLOCK=64)
        return out

    x, w, b, out = torch.randn(4, 50), torch.randn(50), torch.randn(50), torch.zeros(4, 50)
    compile_for_gpu(function, x, w, b).run((4,), [x, out, w, b, 50, 1e-5])
    torch.testing.assert_close(out, torch.nn.functional.layer_norm(x, (50,), w, b))


def test_scans_and_device_functions(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.running_sum[(1,)](x, out, M=8, N=32, AXIS=1)
        return out

    x, out = torch.randn(8, 32), torch.zeros(8, 32)
    compile_for_gpu(function, x).run((1,), [x, out])
    torch.testing.assert_close(out, x.cumsum(1))


def test_atomics_and_a_grid_of_a_function(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor, total: torch.Tensor) -> None:
        kernels.accumulate[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x, total, 300, BLOCK=64)

    x, total = torch.randn(300), torch.zeros(1)
    compiled = compile_for_gpu(function, x, total)
    assert re.search(r"programs 5 of grid \[5, 1, 1\]", compiled.files["55-program.txt"])
    compiled.run((5,), [x, total, 300])
    torch.testing.assert_close(total, x.sum()[None])


def test_sizes_that_change(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        n = x.shape[0]
        kernels.add[(triton.cdiv(n, 128),)](x, x, out, n, BLOCK=128)
        return out

    x = torch.randn(300)
    torch._dynamo.mark_dynamic(x, 0)
    compiled = compile_for_gpu(function, x)
    assert compiled.pycalls == 0 and " of grid [" in compiled.files["55-program.txt"]


if HAS_TRITON:

    @triton.jit
    def look_again(x_ptr, out_ptr):
        value = tl.load(x_ptr, volatile=True)
        while value == 0:
            value = tl.load(x_ptr, volatile=True)
        tl.store(out_ptr, value)


def test_volatile_loads_are_triton_s(compile_for_gpu: Any) -> None:
    """Optimisations may join or hoist the loads that are made here."""

    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        look_again[(1,)](x, out)
        return out

    (note,) = compile_for_gpu(function, torch.ones(1)).notes
    assert "a volatile load" in note


def test_what_is_refused_is_triton_s(compile_for_gpu: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, counted and noted for `explain`."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        kernels.assembly[(1,)](y, N=16)
        return y

    with caplog.at_level(logging.WARNING, "torch_tile"):
        compiled = compile_for_gpu(function, torch.arange(16, dtype=torch.int32))
    assert compiled.pycalls == 1 and counters["triton_refusals"] == 1
    assert "kernel assembly is compiled by Triton" in caplog.text
    assert "assembly is Triton's" in compiled.notes[0] and compiled.notes[0].endswith("inline assembly")


if HAS_TRITON:

    @triton.jit
    def three(out_ptr):
        tl.store(out_ptr + tl.arange(0, 3), 1.0)


def test_what_triton_says_of_a_kernel_is_said(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        three[(1,)](out)
        return out

    (note,) = compile_for_gpu(function, torch.ones(4)).notes
    assert "range must be a power of 2" in note and note.endswith("(line 2 of the kernel)")


@pytest.mark.parametrize("keyword", [{"enable_fp_fusion": False}, {"maxnreg": 300}, {"arch": "sm80"}])
def test_launches_that_ask_for_more(keyword: dict[str, Any], compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.add[(1,)](x, x, out, 16, BLOCK=16, **keyword)
        return out

    assert compile_for_gpu(function, torch.randn(16)).pycalls == 1
    assert counters["triton_refusals"] == 1


if HAS_TRITON:

    @triton.jit
    def blocks_of(x_ptr, out_ptr, n, SHAPE: tl.constexpr):
        """A descriptor, a loop, a branch, a tuple as a constant."""
        x = tl.make_tensor_descriptor(x_ptr, [8, n], [n, 1], [SHAPE[0], SHAPE[1]])
        total = tl.zeros((SHAPE[0], SHAPE[1]), tl.float32)
        for k in range(tl.cdiv(n, SHAPE[1])):
            block = x.load([0, k * SHAPE[1]])
            total += block if k > 0 else 2 * block
        tl.debug_barrier()
        tl.store(out_ptr + tl.arange(0, SHAPE[0]), tl.sum(total, 1))

    @triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2, num_stages=2)], key=["n"])
    @triton.jit
    def tuned(x_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def test_descriptors_and_loops(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor, out: torch.Tensor) -> None:
        blocks_of[(1,)](x, out, 40, SHAPE=(8, 16))

    x, out = torch.randn(8, 40), torch.zeros(8)
    compile_for_gpu(function, x, out).run((1,), [x, out, 40])
    torch.testing.assert_close(out, x.sum(1) + x[:, :16].sum(1))


def test_options_of_a_configuration(compile_for_gpu: Any) -> None:
    def function(x: torch.Tensor) -> None:
        tuned[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)

    compiled = compile_for_gpu(function, torch.randn(100))
    assert compiled.pycalls == 0
    assert "tile.wanted_threads = 64 : i64" in compiled.text and "tile.num_stages = 2 : i64" in compiled.text
