"""Interpolations that ATen computes by another rule than torch's decompositions, of which it makes one call outside.

Eager mode interpolates bytes in fixed point, and copies a dimension that a factor leaves as long as it was.
`F.interpolate` calls operators that dispatch takes apart before the table of decompositions is asked. Below autograd's
dispatch the table is asked for those of a known size (`decompositions/interpolation.py`).
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_true
from torch.utils import _pytree as pytree

from torch_tile.frontend.dynamo_calls import name_of, tensors_in
from torch_tile.frontend.replaced_calls import Call

_MODES = ("nearest", "linear", "bilinear", "trilinear", "bicubic")
_COPYING = ("nearest", "upsample_nearest2d", "upsample_nearest3d")


def is_copied(new: Any, old: Any, factor: Any) -> bool:
    """Whether ATen's kernels for the CPU copy a dimension of `old` elements that a factor makes `new` long. A size that
    is known only when the graph runs may be kept. Where sizes are symbols, this adds a guard.
    """
    # A factor of 2 or more adds an element, one below 1 removes one.
    if not isinstance(factor, torch.SymFloat) and not (isinstance(factor, float) and 1 < factor < 2):
        return False
    return guard_or_true(new == old) and guard_or_true(old > 1)


def keeps_a_size(node: Node) -> bool:
    """Whether an interpolation on the CPU scales a dimension by a factor that leaves its size."""
    name = name_of(node).partition(".")[0]
    if name != "interpolate" and not name.startswith("upsample_"):
        return False
    result, x = node.meta.get("example_value"), next(tensors_in(node.args[:1] or node.kwargs.get("input")), None)
    if not isinstance(result, torch.Tensor) or x is None or x.device.type != "cpu" or x.dim() != result.dim():
        return False
    options = [*node.args[1:], *node.kwargs.values()]
    if any(option is True for option in options):  # corners are aligned, or the factor is computed from the sizes
        return False
    mode = next((option for option in options if isinstance(option, str)), name.replace("interpolate", "nearest"))
    is_nearest = mode in _COPYING and x.dim() > 3
    if not is_nearest and "linear" not in mode and not (x.dtype == torch.uint8 and "bicubic" in mode):
        return False
    factors = [f for f in pytree.tree_leaves(options) if isinstance(f, (float, torch.SymFloat))]
    sizes = zip(result.shape[2:], x.shape[2:], strict=True)
    return any(is_copied(new, old, factor) for new, old in sizes for factor in factors)


def _each(value: Any, dims: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * dims


def left_whole(
    x: torch.Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None, recompute_scale_factor: Any
) -> torch.Tensor:
    """As `F.interpolate` with arguments that it takes, by the operator of a known size."""
    dims = x.dim() - 2
    factors = _each(scale_factor, dims)
    if size is None:
        size = [torch.sym_int(n * factor) for n, factor in zip(x.shape[2:], factors, strict=True)]  # type: ignore[no-untyped-call]
        factors = [None] * dims if recompute_scale_factor else factors
    corners = () if mode == "nearest" else (bool(align_corners),)
    operator = getattr(torch.ops.aten, f"upsample_{mode}{dims}d").default
    with torch._C._AutoDispatchBelowAutograd():  # whose key has the decomposition
        return operator(x, _each(size, dims), *corners, *factors)  # type: ignore[no-any-return]


def choose(node: Node) -> Call | None:
    """`left_whole` for interpolations of bytes, and for those without gradients that keep a size."""
    if node.target is not F.interpolate:
        return None
    given = inspect.signature(F.interpolate).bind(*node.args, **node.kwargs)
    given.apply_defaults()
    arguments = dict(given.arguments)
    is_known = not arguments.pop("antialias") and arguments["mode"] in _MODES
    x = next(tensors_in(arguments.pop("input")), None)
    if not is_known or x is None or x.requires_grad or (x.is_floating_point() and not keeps_a_size(node)):
        return None
    return left_whole, (given.arguments["input"],), arguments
