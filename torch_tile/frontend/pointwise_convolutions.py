"""Convolutions with filters of one point on the CPU as matrix products, where the pixels of the images are rows.

In channels last an image is a matrix with a row for each pixel, and the filters are a matrix as they are. The product
is oneDNN's, for which ATen's call of the convolution reorders images and filters, or MKL's, without that. Against the
convolution it takes 0.6 to 1.1 of the time in float32 (images of 7 to 112 points square, 16 to 2048 channels).
Convolutions that take in an activation or a sum (epilogues.py) are left.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.sizes import has_strides_of

aten = torch.ops.aten


def has_filters_of_one_point(node: Node) -> bool:
    """Whether each pixel of the result depends on the same pixel of one image alone."""
    if node.target is not aten.convolution.default:
        return False
    stride, padding, _, is_transposed, _, groups = node.args[3:]
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    is_point = weight.dim() == 4 and all(isinstance(size, int) and size == 1 for size in weight.shape[2:])
    is_aligned = all(each == 1 for each in stride) and all(each == 0 for each in padding)  # type: ignore[union-attr]
    return is_point and is_aligned and not is_transposed and isinstance(groups, int) and groups == 1


def _is_product(node: Node) -> bool:
    if node.op != "call_function" or not has_filters_of_one_point(node):
        return False
    image, weight = (operand.meta["val"] for operand in node.args[:2])  # type: ignore[union-attr]
    if image.dim() != 4 or weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.bfloat16):
        return False
    if not all(isinstance(size, int) for size in (image.shape[1], *weight.shape)) or not weight.is_contiguous():
        return False
    orders = [torch.channels_last, torch.contiguous_format] if _is_pixel(image) else [torch.channels_last]
    return any(all(has_strides_of(each, order) for each in (image, node.meta["val"])) for order in orders)


def _is_pixel(image: torch.Tensor) -> bool:
    """Whether images are of one point, as those of squeezed channels: a row in either order."""
    return all(isinstance(size, int) and size == 1 for size in image.shape[2:])


class _Emitter:
    """Emits operators before a node. Results whose sizes may be symbols are made of their sizes: operators would ask
    for guards, which no one checks any more."""

    def __init__(self, gm: GraphModule, node: Node) -> None:
        self.gm, self.node = gm, node
        self.call = functools.partial(emit_before, gm, node)

    def contiguous(self, target: Any, args: tuple[Any, ...], sizes: list[Any]) -> Node:
        like = self.node.meta["val"]
        with self.gm.graph.inserting_before(self.node):
            made = self.gm.graph.call_function(target, args)
        made.meta.update({k: v for k, v in self.node.meta.items() if k not in ("val", "tensor_meta")})
        with like.fake_mode, torch.no_grad():
            made.meta["val"] = torch.empty(sizes, dtype=like.dtype, device=like.device)
        return made


def _replace(gm: GraphModule, node: Node) -> None:
    image, weight, bias = node.args[:3]
    count, channels, height, width = image.meta["val"].shape  # type: ignore[union-attr]
    features = weight.meta["val"].shape[0]  # type: ignore[union-attr]
    emit = _Emitter(gm, node)
    pixels = count * height * width
    is_last = has_strides_of(node.meta["val"], torch.channels_last)
    rows = emit.call(aten.permute.default, image, [0, 2, 3, 1])
    rows = emit.contiguous(aten.view.default, (rows, [-1, channels]), [pixels, channels])
    filters = emit.call(aten.view.default, weight, [features, channels])
    filters = emit.call(aten.permute.default, filters, [1, 0])
    if bias is None:
        product = emit.contiguous(aten.mm.default, (rows, filters), [pixels, features])
    else:
        product = emit.contiguous(aten.addmm.default, (bias, rows, filters), [pixels, features])
    sizes = [
        size if isinstance(size, int) else emit.call(aten.sym_size.int, image, dim)
        for dim, size in ((0, count), (2, height), (3, width))
    ]
    if is_last:
        result = emit.contiguous(aten.view.default, (product, [*sizes, features]), [count, height, width, features])
        result = emit.call(aten.permute.default, result, [0, 3, 1, 2])
    else:
        result = emit.contiguous(aten.view.default, (product, [sizes[0], features, 1, 1]), [count, features, 1, 1])
    node.replace_all_uses_with(result)
    gm.graph.erase_node(node)


def are_products(settings: Settings) -> bool:
    """Whether convolutions become products; not where eager mode's library of products is asked for."""
    is_on = settings["fusion"] and limits.is_on(settings, "pointwise_convolutions")
    return bool(is_on) and settings["matmul_library"] != "aten"


def replace_pointwise_convolutions(gm: GraphModule) -> int:
    """Rewrites convolutions of an inference graph whose images have channels last; returns how many."""
    nodes = [node for node in gm.graph.nodes if _is_product(node)]
    for node in nodes:
        _replace(gm, node)
    if nodes:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return len(nodes)
