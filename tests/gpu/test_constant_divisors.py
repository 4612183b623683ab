"""Quotients of the tile language by constants, on a GPU."""

from __future__ import annotations

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="needs the compiler library")


@torch_tile.jit
def divide(x, out, DIVISOR: tl.constexpr):
    place = tl.arange(0, 128)
    tl.store(out + place, tl.load(x + place) / DIVISOR)


@torch_tile.jit
def divide_by_one_number(x, out, divisor):
    place = tl.arange(0, 128)
    tl.store(out + place, tl.load(x + place) / divisor)


def ptx(kernel, divisor: float) -> str:
    x = torch.zeros(128)
    return str(kernel.warmup(x, x, divisor, target="sm_90").asm["ptx"])


@pytest.mark.parametrize("divisor", [20.0, -0.3, 3.0, 1e30, 1e-30])
def test_reciprocals(divisor: float) -> None:
    """They are as near as the instruction, which takes ten times as long."""
    code = ptx(divide, divisor)
    assert "div." not in code
    assert "mul" in code
    x = torch.rand(1 << 16) + 1
    product = x * torch.tensor(divisor).reciprocal()
    exact = x.double() / torch.tensor(divisor).double()
    units = (product.double() - exact).abs() / (exact.abs() * 2**-24)
    assert units.max() <= 4  # two units in the last place, of 2^-23


@pytest.mark.parametrize("divisor", [1e-40, 3e38])
def test_reciprocals_that_are_subnormal(divisor: float) -> None:
    """The constant, or its reciprocal, has fewer digits."""
    assert "div.full.f32" in ptx(divide, divisor)


def test_divisors_that_are_not_known() -> None:
    assert "div.full.f32" in ptx(divide_by_one_number, 20.0)
