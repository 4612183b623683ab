"""Operators in front of a product that its kernel computes on the way, since their operands have fewer bytes."""

from __future__ import annotations

import torch
from torch.fx import Node

from torch_tile.frontend.products.region import CONVERSIONS, FLOATS, NOT_POINTWISE, Region, is_static
from torch_tile.frontend.tile_operators import OPERATORS, SAME

aten = torch.ops.aten

TRANSPOSED = (aten.permute.default, aten.t.default, aten.transpose.int)


def order_of(node: Node) -> list[int]:
    """For each dimension of a transposed tensor the one it was."""
    count = node.meta["val"].dim()
    if node.target is aten.permute.default:
        return [int(dim) % count for dim in node.args[1]]  # type: ignore[union-attr,arg-type]
    order = list(range(count))
    first, second = (0, 1) if node.target is aten.t.default else (int(d) % count for d in node.args[1:3])  # type: ignore[arg-type]
    if count > 1:
        order[first], order[second] = order[second], order[first]
    return order


def is_conversion(node: Node) -> bool:
    return node.target in CONVERSIONS


def _is_inlined(node: Node) -> bool:
    if node.op != "call_function" or len(node.users) != 1 or not is_static(node):
        return False
    if node.target in TRANSPOSED:
        return True
    if node.target not in OPERATORS or node.target in NOT_POINTWISE or node.meta["val"].dtype not in FLOATS:
        return False
    if node.target in SAME:
        source = node.args[0]
        return isinstance(source, Node) and is_static(source) and source.meta["val"].shape == node.meta["val"].shape
    values = [operand.meta.get("val") for operand in node.all_input_nodes]
    return all(isinstance(value, torch.Tensor) and value.dim() <= node.meta["val"].dim() for value in values)


def _bytes(node: Node) -> int:
    value = node.meta["val"]
    return int(value.numel() * value.dtype.itemsize)


def _chain(operand: Node, still: set[Node]) -> tuple[set[Node], set[Node]]:
    """What can be computed on the way to an operand, where no memory changes, and what that reads."""
    inlined, read, open_nodes = set(), set(), [operand]
    while open_nodes:
        node = open_nodes.pop()
        if node in inlined or node in read:
            continue
        if node in still and _is_inlined(node):
            inlined.add(node)
            open_nodes += node.all_input_nodes
        else:
            read.add(node)
    return inlined, read


def inlined_operands(region: Region) -> list[Node]:
    """The operators in front of products that are computed on the way, in an order in which they can be."""
    found: set[Node] = set()
    inner = set(region.inner)
    for operand in {p.left for p in region.products} | {p.right for p in region.products}:
        inlined, read = _chain(operand, region.still)
        if not all(is_static(node) and node not in inner for node in read):
            continue
        if any(node.target not in TRANSPOSED for node in inlined) and sum(map(_bytes, read)) < _bytes(operand):
            found |= inlined
    ordered: list[Node] = []

    def visit(node: Node) -> None:
        if node in found and node not in ordered:
            for operand in node.all_input_nodes:
                visit(operand)
            ordered.append(node)

    for node in found:
        visit(node)
    return ordered
