"""Conversions to and from float8 are parts of kernels, and their bits are eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_tile
from tests.compiling import fresh

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
OTHERS = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int64, torch.bool)


def all_bits(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def near_every_number(dtype: torch.dtype) -> torch.Tensor:
    """The numbers of a format, the middles between them, what is next to those, and what is beyond."""
    numbers = all_bits(dtype).float()
    finite = numbers[numbers.isfinite()].sort().values
    middles = (finite[1:] + finite[:-1]) / 2
    around = [torch.nextafter(middles, torch.tensor(side)) for side in (float("inf"), float("-inf"))]
    beyond = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 447.0, 464.0, 465.0, 480.0, 57344.0, 61440.0, 65536.0, 1e30])
    special = torch.tensor([float("inf"), float("-inf"), float("nan")])
    return torch.cat([finite, middles, *around, beyond, -beyond, special])


def check(function: Any, *operands: torch.Tensor) -> None:
    fresh()
    with torch_tile.expect(outside=0, fallbacks=0):
        found = torch.compile(function, backend="tile", fullgraph=True)(*operands)
    expected = function(*operands)
    assert found.dtype == expected.dtype and found.stride() == expected.stride()
    if expected.dtype in FLOAT8:
        # A NaN has no sign that counts.
        same = (found.view(torch.uint8) == expected.view(torch.uint8)) | (
            found.float().isnan() & expected.float().isnan()
        )
        assert same.all(), operands[0][~same]
    else:
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("dtype", FLOAT8)
def test_from(dtype: torch.dtype, other: torch.dtype) -> None:
    bits = all_bits(dtype)
    if not other.is_floating_point and other is not torch.bool:
        bits = bits[bits.float().abs() < 100]  # what others are as integers is nowhere defined
    check(lambda x: x.to(other), bits)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("dtype", FLOAT8)
def test_to(dtype: torch.dtype, other: torch.dtype) -> None:
    numbers = near_every_number(dtype)
    if not other.is_floating_point:
        numbers = torch.arange(-100, 100) if other is not torch.bool else torch.tensor([True, False])
    check(lambda x: x.to(dtype), numbers.to(other))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_there_and_back(dtype: torch.dtype) -> None:
    # The rounding is what is asked for: nothing leaves it out.
    for other in (torch.float32, torch.bfloat16):
        check(lambda x, other=other: (x * 3).to(dtype).to(other) * 2, torch.randn(40, 50).to(other))
    check(lambda x: x.to(torch.float8_e5m2), all_bits(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scaled_rows(dtype: torch.dtype) -> None:
    def quantized(x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(-1, keepdim=True).float() / 448
        return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)

    check(quantized, torch.randn(33, 70).to(dtype))
    check(lambda x: quantized(x).t().to(dtype) + 1, torch.randn(33, 70).to(dtype))


def test_rounding_to_bfloat16_comes_first() -> None:
    # 1.0627 is 1.0625 in bfloat16, which lies between 1 and 1.125 and goes to the even one.
    check(lambda x: (x * 1.0).to(torch.float8_e4m3fn), torch.full((8,), 1.0625).bfloat16())
    check(lambda x, y: (x + y).to(torch.float8_e4m3fn), torch.ones(8).bfloat16(), torch.full((8,), 0.0627).bfloat16())


@pytest.mark.parametrize("dtype", FLOAT8)
def test_copied(dtype: torch.dtype) -> None:
    x = all_bits(dtype).view(8, 32)
    index = torch.tensor([3, 0, 7, 3])
    for function in (
        lambda x: x.t().contiguous(),
        lambda x: x.repeat(2, 3),
        lambda x: x[index],
        lambda x: x.index_select(1, index),
        lambda x: x[:, ::2].clone(),
    ):
        check(function, x)
    check(lambda x: (x.float() * 2).to(dtype).t().contiguous(), x)


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("shape", [(16, 32), (8, 8), (300, 200), (37, 64)])
def test_tiles_in_registers(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Transposes, which move elements between registers."""
    x = all_bits(dtype).repeat(shape[0] * shape[1] // 256 + 1)[: shape[0] * shape[1]].view(shape)
    check(lambda x: x.t().contiguous(), x)
    check(lambda x: x.t().reshape(-1), x)
    check(lambda x: x.reshape(2, -1, 4).transpose(0, 2).contiguous(), x[: shape[0] // 8 * 8, : shape[1] // 8 * 8])


def test_other_operators_run_outside() -> None:
    fresh()
    x = all_bits(torch.float8_e4m3fn)[:64]
    function = torch.compile(lambda x: torch.where(x.float() > 0, x, x.roll(1)).float() + 1, backend="tile")
    torch.testing.assert_close(function(x), torch.where(x.float() > 0, x, x.roll(1)).float() + 1)
