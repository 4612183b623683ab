"""Counter-based random numbers: a uniform is a function of a seed, a salt and the element's position.

Eager bodies here give the same bits as compiled kernels, so a graph may run its random ops anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ROUND_A, _ROUND_B = 0xD2511F53, 0xCD9E8D57
_KEY_A, _KEY_B = 0x9E3779B9, 0xBB67AE85
_MASK = 0xFFFFFFFF


def philox(seed: int, counter: torch.Tensor, salt: int) -> torch.Tensor:
    """Word 0 of Philox4x32-10 (Salmon et al., SC 2011).

    Args:
        seed: 64 bits, the key.
        counter: int64 tensor; its halves are counter words 0 and 1.
        salt: counter word 2; word 3 is 0.

    Returns:
        int64 tensor of the shape of ``counter``, in [0, 2**32).
    """
    words = [
        counter & _MASK,
        (counter >> 32) & _MASK,
        torch.full_like(counter, salt & _MASK),
        torch.zeros_like(counter),
    ]
    key_low, key_high = seed & _MASK, (seed >> 32) & _MASK
    for _ in range(10):
        low_a, high_a = _multiply(words[0], _ROUND_A)
        low_b, high_b = _multiply(words[2], _ROUND_B)
        words = [high_b ^ words[1] ^ key_low, low_b, high_a ^ words[3] ^ key_high, low_a]
        key_low, key_high = (key_low + _KEY_A) & _MASK, (key_high + _KEY_B) & _MASK
    return words[0]


def _multiply(word: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    # 32 x 32 bits in int64 without overflow: the factor in two halves.
    low, high = word * (factor & 0xFFFF), word * (factor >> 16)
    middle = high + (low >> 16)
    return ((middle & 0xFFFF) << 16) | (low & 0xFFFF), middle >> 16


@torch.library.custom_op("torch_tile::philox_uniform", mutates_args=())
def philox_uniform(seed: torch.Tensor, salt: int, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Uniform numbers in [0, 1) of shape ``sizes``; the counter is the row-major element index."""
    count = 1
    for size in sizes:
        count *= size
    word = philox(int(seed), torch.arange(count, dtype=torch.int64), salt)
    return ((word >> 8).to(torch.float32) * 2.0**-24).reshape(list(sizes)).to(device=seed.device, dtype=dtype)


@philox_uniform.register_fake
def _(seed: torch.Tensor, salt: int, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device=seed.device)


@torch.library.custom_op("torch_tile::seed", mutates_args=())
def seed(device: torch.device) -> torch.Tensor:
    """A fresh 64-bit seed from torch's default CPU generator, as a 0-d int64 tensor on ``device``."""
    return torch.randint(-(2**63), 2**63 - 1, (), dtype=torch.int64).to(device)


@seed.register_fake
def _(device: torch.device) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64, device=device)
