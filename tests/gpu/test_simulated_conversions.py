"""Conversions to and from 8-bit floats by instructions of a GPU, simulated."""

from __future__ import annotations

import pytest
import torch

import torch_tile.language as tl
from tests.gpu.test_simulated_products import launch, pytestmark  # noqa: F401
from torch_tile import jit

FORMATS = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}


@jit
def convert(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


def _patterns() -> torch.Tensor:
    """Floats with every sign, exponent and upper five bits of the mantissa, and what lies beside them."""
    high = torch.arange(1 << 14, dtype=torch.int64) << 18
    bits = (high[:, None] + torch.tensor([0, 1, (1 << 18) - 1])).flatten()
    return torch.where(bits >= 1 << 31, bits - (1 << 32), bits).int().view(torch.float32)


@pytest.mark.parametrize("target", ["sm_90", "sm_80"])
@pytest.mark.parametrize("dtype", FORMATS, ids=FORMATS.get)
def test_floats_become_bytes(dtype: torch.dtype, target: str) -> None:
    x = _patterns()
    result = torch.zeros(x.shape, dtype=dtype)
    code = launch(convert, (x.numel() // 1024, 1, 1), x, result, N=1024, num_warps=4, target=target)
    assert torch.equal(result.view(torch.uint8), x.to(dtype).view(torch.uint8))
    assert (f"nvvm.ff.to.{FORMATS[dtype]}x2.rn" in code) == (target == "sm_90")


@pytest.mark.parametrize("dtype", FORMATS, ids=FORMATS.get)
def test_bytes_become_floats(dtype: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.uint8).view(dtype)
    result = torch.zeros(256)
    code = launch(convert, (1, 1, 1), x, result, N=256, num_warps=2, target="sm_90")
    torch.testing.assert_close(result, x.float(), rtol=0, atol=0, equal_nan=True)
    assert f"nvvm.{FORMATS[dtype]}x2.to.f16x2.rn" in code
