"""Kernels for a GPU, run on the CPU, read nothing outside of their tensors: each ends where unmapped memory begins."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.compiling import run_python
from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, schedules

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

_PRIVATE, _ANONYMOUS = 0x02, 0x20


def before_unmapped_page(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose last byte is the last of a page; the next page is not there."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = tensor.numel() * tensor.element_size()
    mapped = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    base = libc.mmap(None, mapped + mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
    assert libc.mprotect(base + mapped, mmap.PAGESIZE, 0) == 0  # no access
    memory = (ctypes.c_uint8 * size).from_address(base + mapped - size)
    return torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape).copy_(tensor)


def counts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape[0], 7, dtype=x.dtype).scatter_add(1, (x > 0).long(), torch.where(y > 0, y, x))


def window(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 1, y, 0).unfold(1, 16, 8).sum(-1)


def shifted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x[:, 1:] * 2 + y[:, :-1]


def ends(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1) + y.sum(-1, keepdim=True)


FUNCTIONS: list[Callable[..., torch.Tensor]] = [counts, window, shifted]


def check(number: int, length: int, dtype: torch.dtype, dynamic: bool) -> None:
    torch.manual_seed(0)
    f = FUNCTIONS[number]
    x, y = torch.randint(0, 5, (4, length)).to(dtype), torch.randint(0, 5, (4, length)).to(dtype)
    files = compile_for_gpu(f, x, y, dynamic=dynamic)
    found = SimulatedGraph(files).run(before_unmapped_page(x), before_unmapped_page(y))
    torch.testing.assert_close(found[0], f(x, y))


def check_ends(length: int) -> None:
    """Rows that one warp reads in pieces of 16 bytes, the last of which is a part."""
    torch.manual_seed(0)
    x, y = torch.randn(4, length), torch.randn(4, length)
    files = compile_for_gpu(ends, x, y)
    assert any(" threads 32 " in each and "from multiples of 4" in each for each in schedules(files))
    found = SimulatedGraph(files).run(before_unmapped_page(x), before_unmapped_page(y))
    torch.testing.assert_close(found[0], ends(x, y))


@pytest.mark.parametrize("length", [129, 147, 150])
def test_rows_of_one_warp(length: int) -> None:
    run_python(f"from tests.gpu.test_simulated_bounds import check_ends\ncheck_ends({length})")


@pytest.mark.parametrize("number", range(len(FUNCTIONS)), ids=[f.__name__ for f in FUNCTIONS])
def test_rows_that_end_with_a_block(number: int) -> None:
    """In a process of its own, which a read outside would end."""
    rows = [("torch.float16", 1023, True), ("torch.int64", 1024, True), ("torch.int64", 1024, False)]
    lines = ["import torch", "from tests.gpu.test_simulated_bounds import check"]
    lines += [f"check({number}, {length}, {dtype}, {dynamic})" for dtype, length, dynamic in rows]
    run_python("\n".join(lines))
