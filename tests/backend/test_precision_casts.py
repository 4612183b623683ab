"""`emulate_precision_casts`: low-precision chains round where eager does, so they equal it bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled, tile_only

CHAINS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "arithmetic": lambda a, b: (a + b) * a - b / (a.abs() + 1),
    "scalars": lambda a, b: a * 0.1 + b * 3 - 0.7,
    "compare": lambda a, b: torch.where(a * b > 0.3, a * 1.1, b / 3),
    "activation": lambda a, b: torch.relu(a * b) + torch.clamp(a, -0.5, 0.7) * b,
    "rounding": lambda a, b: torch.floor(a * 4) / 4 + torch.round(b * 3) * a,
    "accumulated": lambda a, b: sum((a * k + b for k in range(1, 6)), torch.zeros_like(a)),
    "powers": lambda a, b: a.pow(2) * b + b.pow(3),
    "square_root": lambda a, b: torch.sqrt(a.abs()) + torch.rsqrt(b.abs() + 1),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.3) + torch.addcdiv(a, a, b),
    "scaled": lambda a, b: torch.add(a, b, alpha=0.3) - torch.sub(a, b, alpha=1.7) + (0.7 - a),
    "remainders": lambda a, b: torch.remainder(a, 0.7) * b + torch.fmod(b, 0.3),
    "mixed": lambda a, b: (a.float() * 1.7).to(a.dtype) + b,
    "leaky": lambda a, b: F.leaky_relu(a, 0.1) * F.hardtanh(b) + F.threshold(a, 0.1, 0.2),
}


@tile_only
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", CHAINS)
def test_bits_are_eagers(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(64, 37).to(dtype), torch.randn(64, 37).to(dtype)
    chain = CHAINS[name]
    assert_same(compiled(chain, emulate_precision_casts=True)(a, b), chain(a, b), exact=True)


@tile_only
def test_roundings_are_left_out_by_default() -> None:
    a, b = torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16()
    chain = CHAINS["accumulated"]
    wide = chain(a.float(), b.float()).bfloat16()
    default = compiled(chain)(a, b)
    assert (default.float() - wide.float()).abs().max() <= (chain(a, b).float() - wide.float()).abs().max()


def test_rounding_of_every_kind_of_number() -> None:
    """Subnormals and NaN beside ordinary numbers, in vectors and in their tails."""
    bits = torch.randint(-(2**31), 2**31, (33, 70), dtype=torch.int64).to(torch.int32)
    special = torch.tensor([0x00000001, 0x007FFFFF, 0x00008000, 0x00018000, 0x7F800000, 0x7FC00001, 0x7F7FFFFF, 0])
    bits[::3, :8] = special.to(torch.int32)
    bits[1::3, -8:] = (special - 2**31).to(torch.int32)
    x = bits.view(torch.float32)
    assert_same(compiled(lambda x: x.to(torch.bfloat16))(x), x.to(torch.bfloat16), exact=True)
    ordinary = torch.randn(40, 64)
    assert_same(compiled(lambda x: x.to(torch.bfloat16))(ordinary), ordinary.to(torch.bfloat16), exact=True)


@tile_only
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32], ids=str)
def test_casts_to_eight_bits_end_as_eager_ones(source: torch.dtype, dtype: torch.dtype) -> None:
    """Around the largest numbers of both formats, infinities and NaN, ties, subnormals."""
    inf = float("inf")
    x = torch.tensor([448.0, 449.0, 464.0, 465.0, 480.0, 1e6, -1e6, inf, -inf, float("nan"), 57344.0, 61439.0, 61440.0])
    x = torch.cat([x, torch.tensor([65536.0, 0.3, -0.0, 1e-9, 0.00097, 2.0**-10, 2.0**-17, 1.5 * 2.0**-16, 1.0625])])
    x = x.to(source) if source.is_floating_point else x.nan_to_num(0, 1e9, -1e9).to(source)
    result = compiled(lambda x: x.to(dtype))(x)
    assert torch.equal(result.view(torch.uint8), x.to(dtype).view(torch.uint8))
    bits = torch.arange(256, dtype=torch.uint8).view(dtype)
    assert_same(compiled(lambda x: x.float() * 2)(bits), bits.float() * 2, exact=True)
