"""What a compiled kernel says of itself, and the options of a launch, here for GPUs that are not there."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests import processes
from tests.language.conftest import has_compiler
from torch_tile import _C
from torch_tile.errors import OptionError, OutOfResources, TileError, UnsupportedError
from torch_tile.language import compiled_kernel, graph, jit

pytestmark = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")
needs_assembler = pytest.mark.skipif(
    not hasattr(_C, "assembler") or _C.assembler() == "driver", reason="needs nvJitLink or ptxas"
)


@torch_tile.jit
def double(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


@torch_tile.jit
def product(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def compiled_product(N: int, dtype: torch.dtype = torch.bfloat16, **options: Any) -> Any:
    return product.warmup(dtype, dtype, torch.float32, N=N, grid=(1,), target="sm_90", **options)


# --- warmup -----------------------------------------------------------------------------------------------------------


def test_warmup_returns_what_a_launch_returns() -> None:
    x = torch.ones(100)
    compiled = double.warmup(x, 100, B=128, grid=(1,))
    assert double[(1,)](x, 100, B=128) is compiled
    assert torch.equal(x, torch.full((100,), 2.0))
    assert (compiled.n_regs, compiled.n_spills, compiled.occupancy) == (1, 0, None)
    assert (compiled.metadata.num_warps, compiled.metadata.shared, compiled.metadata.name) == (1, 1, "double")


def test_warmup_for_a_target() -> None:
    compiled = double.warmup(torch.float32, 100, B=1024, grid=(1,), target="sm_80", num_warps=8)
    assert ".target sm_80" in compiled.asm["ptx"] and ".maxntid 256" in compiled.asm["ptx"]
    assert compiled.metadata.num_warps == 8 and compiled.metadata.shared == 0
    with pytest.raises(OptionError, match=r"target expected one of sm_80, .*, got 'sm_70'"):
        double.warmup(torch.float32, 100, B=1024, grid=(1,), target="sm_70")


def test_warps_are_those_that_there_are() -> None:
    """A tile of 32768 elements takes 16 warps."""
    compiled = double.warmup(torch.float32, 100, B=32768, grid=(1,), target="sm_90", num_warps=1)
    assert compiled.metadata.num_warps == compiled.n_max_threads // 32 > 1


# --- registers --------------------------------------------------------------------------------------------------------


def test_maxnreg_is_in_the_code() -> None:
    compiled = compiled_product(64, maxnreg=40, num_warps=4)
    assert ".maxntid 128\n.maxnreg 40\n" in compiled.asm["ptx"] and compiled.metadata.maxnreg == 40
    assert ".maxnreg" not in compiled_product(64, num_warps=4).asm["ptx"]


@needs_assembler
def test_registers_are_those_of_the_assembler() -> None:
    free, limited = compiled_product(64, num_warps=4), compiled_product(64, num_warps=4, maxnreg=32)
    assert free.n_regs > 32 and free.n_spills == 0
    assert limited.n_regs <= 32 and limited.n_spills > 0
    assert free.metadata.hash == limited.metadata.hash and free is not limited


@needs_assembler
@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_shared_memory_is_that_of_the_code(target: str) -> None:
    compiled = product.warmup(
        torch.bfloat16, torch.bfloat16, torch.float32, N=64, grid=(1,), target=target, num_warps=4
    )
    assert compiled.metadata.shared == 2 * 64 * 64 * 2
    assert 16 < compiled.n_regs <= 255


def test_shared_memory_of_the_launch() -> None:
    compiled = compiled_product(128, num_warps=8)  # more than a kernel may declare
    assert compiled.metadata.shared == 2 * 128 * 128 * 2


def test_what_nobody_knows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    facts = {"num_threads": 64, "shared_bytes": 0, "num_registers": None, "local_bytes": None}
    monkeypatch.setattr(compiled_kernel._C, "kernel_resources", lambda *_: {**facts, "blocks_per_multiprocessor": None})
    compiled = double.warmup(torch.float32, 100, B=512, grid=(1,), target="sm_90")
    with caplog.at_level(logging.WARNING):
        assert compiled.n_regs is None and compiled.n_spills is None and compiled.occupancy is None
    assert "num_registers of kernel double for sm_90 is not known: a driver with a device, nvJitLink" in caplog.text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"maxnreg": 0}, "maxnreg expected an integer from 1 on, got 0"),
        ({"maxnreg": 300}, "maxnreg expected at most 255 registers, got 300"),
        ({"num_stages": -1}, "num_stages expected an integer from 0 on, got -1"),
        ({"num_warps": 2.0}, r"num_warps expected an integer from 1 on, got 2\.0"),
        ({"num_warps": 3}, "num_warps must be a power of 2, got 3"),
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=f"kernel double: {message}"):
        double.warmup(torch.float32, 100, B=128, grid=(1,), **options)


# --- out of resources -------------------------------------------------------------------------------------------------


def test_out_of_resources() -> None:
    with pytest.raises(OutOfResources, match="use smaller block sizes or a lower num_stages") as caught:
        product.warmup(torch.bfloat16, torch.bfloat16, torch.float32, N=256, grid=(1,), target="sm_86", num_warps=16)
    error = caught.value
    assert (error.name, error.required, error.limit) == ("shared memory", 2 * 256 * 256 * 2, 99 << 10)
    assert isinstance(error, UnsupportedError)
    copied = pickle.loads(pickle.dumps(error))
    assert isinstance(copied, OutOfResources) and copied.required == error.required


def test_out_of_resources_has_the_name_of_triton() -> None:
    pytest.importorskip("triton")
    program = """
