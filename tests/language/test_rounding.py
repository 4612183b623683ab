"""Functions of tl.extra.libdevice that round down, up or toward zero, against exact fractions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from torch_tile.formulas import rounding
from torch_tile.language.extra import libdevice


@torch_tile.jit
def apply(a_ptr, b_ptr, c_ptr, o_ptr, NAME: tl.constexpr, COUNT: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    operands = [tl.load(p + i) for p in (a_ptr, b_ptr, c_ptr)[:COUNT]]
    tl.store(o_ptr + i, getattr(libdevice, NAME)(*operands))


def neighbour(x: float, up: bool, dtype: torch.dtype) -> float:
    toward = torch.tensor(math.inf if up else -math.inf, dtype=dtype)
    return float(torch.nextafter(torch.tensor(x, dtype=dtype), toward))


def rounded(exact: Fraction, mode: str, dtype: torch.dtype) -> float:
    try:
        near = float(torch.tensor(float(exact), dtype=torch.float64).to(dtype))
    except OverflowError:
        near = math.inf if exact > 0 else -math.inf
    largest = torch.finfo(dtype).max
    if abs(exact) > largest:
        return math.copysign(math.inf if mode == ("ru" if exact > 0 else "rd") else largest, exact)
    low = math.copysign(largest, near) if math.isinf(near) else near
    while Fraction(low) > exact:
        low = neighbour(low, False, dtype)
    while low < largest and Fraction(neighbour(low, True, dtype)) <= exact:
        low = neighbour(low, True, dtype)
    if Fraction(low) == exact or mode == "rd" or (mode == "rz" and exact > 0):
        return low
    return neighbour(low, True, dtype)


EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
    "rcp": lambda a: 1 / a,
    # A root that is no fraction lies between two neighbours of this many bits.
    "sqrt": lambda a: Fraction(
        2 * math.isqrt(int(a * 4**200)) + (math.isqrt(int(a * 4**200)) ** 2 != a * 4**200), 2**201
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", rounding.NAMES)
def test_arithmetic(launch: Callable[..., Any], name: str, dtype: torch.dtype) -> None:
    kind, mode = name.split("_")
    count, generator = rounding.NAMES[name], random.Random(3)

    def number() -> float:
        value = generator.uniform(-4, 4) * 2.0 ** generator.choice([0, 0, 1, 20, -20, 24, -24, 60, -60])
        return abs(value) if kind == "sqrt" else value

    operands = [torch.tensor([number() for _ in range(128)]).to(dtype) for _ in range(3)]
    operands[0][:4] = torch.tensor([1.0, 3.0, 4.0, 2.0], dtype=dtype)  # exact results
    operands[1][:4] = torch.tensor([1.0, 1.5, -4.0 if kind == "add" else 4.0, 3.0], dtype=dtype)
    o = torch.empty(128, dtype=dtype)
    launch(apply)[(1,)](*operands, o, NAME=name, COUNT=count, B=128)
    rows = zip(*[x.tolist() for x in operands[:count]], strict=True)
    expected = [rounded(EXACT[kind](*map(Fraction, row)), mode, dtype) for row in rows]
    assert o.tolist() == expected


@pytest.mark.parametrize("mode", rounding.MODES)
@pytest.mark.parametrize("kind", ["double2float", "int2float", "uint2float", "ll2float", "ull2float", "ll2double"])
def test_conversions(launch: Callable[..., Any], kind: str, mode: str) -> None:
    source = {"d": torch.float64, "i": torch.int32, "u": torch.uint32, "l": torch.int64}[kind[0]]
    source = torch.uint64 if kind.startswith("ull") else source
    to = torch.float64 if kind.endswith("double") else torch.float32
    generator = random.Random(5)
    bits = 31 if source is torch.int32 else 32 if source is torch.uint32 else 63
    values = [generator.getrandbits(generator.randrange(1, bits)) for _ in range(64)]
    if source in (torch.int32, torch.int64):
        values = [value * generator.choice([-1, 1]) for value in values]
    if source is torch.float64:
        values = [value * math.pi for value in values]
    x = torch.tensor(values, dtype=torch.float64 if source is torch.float64 else torch.int64).to(source)
    o = torch.empty(64, dtype=to)
    launch(apply)[(1,)](x, x, x, o, NAME=f"{kind}_{mode}", COUNT=1, B=64)
    assert o.tolist() == [rounded(Fraction(value), mode, to) for value in x.tolist()]
