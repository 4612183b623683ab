"""Programs with `flex_attention`, and their comparison with eager mode, for any device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tests.compiling import compiled, count, gradients


def operands(
    heads: int = 2,
    kv_heads: int = 2,
    length: int = 64,
    kv_length: int = 64,
    width: int = 16,
    batch: int = 2,
    **kind: Any,
) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [
        torch.randn(batch, h, n, width, **kind)
        for h, n in ((heads, length), (kv_heads, kv_length), (kv_heads, kv_length))
    ]


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def holes(b: Any, h: Any, i: Any, j: Any) -> Any:
    """Rows that see nothing, whole blocks that nobody sees, and blocks that are seen as a whole."""
    return (i % 7 != 3) & ((j < 16) | (j >= 48) | (i // 32 == b))


def check(function: Callable[..., Any], *operands: torch.Tensor, with_gradients: bool = True) -> None:
    """Errors are at most twice those of eager mode, from float64."""
    wide = [x.double() if x.is_floating_point() else x for x in operands]
    call = compiled(function)
    if with_gradients:
        found, eager, exact = (
            gradients(f, list(x)) for f, x in ((call, operands), (function, operands), (function, wide))
        )
    else:
        found, eager, exact = (_leaves(f(*x)) for f, x in ((call, operands), (function, operands), (function, wide)))
    # What is left of terms that cancel, such as the gradient of q with one key, is their rounding in float32.
    unit = torch.finfo(torch.float32).eps * math.prod(x.abs().max().item() for x in wide if x.is_floating_point())
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        if theirs is None:
            continue
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
        finite = right.isfinite()
        assert torch.equal(ours.isfinite(), finite)
        scale = right[finite].abs().max().item() if finite.any() else 0.0
        bound = 2 * (theirs.double() - right)[finite].abs().max().item() + 2 * torch.finfo(theirs.dtype).eps * scale
        if scale <= unit:
            bound += unit
        assert (ours.double() - right)[finite].abs().max().item() <= bound
    assert count("pycalls") == 0 and count("fallbacks") == 0


def _leaves(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


SCORES: dict[str, Callable[..., Any]] = {
    "cap": lambda s, b, h, i, j: 5 * torch.tanh(s / 5),
    "relative": lambda s, b, h, i, j: s + torch.where((i - j) // 3 > 2, 1.0, (j - i) % 5) * 0.25,
    "powers": lambda s, b, h, i, j: s**2 * 0.1 - torch.sqrt((i - j) ** 2 + 1.0) + torch.exp(-(s.abs())),
    "chosen": lambda s, b, h, i, j: torch.where((i >= j) & ~(j == 3) | (h == 1), s, float("-inf")),
    "bounded": lambda s, b, h, i, j: torch.clamp(s, -1, 1) + torch.maximum(s, -s) * torch.sigmoid(s),
    "bits": lambda s, b, h, i, j: s * ((i ^ j) & 3) + torch.relu(s) * (j < 7),
}
