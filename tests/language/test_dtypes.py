"""Operations on every type: the interpreter's bits are those of compiled code."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")


@torch_tile.jit
def kernel(x_ptr, y_ptr, o_ptr, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, OP(tl.load(x_ptr + i), tl.load(y_ptr + i)).to(tl.float64))


ANY: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "less": lambda a, b: a < b,
    "maximum": lambda a, b: tl.maximum(a, b),
    "where": lambda a, b: tl.where(a > b, a, b),
    "negative": lambda a, b: -a,
    "abs": lambda a, b: tl.abs(a),
    "number": lambda a, b: a * 3 + 1,
    "max": lambda a, b: a * 0 + tl.max(b, 0).to(a.dtype),
    "sort": lambda a, b: tl.sort(a),
    "to_float32": lambda a, b: a.to(tl.float32),
    "to_bfloat16": lambda a, b: a.to(tl.bfloat16),
    "to_float16": lambda a, b: a.to(tl.float16),
    "divide": lambda a, b: a / b,
}
INTEGER: dict[str, Any] = {
    "quotient": lambda a, b: a // b,
    "rest": lambda a, b: a % b,
    "shift_right": lambda a, b: a >> (b % 7),
    "shift_left": lambda a, b: a << (b % 7),
    "xor": lambda a, b: a ^ b,
    "invert": lambda a, b: ~a,
    "cumsum": lambda a, b: tl.cumsum(a, 0),
    "sum": lambda a, b: a * 0 + tl.sum(b, 0).to(a.dtype),
    "and": lambda a, b: (a > 3) & (b < 100),
}
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_equal_bits(dtype: torch.dtype) -> None:
    size = 64
    if dtype.is_floating_point:
        x, y = (10 * torch.randn(size)).to(dtype), (10 * torch.randn(size)).to(dtype)
    else:
        info = torch.iinfo(dtype)
        x = torch.randint(max(info.min, -(2**62)), min(info.max, 2**62), (size,)).to(dtype)
        y = torch.randint(1, min(info.max, 2**31), (size,)).to(dtype)
    for name, op in {**ANY, **({} if dtype.is_floating_point else INTEGER)}.items():
        compiled, interpreted = (torch.zeros(size, dtype=torch.float64) for _ in range(2))
        kernel[(1,)](x, y, compiled, op, size)
        kernel.interpret[(1,)](x, y, interpreted, op, size)
        assert torch.equal(compiled.isnan(), interpreted.isnan()), name
        assert torch.equal(compiled.nan_to_num(), interpreted.nan_to_num()), name


@torch_tile.jit
def multiples(o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, i * n)


@pytest.mark.parametrize("n", [2**31, 3 * 10**9, 2**32 - 1, 2**32 + 5, -(2**31) - 1], ids=str)
@pytest.mark.parametrize("way", ["compiled", "interpreted", "in a graph"])
def test_integers_of_a_launch_beyond_32_bits(n: int, way: str) -> None:
    """They are int64, as in Triton, so products with indices do not wrap around."""

    def run(o: torch.Tensor) -> torch.Tensor:
        multiples[(1,)](o, n, B=8)
        return o

    o = torch.zeros(8, dtype=torch.int64)
    if way == "interpreted":
        multiples.interpret[(1,)](o, n, B=8)
    else:
        o = (torch.compile(run, backend="tile") if way == "in a graph" else run)(o)
    assert torch.equal(o, torch.arange(8) * n)


@torch_tile.jit
def count_of_true(x_ptr, out_ptr, B: tl.constexpr):
    c = tl.sum(tl.load(x_ptr + tl.arange(0, B)) > 0)
    tl.store(out_ptr, (c - 5).to(tl.int64))


def test_truth_values_are_unsigned() -> None:
    """As in Triton: sums of them are uint32."""
    assert tl.int1.is_int_unsigned() and not tl.int1.is_int_signed()
    out = torch.zeros(1, dtype=torch.int64)
    count_of_true[(1,)](torch.tensor([1.0, 1.0, -1.0, -1.0]), out, B=4)
    assert out.item() == 2**32 - 3