import pickle, sys, torch_tile.errors as errors
arguments = ("codegen", "out of resources: shared memory, required 7 bytes, limit 5 bytes of a block")
assert type(errors.OutOfResources(*arguments)) is errors.OutOfResources and "triton" not in sys.modules
from triton.runtime.errors import OutOfResources
try:
    raise errors.OutOfResources(*arguments)
except OutOfResources as error:
    assert isinstance(error, errors.OutOfResources)
    assert (error.required, error.limit, error.name) == (7, 5, "shared memory")
    assert pickle.loads(pickle.dumps(error)).required == 7
    print(error)
"""
    done = processes.run("-c", program, imports=False)
    assert done.stdout == "codegen: out of resources: shared memory, required 7 bytes, limit 5 bytes of a block\n", done


# --- inside torch.compile ---------------------------------------------------------------------------------------------


def launched_with(function: Any, *arguments: Any) -> list[dict[str, Any]]:
    """Options of launches that a graph makes, where it runs as Dynamo captured it."""
    found = []
    run = jit.JITFunction._run

    def spy(self: Any, grid: Any, args: Any, kwargs: Any) -> Any:
        found.append({k: v for k, v in kwargs.items() if k not in self.arg_names})
        return run(self, grid, args, kwargs)

    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        compiled = torch.compile(function, backend=lambda gm, _: gm, fullgraph=True)
        compiled(*arguments)  # traces
        patch.setattr(jit.JITFunction, "_run", spy)
        compiled(*arguments)
    return found


def test_options_of_launches_in_graphs_are_kept() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        double[(2,)](x, 100, B=64, num_warps=8, num_stages=2, maxnreg=64)
        double[(2,)](x, 100, B=64)
        return x

    x = torch.ones(100)
    assert launched_with(function, x) == [{"num_warps": 8, "num_stages": 2, "maxnreg": 64}, {}]
    assert torch.equal(x, torch.full((100,), 16.0))


def test_options_tell_launches_apart() -> None:
    before = set(graph._launches)
    for num_warps in (4, 8):

        def function(x: torch.Tensor, num_warps: int = num_warps) -> torch.Tensor:
            double[(2,)](x, 100, B=32, num_warps=num_warps)
            return x

        torch._dynamo.reset()
        torch.compile(function, backend="tile", fullgraph=True)(torch.ones(100))
    made = [graph.find(key).hints for key in graph._launches if key not in before]
    assert made == [{"num_warps": 4}, {"num_warps": 8}]


def test_options_of_wrapped_kernels() -> None:
    wrapped = torch_tile.heuristics({"B": lambda args: 64})(double)

    def function(x: torch.Tensor) -> torch.Tensor:
        wrapped[(2,)](x, 100, num_warps=2)
        return x

    assert launched_with(function, torch.ones(100)) == [{"num_warps": 2}]


def test_errors_are_those_of_the_package() -> None:
    assert issubclass(OutOfResources, TileError) and torch_tile.runtime.errors.OutOfResources is OutOfResources


# --- memory -----------------------------------------------------------------------------------------------------------


def test_launch_does_not_reach_what_is_copied_on_write() -> None:
    x = torch.ones(100)
    y = torch._lazy_clone(x)
    double[(1,)](y, 100, B=128)
    assert torch.equal(y, torch.full((100,), 2.0))
    assert torch.equal(x, torch.ones(100))
