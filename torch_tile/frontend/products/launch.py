"""A region of a graph as a launch of its kernel."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.launches.embed_kernels import GivenKernel
from torch_tile.frontend.launches.insert import Result, insert_launch
from torch_tile.frontend.products.blocks import Blocks
from torch_tile.frontend.products.expressions import Constants
from torch_tile.frontend.products.kernel import fused_product
from torch_tile.frontend.products.region import VIEWS, Region

aten = torch.ops.aten


def launch_instead(
    gm: GraphModule, region: Region, inlined: list[Node], blocks: Blocks, kernels: dict[str, GivenKernel]
) -> None:
    """Puts the kernel in the place of the region.

    Args:
        inlined: operators in front of the products that the kernel computes.
        kernels: of this graph so far, by their texts.

    Raises:
        TileError, UnsupportedFunctionError: the kernel cannot be made; the graph computes what it did before.
    """
    if blocks.splits > 1:
        _launch_partial(gm, region, inlined, blocks, kernels)
        return
    stored, inner = region.stored(), set(region.inner)
    fakes = [node.meta["val"] for node in stored]
    made = dict(zip(stored, _launch(gm, region, inlined, blocks, stored, fakes, kernels), strict=True))
    for node in region.outputs:
        root = region.root_of(node)
        found = made[root]
        for each in region.path_to(node):
            target: Any = each.target
            found = emit_before(gm, region.last, target, found, *each.args[1:], **each.kwargs)
        node.replace_all_uses_with(found, delete_user_cb=lambda user: user not in inner)
    _erase(gm, [*inlined, *region.inner])


def _launch(
    gm: GraphModule,
    region: Region,
    inlined: list[Node],
    blocks: Blocks,
    stored: list[Node],
    fakes: list[torch.Tensor],
    kernels: dict[str, GivenKernel],
) -> list[Node]:
    read = _Read(region, inlined, of_products=blocks.splits > 1)
    constants = Constants(region, blocks, set(inlined), read.nodes, stored)
    values: tuple[Any, ...] = (*read.nodes, *(Result(k, fake) for k, fake in enumerate(fakes)))
    device = region.products[0].value.device
    grid = [constants.programs, 1, 1]
    before = region.last if blocks.splits == 1 else region.products[0].node
    return insert_launch(
        gm, before, fused_product, {"values": values, "C": constants}, grid, blocks.options(), fakes, device, kernels
    )


class _Read:
    """What the kernel reads: for the whole region, or for the products alone."""

    def __init__(self, region: Region, inlined: list[Node], of_products: bool) -> None:
        if not of_products:
            self.nodes = region.inputs(inlined)
            return
        found: dict[Node, None] = {}
        for node in inlined:
            found.update(dict.fromkeys(node.all_input_nodes))
        for product in region.products:
            found.update({product.left: None, product.right: None})
        self.nodes = [node for node in found if node not in inlined]


def _launch_partial(
    gm: GraphModule, region: Region, inlined: list[Node], blocks: Blocks, kernels: dict[str, GivenKernel]
) -> None:
    """The kernel gives sums of parts of the terms. The graph adds them, with what follows."""
    (product,) = region.products
    node, value = product.node, product.value
    partial = value.new_empty((blocks.splits, *value.shape), dtype=torch.float32)
    (made,) = _launch(gm, region, inlined, blocks, [], [partial], kernels)
    result = emit_before(gm, node, aten.sum.dim_IntList, made, [0])
    if product.alpha != 1:
        result = emit_before(gm, node, aten.mul.Tensor, result, float(product.alpha))
    convert = torch.ops.prims.convert_element_type.default
    if product.added is not None:
        added = emit_before(gm, node, convert, product.added, torch.float32)
        if product.beta != 1:
            added = emit_before(gm, node, aten.mul.Tensor, added, float(product.beta))
        result = emit_before(gm, node, aten.add.Tensor, result, added)
    node.replace_all_uses_with(emit_before(gm, node, convert, result, value.dtype))
    _erase(gm, [*inlined, node])


def activated_by_library(region: Region) -> tuple[Node, bool] | None:
    """What the library computes together with the product (cuBLASLt): an activation, and whether it is gelu, by tanh;
    None if there is nothing."""
    product, value = region.products[0], region.products[0].value
    if value.device.type != "cuda" or len(region.products) > 1 or product.alpha != 1 or product.beta != 1:
        return None
    if product.added is None or product.added.meta["val"].dim() != 1 or product.node.target is not aten.addmm.default:
        return None
    node, inner = product.node, set(region.inner)
    while len(node.users) == 1 and (user := next(iter(node.users))) in inner:
        if user.target is aten.relu.default:
            return user, False
        if user.target is aten.gelu.default:
            return (user, True) if user.kwargs.get("approximate") == "tanh" else None
        if user.target not in VIEWS:
            return None
        node = user
    return None


def activate_by_library(gm: GraphModule, region: Region) -> None:
    """Product and activation become one call of the library."""
    found = activated_by_library(region)
    assert found is not None
    activation, is_gelu = found
    product = region.products[0]
    operands = (product.added, product.left, product.right)
    made = emit_before(gm, product.node, aten._addmm_activation.default, *operands, use_gelu=is_gelu)
    activation.replace_all_uses_with(activation.args[0])  # type: ignore[arg-type]
    gm.graph.erase_node(activation)
    product.node.replace_all_uses_with(made)
    gm.graph.erase_node(product.node)


def _erase(gm: GraphModule, nodes: Collection[Node]) -> None:
    for node in reversed(list(nodes)):
        if not node.users:
            gm.graph.erase_node(node)
