"""`F.pad(mode="circular")` as concatenations, which kernels fuse with what reads them.

ATen's form writes into an empty tensor part by part: three copies for each dimension, of which the last ones read what
the first ones wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_false

from torch_tile.frontend.replaced_calls import Call


def padded(x: torch.Tensor, pad: Sequence[int]) -> torch.Tensor:
    """As `F.pad(x, pad, mode="circular")`.

    Args:
        x: any shape and dtype.
        pad: elements before and behind each dimension, from the last one on. None is negative or larger than the
            dimension.

    Returns:
        A contiguous tensor, as eager mode's is.
    """
    for dim in range(x.dim() - len(pad) // 2, x.dim()):
        low, high = pad[2 * (x.dim() - 1 - dim) :][:2]
        parts = [x.narrow(dim, x.shape[dim] - low, low), x, x.narrow(dim, 0, high)]
        kept = [part for part, length in zip(parts, (low, 1, high), strict=True) if length]
        x = torch.cat(kept, dim) if len(kept) > 1 else x
    return x.clone(memory_format=torch.contiguous_format)


def _is_simple(x: Any, pad: Any) -> bool:
    value = x.meta.get("example_value") if isinstance(x, Node) else None
    if not isinstance(value, torch.Tensor) or not isinstance(pad, (tuple, list)) or len(pad) % 2 or not pad:
        return False
    if len(pad) // 2 not in (value.dim() - 1, value.dim() - 2) or not all(isinstance(n, int) for n in pad):
        return False
    sizes = [value.shape[-1 - k // 2] for k in range(len(pad))]
    # Sizes that are symbols get guards, which ATen's form asks for, too.
    return all(n >= 0 and guard_or_false(n <= size) for n, size in zip(pad, sizes, strict=True))


def choose(node: Node) -> Call | None:
    """`padded` for circular padding by known amounts. The rest stays ATen's, with its errors."""
    if node.target is not torch._C._nn.pad:
        return None
    given: dict[str, Any] = {**dict(zip(("input", "pad", "mode"), node.args, strict=False)), **node.kwargs}
    if given.get("mode") != "circular" or not _is_simple(given["input"], given["pad"]):
        return None
    return padded, (given["input"], tuple(given["pad"])), {}
