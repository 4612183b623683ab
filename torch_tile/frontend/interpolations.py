"""Interpolations that are not left to torch's decompositions: to the next point and linear ones are computed as by
ATen (`formulas/interpolation.py`), and what ATen computes by another rule is one call outside.

On the CPU eager mode interpolates bytes in fixed point, and copies a dimension that a factor leaves as it was.
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
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree

from torch_tile.formulas.interpolation import Scaled, each_dimension, is_copied, linear, nearest, times_repeated
from torch_tile.frontend.dynamo_calls import name_of, tensors_in
from torch_tile.frontend.replaced_calls import Call

_NEAREST = ("nearest", "nearest-exact")
_LINEAR = ("linear", "bilinear", "trilinear")
_WHOLE = ("nearest", *_LINEAR, "bicubic")
# Functions of torch.nn.functional that interpolate, with the arguments of `F.interpolate` that they fix.
_CALLS: dict[Any, dict[str, Any]] = {
    F.interpolate: {},
    F.upsample: {},
    F.upsample_nearest: {"mode": "nearest"},
    F.upsample_bilinear: {"mode": "bilinear", "align_corners": True},
}
_DEFAULTS = {"align_corners": None, "recompute_scale_factor": None, "antialias": False}
_COPYING = ("nearest", "upsample_nearest2d", "upsample_nearest3d")


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


def _linear(
    x: torch.Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None, recompute_scale_factor: Any
) -> torch.Tensor:
    return linear(x, each_dimension(x, size, scale_factor, recompute_scale_factor), bool(align_corners))


def _nearest(
    x: torch.Tensor,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: Any,
    repeated: Sequence[int | None],
) -> torch.Tensor:
    dimensions = each_dimension(x, size, scale_factor, recompute_scale_factor)
    return nearest(x, dimensions, repeated, is_exact=mode == "nearest-exact")


def _repeated(node: Node, x: torch.Tensor, arguments: dict[str, Any]) -> list[int | None]:
    """`times_repeated` of each dimension: before tracing, which has no values."""
    is_scaled = arguments["size"] is None and not arguments["recompute_scale_factor"]
    factors = _each(arguments["scale_factor"] if is_scaled else None, x.dim() - 2)
    sizes = zip(x.shape[2:], node.meta["example_value"].shape[2:], factors, strict=True)
    return [times_repeated(Scaled(*each), arguments["mode"] == "nearest-exact") for each in sizes]


def is_refused(node: Node) -> bool:
    """Whether an interpolation is to or of no points, of which tracing makes an empty tensor, or of a dtype that ATen
    has no kernel of."""
    result = node.meta.get("example_value")
    if node.target not in _CALLS or not isinstance(result, torch.Tensor):
        return False
    if result.dtype is not torch.uint8 and (not result.is_floating_point() or result.itemsize == 1):
        return True
    if (node.args[3] if len(node.args) > 3 else node.kwargs.get("mode")) == "area":  # an average over windows
        return False
    sizes = [
        *result.shape[1:],
        *(size for x in tensors_in(node.args[:1] or node.kwargs.get("input")) for size in x.shape[1:]),
    ]
    return any(statically_known_true(size == 0) for size in sizes)


def choose(node: Node) -> Call | None:
    """Our formulas; `left_whole` for bytes, whose weights are in fixed point, and for what may keep a size
    and needs no gradients."""
    fixed = _CALLS.get(node.target)
    if fixed is None:
        return None
    given = inspect.signature(node.target).bind(*node.args, **node.kwargs)  # type: ignore[arg-type]
    given.apply_defaults()
    arguments = {**_DEFAULTS, **given.arguments, **fixed}
    mode, image = arguments["mode"], given.arguments["input"]
    antialias = arguments.pop("antialias")
    x = next(tensors_in(arguments.pop("input")), None)
    if antialias or x is None or any(statically_known_true(size == 0) for size in x.shape):
        return None
    # Which images of three dimensions are copied, and which sampled, depends on the memory format and on channels.
    is_mixed = mode == "nearest" and x.dim() == 5 and keeps_a_size(node)
    # Sizes that depend on data may be kept or not.
    is_known = x.device.type in ("cpu", "cuda") and not free_unbacked_symbols(x)
    if is_known and mode in _NEAREST and (x.is_floating_point() or x.dtype is torch.uint8) and not is_mixed:
        return _nearest, (image,), {**arguments, "repeated": _repeated(node, x, arguments)}
    if is_known and mode in _LINEAR and x.is_floating_point():
        return _linear, (image,), arguments
    if mode in _WHOLE and not x.requires_grad and (not x.is_floating_point() or keeps_a_size(node)):
        return left_whole, (image,), arguments
    return None
