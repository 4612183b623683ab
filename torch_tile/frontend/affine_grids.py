"""`F.affine_grid` of images with a side of one element.

There torch's decomposition and gradient make a tensor of a number, which AOTAutograd refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_false

from torch_tile.frontend.replaced_calls import Call


def grid(theta: torch.Tensor, size: Sequence[int], align_corners: bool) -> torch.Tensor:
    """As `torch.affine_grid_generator`.

    Args:
        theta: float tensor of shape [N, 2, 3], or [N, 3, 4] for volumes.
        size: (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the middles of the outermost elements, or their edges.

    Returns:
        Points of shape [N, (D,) H, W, 2 or 3], x first, with the dtype of `theta`.
    """
    batch, _, *sizes = size
    rank = len(sizes)

    def along(axis: int) -> torch.Tensor:
        count, shape = sizes[axis], [1] * (rank + 2)
        shape[axis + 1] = count
        if count <= 1:
            return theta.new_zeros(shape)
        points = torch.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device)
        return (points if align_corners else points * ((count - 1) / count)).view(shape)

    def column(k: int) -> torch.Tensor:
        return theta[:, :, k].reshape(batch, *[1] * rank, rank)

    result = along(rank - 1) * column(0)
    for k in range(1, rank):
        result = result + along(rank - 1 - k) * column(k)
    return result + column(rank)


def choose(node: Node) -> Call | None:
    """`grid` where a side is 1. The rest stays torch's, with its errors."""
    if node.target not in (F.affine_grid, torch.affine_grid_generator):
        return None
    given: dict[str, Any] = {**dict(zip(("theta", "size", "align_corners"), node.args, strict=False)), **node.kwargs}
    size, value = given["size"], given["theta"].meta.get("example_value")
    # One node, or a number or node for each dimension.
    sizes = size.meta.get("example_value") if isinstance(size, Node) else size
    if not isinstance(sizes, (tuple, list)) or not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return None
    if len(sizes) not in (4, 5) or value.shape[1:] != (len(sizes) - 2, len(sizes) - 1):
        return None
    known = [n.meta.get("example_value") if isinstance(n, Node) else n for n in sizes]
    if not all(isinstance(n, (int, torch.SymInt)) and guard_or_false(n > 0) for n in known):
        return None
    if not any(guard_or_false(n == 1) for n in known[2:]):  # torch asks the same
        return None
    return grid, (given["theta"], size, bool(given.get("align_corners"))), {}
