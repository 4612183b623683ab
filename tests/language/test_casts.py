"""Conversions between every two types at midpoints: compiled and interpreted alike, and as torch has them."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
import torch

import torch_tile
import torch_tile.language as tl

FLOATS = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.float8_e4m3fn: tl.float8e4nv,
    torch.float8_e5m2: tl.float8e5,
    torch.float8_e4m3fnuz: tl.float8e4b8,
    torch.float8_e5m2fnuz: tl.float8e5b16,
}
INTEGERS = {
    torch.int8: tl.int8,
    torch.int16: tl.int16,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
    torch.uint8: tl.uint8,
    torch.uint16: tl.uint16,
    torch.uint32: tl.uint32,
    torch.uint64: tl.uint64,
    torch.bool: tl.int1,
}
TYPES = FLOATS | INTEGERS
COUNT = 512
WAYS = (lambda kernel: kernel, lambda kernel: kernel.interpret)


@torch_tile.jit
def convert(x_ptr, o_ptr, TYPE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(TYPE))


@torch_tile.jit
def convert_scalars(x_ptr, o_ptr, TYPE: tl.constexpr, N: tl.constexpr):
    for i in range(N):
        tl.store(o_ptr + i, tl.load(x_ptr + i).to(TYPE))


def mantissa_bits(dtype: torch.dtype) -> int:
    return -int(math.log2(torch.finfo(dtype).eps)) if dtype.is_floating_point else 8


def midpoints(source: torch.dtype, to: torch.dtype) -> torch.Tensor:
    """Numbers halfway between two of `to`, and near them: by less than a float32 tells, too."""
    generator, bits = random.Random(7), mantissa_bits(to)
    values: list[Fraction] = []
    for _ in range(COUNT - 16):
        odd = 2 * generator.randrange(2**bits, 2 ** (bits + 1)) + 1
        step = generator.choice([-1, 0, 1])
        if source.is_floating_point:
            number = odd * Fraction(2) ** (generator.randrange(-20, 20) - bits)
            number *= 1 + step * Fraction(1, 2 ** generator.choice([20, 26, 30, 40, 50]))
        else:
            number = Fraction(odd * 2 ** max(generator.randrange(0, 61 - bits), 0) + step)
        values.append(number * generator.choice([-1, 1]))
    if not source.is_floating_point:
        low = torch.tensor([int(v) for v in values] + [0] * 16)
        return low if source is torch.int64 else low.to(source)
    edges = [0.0, -0.0, 1e300, -1e300, 65519.999999999, 65520.0, 448.0, 464.0, 480.0, 61439.9999999, 61440.0, 1e-45]
    edges += [math.inf, -math.inf, math.nan, 1e-320]
    if not to.is_floating_point:  # out of range a conversion gives what the machine has
        limits = torch.iinfo(torch.int8 if to is torch.bool else to)
        near = torch.tensor([float(v) if limits.min <= v <= limits.max // 2 else 1.5 for v in values] + [0.0] * 16)
        rounded = near.to(source).double()
        return torch.where(rounded.isfinite(), rounded, 1.5).to(source)
    return torch.tensor([float(v) for v in values] + edges, dtype=torch.float64).to(source)


def bits_of(x: torch.Tensor) -> torch.Tensor:
    """Bits, with one NaN for all of them."""
    if x.is_floating_point():
        x = torch.where(x.double().isnan(), torch.tensor(math.nan, dtype=x.dtype), x)
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@pytest.mark.parametrize("source", TYPES, ids=lambda t: str(t).split(".")[1])
def test_compiled_as_interpreted_and_as_torch(source: torch.dtype) -> None:
    for to, type_ in TYPES.items():
        x = midpoints(source, to)
        compiled, interpreted = (torch.zeros(COUNT, dtype=to) for _ in WAYS)
        convert[(1,)](x, compiled, type_, COUNT)
        convert.interpret[(1,)](x, interpreted, type_, COUNT)
        different = bits_of(compiled) != bits_of(interpreted)
        assert not different.any(), (to, x[different][0], compiled[different][0], interpreted[different][0])
        assert torch.equal(bits_of(compiled), bits_of(x.to(to))), to


@pytest.mark.parametrize("source", [torch.float64, torch.int32, torch.int64, torch.uint64])
@pytest.mark.parametrize("to", [torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_scalars(source: torch.dtype, to: torch.dtype) -> None:
    x = midpoints(source, to)
    for way in WAYS:
        o = torch.zeros(64, dtype=to)
        way(convert_scalars)[(1,)](x, o, TYPES[to], 64)
        assert torch.equal(bits_of(o), bits_of(x[:64].to(to)))
