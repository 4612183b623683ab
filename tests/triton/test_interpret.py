"""torch_tile.interpret of kernels written for Triton gives what they give compiled."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import triton

import torch_tile
import torch_tile.language as tl
from tests.language.test_casts import bits_of, midpoints

from . import interpreted as kernels

WIDE = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def assert_alike(kernel: Any, x: torch.Tensor, *arguments: Any) -> torch.Tensor:
    """The last tensor of the compiled kernel, which the interpreted one equals."""
    compiled, other = x.clone(), x.clone()
    kernel[(1,)](*arguments[:-1], compiled, arguments[-1])
    torch_tile.interpret(kernel)[(1,)](*arguments[:-1], other, arguments[-1])
    assert torch.equal(bits_of(compiled), bits_of(other)), (compiled, other)
    return compiled


@pytest.mark.parametrize("to", [*FLOAT8, torch.float16, torch.bfloat16], ids=lambda t: str(t).split(".")[1])
@pytest.mark.parametrize("source", WIDE)
def test_conversions(source: torch.dtype, to: torch.dtype) -> None:
    if source is not to:
        assert_alike(kernels.convert, torch.zeros(512, dtype=to), midpoints(source, to), 512)


@pytest.mark.parametrize("dtype", FLOAT8, ids=lambda t: str(t).split("_", 1)[1])
def test_numbers_beyond_the_range_saturate(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    x = torch.tensor([1e9, -1e9, math.inf, -math.inf, largest * 1.2, largest, math.nan, 1.0])
    found = assert_alike(kernels.convert, torch.zeros(8, dtype=dtype), x, 8).float()
    expected = [largest, -largest, largest, -largest, largest, largest]
    assert found[:6].tolist() == expected and found[6].isnan() and found[7] == 1


@pytest.mark.parametrize("dtype", [*WIDE, *FLOAT8, torch.int32])
@pytest.mark.parametrize("value", [2.7, 1 + 2**-30, 1e9, 3])
def test_numbers_as_elements(dtype: torch.dtype, value: float) -> None:
    if dtype in FLOAT8 and isinstance(value, int):
        return  # Triton converts no integers to them
    for kernel in (kernels.masked_load, kernels.store):
        assert_alike(kernel, torch.zeros(16, dtype=dtype), value)
    if dtype in WIDE:
        assert_alike(kernels.add_atomically, torch.ones(16, dtype=dtype), value)
        assert_alike(kernels.arithmetic, torch.ones(16, dtype=dtype), value)
    if dtype in (torch.float64, torch.float32):
        assert_alike(kernels.exchange, torch.ones(16, dtype=dtype), value)


def test_numbers_go_through_float32_in_kernels_of_triton_alone() -> None:
    @torch_tile.jit
    def ours(o_ptr):
        i = tl.arange(0, 16)
        tl.store(o_ptr + i, tl.load(o_ptr + i, mask=i < 0, other=2.7))
        tl.store(o_ptr, 2.7)

    @torch_tile.jit
    def infinite(o_ptr):
        tl.store(o_ptr, tl.full([], 1e9, tl.float32).to(tl.float8e5))

    for run in (ours, ours.interpret, torch_tile.interpret(ours)):
        o = torch.zeros(16, dtype=torch.float64)
        run[(1,)](o)
        assert o.tolist() == [2.7] * 16
    for run in (infinite, infinite.interpret, torch_tile.interpret(infinite)):
        o = torch.zeros(1, dtype=torch.float8_e5m2)
        run[(1,)](o)
        assert o.float().item() == math.inf
    o = assert_alike(kernels.store, torch.zeros(16, dtype=torch.float64), 2.7)
    assert o[0].item() == torch.tensor(2.7).double().item()


def test_options_and_wrappers_keep_the_meaning() -> None:
    x, tuned = torch.full((8,), 1e9), triton.autotune([triton.Config({"N": 8})], key=[])(kernels.convert)
    for kernel, constants in ((kernels.convert, {"N": 8}), (tuned, {})):
        o = torch.zeros(8, dtype=torch.float8_e5m2)
        torch_tile.interpret(kernel)(check=True)[(1,)](x, o, **constants)
        assert o.float().tolist() == [57344.0] * 8


def test_aggregates() -> None:
    x = torch.randn(32)
    compiled, interpreted = torch.zeros(16), torch.zeros(16)
    kernels.with_aggregates[(1,)](x, compiled, 32, B=8)
    torch_tile.interpret(kernels.with_aggregates)[(1,)](x, interpreted, 32, B=8)
    expected = x.view(4, 8).sum(0)
    torch.testing.assert_close(compiled, torch.stack([expected, 2 * expected], 1).flatten())
    assert torch.equal(compiled, interpreted)
