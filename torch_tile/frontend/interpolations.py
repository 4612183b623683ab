"""Interpolations that are not left to torch's decompositions: linear ones that enlarge go dimension by dimension, and
what ATen computes by another rule is one call outside.

Eager mode interpolates bytes in fixed point, and copies a dimension that a factor leaves as long as it was.
`F.interpolate` calls operators that dispatch takes apart before the table of decompositions is asked. Below autograd's
dispatch the table is asked for those of a known size (`decompositions/interpolation.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_true, statically_known_true
from torch.utils import _pytree as pytree

from torch_tile.frontend.dynamo_calls import name_of, tensors_in
from torch_tile.frontend.replaced_calls import Call

_MODES = ("nearest", "linear", "bilinear", "trilinear", "bicubic")
# Functions of torch.nn.functional that interpolate, with the arguments of `F.interpolate` that they fix.
_CALLS: dict[Any, dict[str, Any]] = {
    F.interpolate: {},
    F.upsample: {},
    F.upsample_nearest: {"mode": "nearest"},
    F.upsample_bilinear: {"mode": "bilinear", "align_corners": True},
}
_DEFAULTS = {"align_corners": None, "recompute_scale_factor": None, "antialias": False}
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


def by_dimension(
    x: torch.Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None, recompute_scale_factor: Any
) -> torch.Tensor:
    """As `F.interpolate` with arguments that it takes: the last dimension first, then the others on what it gave.

    Each element is computed as by torch's decomposition, which reads all 4 or 8 neighbours of each result in memory.
    Here neighbours along the last dimension are read once, and whole rows for the other dimensions. A dimension that
    keeps its size is copied, as in eager mode, whatever its factor is.
    """
    dims = x.dim() - 2
    factors = _each(scale_factor, dims)
    if size is None:
        size = [torch.sym_int(n * factor) for n, factor in zip(x.shape[2:], factors, strict=True)]  # type: ignore[no-untyped-call]
        factors = [None] * dims if recompute_scale_factor else factors
    size = _each(size, dims)
    result = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    for dim in range(dims - 1, -1, -1):
        old, new, factor = x.shape[dim + 2], size[dim], factors[dim]
        if is_copied(new, old, factor) or (factor is None and statically_known_true(new == old)):
            continue
        places = torch.arange(new, device=x.device).to(result.dtype)
        if align_corners:
            places = places * ((old - 1) / (new - 1) if new > 1 else 0)
        else:
            places = (places + 0.5) * (1.0 / factor if factor is not None and factor > 0 else old / new) - 0.5
        places = places.clamp(min=0.0)
        first = places.to(torch.int64)
        share = (places - first).clamp(0.0, 1.0).to(result.dtype)
        sides = [[None] * (dim + 2) + [index] for index in (first, (first + 1).clamp(max=old - 1))]
        one, other = (torch.ops.aten._unsafe_index(result, side) for side in sides)
        result = one + (other - one) * share.reshape(-1, *[1] * (dims - 1 - dim))
    return result.to(x.dtype).contiguous(memory_format=torch._prims_common.suggest_memory_format(x))


def by_repetition(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """As `F.interpolate` to the next point, where each point is as many of the result: its indices are quotients by
    whole numbers, not numbers in memory."""
    old = x.shape[2:]
    spread = x.reshape(*x.shape[:2], *(n for length in old for n in (length, 1)))
    each = [n for length, new in zip(old, size, strict=True) for n in (length, new // length)]
    result = spread.expand(*x.shape[:2], *each).reshape(*x.shape[:2], *size)
    return result.clone(memory_format=torch._prims_common.suggest_memory_format(x))


def _repeated_size(node: Node, x: torch.Tensor, arguments: dict[str, Any]) -> list[int] | None:
    """The size of the result of an interpolation that repeats each point as often, if its sizes are fixed."""
    result, mode = node.meta.get("example_value"), arguments["mode"]
    if mode not in ("nearest", "nearest-exact") or not isinstance(result, torch.Tensor) or x.dim() < 3:
        return None
    if not x.is_floating_point() and x.dtype is not torch.uint8:  # ATen has no kernel
        return None
    sizes = [(old, new) for old, new in zip(x.shape[2:], result.shape[2:], strict=True)]
    if not all(isinstance(n, int) and n > 0 for pair in sizes for n in pair):
        return None
    is_scaled = arguments["size"] is None and not arguments["recompute_scale_factor"]
    factors = _each(arguments["scale_factor"] if is_scaled else None, len(sizes))
    for (old, new), factor in zip(sizes, factors, strict=True):
        if new % old != 0 or not isinstance(factor, (int, float, type(None))):
            return None
        # What ATen computes, in float32.
        scale = torch.tensor(old / new if factor is None else 1.0 / factor, dtype=torch.float32)
        places = (torch.arange(new, dtype=torch.float32) + (0.5 if mode == "nearest-exact" else 0.0)) * scale
        if not torch.equal(places.to(torch.int64).clamp(max=old - 1), torch.arange(new) // (new // old)):
            return None
    return [new for _, new in sizes]


def _enlarges(node: Node, x: torch.Tensor, mode: str) -> bool:
    """Whether each row of what is interpolated along the last dimension is read by a row of the result, or more."""
    result = node.meta.get("example_value")
    if mode not in ("bilinear", "trilinear") or not isinstance(result, torch.Tensor) or x.device.type != "cpu":
        return False
    return x.is_floating_point() and all(
        statically_known_true(new >= old) for new, old in zip(result.shape[2:-1], x.shape[2:-1], strict=True)
    )


def choose(node: Node) -> Call | None:
    """`left_whole` for interpolations of bytes, and for those without gradients that keep a size; `by_dimension` for
    linear ones that enlarge; `by_repetition` for those to the next point that repeat."""
    fixed = _CALLS.get(node.target)
    if fixed is None:
        return None
    given = inspect.signature(node.target).bind(*node.args, **node.kwargs)  # type: ignore[arg-type]
    given.apply_defaults()
    arguments = {**_DEFAULTS, **given.arguments, **fixed}
    antialias = arguments.pop("antialias")
    is_known = not antialias and arguments["mode"] in _MODES
    x = next(tensors_in(arguments.pop("input")), None)
    if x is not None and not antialias and (size := _repeated_size(node, x, arguments)) is not None:
        return by_repetition, (given.arguments["input"],), {"size": size}
    if not is_known or x is None or any(statically_known_true(size == 0) for size in x.shape):
        return None
    if not x.requires_grad and (not x.is_floating_point() or keeps_a_size(node)):
        return left_whole, (given.arguments["input"],), arguments
    return (by_dimension, (given.arguments["input"],), arguments) if _enlarges(node, x, arguments["mode"]) else None
