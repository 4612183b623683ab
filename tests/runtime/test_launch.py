"""Kernel launches: partition over threads, scratch, errors, the float environment, call overhead."""

from __future__ import annotations

import hashlib
import threading
from types import ModuleType

import pytest
import torch

from tests.compiling import run_python

from .artifact_builder import Builder


def digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def add_program(runtime: ModuleType, code: bytes, sizes: list, cost_ns: int, block: int = 64) -> object:
    b = Builder()
    total: object = 1
    for size in sizes:
        total = ("Mul", total, size) if isinstance(size, str) or isinstance(total, tuple) else total * size
    if isinstance(sizes[0], str):
        b.symbol(sizes[0], "Size", 0, 0)
    x, y = b.input(sizes), b.input(sizes)
    k = b.kernel("add", "addKernel", digest("add"), code)
    z = b.alloc(sizes)
    b.launch(k, [x, y, z], [block, total], ("CeilDiv", total, block), cost_ns, moved=12, lines=[4, 5])
    b.output(z)
    return runtime.load_artifact(b.build(), [])


def test_launch(runtime: ModuleType, kernel_code: bytes) -> None:
    program = add_program(runtime, kernel_code, [10, 100], 1)
    x, y = torch.randn(10, 100), torch.randn(10, 100)
    assert torch.equal(program([x, y])[0], x + y)
    assert (program.num_kernels, program.num_launches) == (1, 1)
    row = program.kernels[0]
    assert row == {
        "name": "add",
        "hash": digest("add").hex(),
        "target": "cpu",
        "launches": 1,
        "bytes_moved": 12,
        "lines": [4, 5],
    }


def test_profiler_shows_kernels(runtime: ModuleType, kernel_code: bytes) -> None:
    program = add_program(runtime, kernel_code, [16], 1)
    x = torch.randn(16)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        program([x, x])
    assert "add" in [event.key for event in profile.key_averages()]


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("cost_ns", [1, 10**6])
def test_any_partition_gives_the_same(runtime: ModuleType, kernel_code: bytes, threads: int, cost_ns: int) -> None:
    program = add_program(runtime, kernel_code, ["s0", 33], cost_ns, block=7)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for n in (1, 2, 50, 1000, 0):
            x, y = torch.randn(n, 33), torch.randn(n, 33)
            assert torch.equal(program([x, y])[0], x + y)
    finally:
        torch.set_num_threads(before)


def gather_program(runtime: ModuleType, code: bytes, n: int, cost_ns: int) -> object:
    b = Builder()
    table, index = b.input([5]), b.input([n], dtype="i64")
    k = b.kernel("gather", "gatherKernel", digest("gather"), code)
    out = b.alloc([n])
    b.launch(k, [table, index, out], [5], n, cost_ns, scratch=64)
    b.output(out)
    return runtime.load_artifact(b.build(), [])


@pytest.mark.parametrize("cost_ns", [1, 10**6])
def test_index_out_of_range(runtime: ModuleType, kernel_code: bytes, cost_ns: int) -> None:
    program = gather_program(runtime, kernel_code, 64, cost_ns)
    table, index = torch.randn(5), torch.randint(5, (64,))
    assert torch.equal(program([table, index])[0], table[index])
    index[3], index[60] = 7, 9
    # The lowest one is named, however threads race.
    for _ in range(20):
        with pytest.raises(IndexError, match="index 7 is out of bounds for dimension with size 5"):
            program([table, index])
    index[3] = index[60] = 0
    assert torch.equal(program([table, index])[0], table[index])


def test_workers_take_the_callers_float_mode(runtime: ModuleType, kernel_code: bytes) -> None:
    b = Builder()
    k = b.kernel("mode", "modeKernel", digest("mode"), kernel_code)
    out = b.alloc([64], dtype="i64")
    b.launch(k, [out], [20000], 64, 10**6)
    b.output(out)
    program = runtime.load_artifact(b.build(), [])
    if not torch.set_flush_denormal(True):
        pytest.skip("the processor has no flush-to-zero mode")
    try:
        assert (program([])[0] != 0).all()
    finally:
        torch.set_flush_denormal(False)
    assert (program([])[0] == 0).all()


def test_equal_kernels_are_loaded_once_and_shared(runtime: ModuleType, kernel_code: bytes) -> None:
    first = add_program(runtime, kernel_code, [4], 1)
    second = add_program(runtime, b"", [8], 1)  # no code: only right because the process holds the kernel
    del first
    x = torch.randn(8)
    assert torch.equal(second([x, x])[0], x + x)


def test_threads_launch_at_once(runtime: ModuleType, kernel_code: bytes) -> None:
    program = add_program(runtime, kernel_code, ["s0", 64], 10000)
    failures = []

    def work(n: int) -> None:
        for _ in range(100):
            x = torch.randn(n, 64)
            if not torch.equal(program([x, x])[0], x + x):
                failures.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 10, 100, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_pool_is_used(runtime: ModuleType, kernel_code: bytes, test_libraries: tuple, tmp_path: object) -> None:
    """A file compiled without -fopenmp would silently run everything on one thread."""
    b = Builder()
    k = b.kernel("mode", "modeKernel", digest("mode"), kernel_code)
    out = b.alloc([2], dtype="i64")
    b.launch(k, [out], [10], 2, 10**6)
    b.output(out)
    artifact = tmp_path / "artifact"  # type: ignore[operator]
    artifact.write_bytes(b.build())
    script = f"""
import importlib.util, os, pathlib, torch
spec = importlib.util.spec_from_file_location("x._C", {runtime.__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.set_compiler_library({str(test_libraries[0])!r})
torch.set_num_threads(3)
program = module.load_artifact(pathlib.Path({str(artifact)!r}).read_bytes(), [])
before = len(os.listdir("/proc/self/task"))
program([])
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert int(run_python(script)) >= 1
