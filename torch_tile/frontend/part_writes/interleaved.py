"""Writes of every s-th element, from each of s places on: together they are all of the tensor.

    o[..., ::2] = a; o[..., 1::2] = b    ->    torch.stack([a, b], -1).flatten(-2)

As choices between two operands such writes divide each index; as a stack, what each of them writes is computed in its
place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.part_writes.chains import argument
from torch_tile.frontend.part_writes.paths import value_of

aten = torch.ops.aten

# Beyond so many operands a stack is several kernels, or ATen's.
_MOST_STEPS = 8


def _residue_of(node: Any) -> tuple[int, int, int] | None:
    """Dimension, first index and step of a scatter of a slice that goes on to the end."""
    if not isinstance(node, Node) or node.target is not aten.slice_scatter.default:
        return None
    base = value_of(node.args[0])
    dim = argument(node, 2, "dim", 0)
    start, end, step = (argument(node, *each) for each in ((3, "start", None), (4, "end", None), (5, "step", 1)))
    start = 0 if start is None else start
    if not all(isinstance(number, int) for number in (dim, start, step)):
        return None
    size = base.shape[dim]
    if not isinstance(size, int) or not 1 < step <= _MOST_STEPS or size % step or not 0 <= start < step:
        return None
    if end is not None and not (isinstance(end, int) and end >= size):
        return None
    return dim % base.dim(), start, step


def _sources_of(node: Node) -> tuple[list[Node], int] | None:
    """What a chain of such writes that ends with `node` writes, by first index, and along which dimension."""
    last = _residue_of(node)
    if last is None:
        return None
    dim, _, step = last
    found: dict[int, Node] = {}
    write: Any = node
    after: Node | None = None
    while len(found) < step:
        residue = _residue_of(write)
        if residue is None or (residue[0], residue[2]) != (dim, step) or residue[1] in found:
            return None
        base, source = write.args[:2]
        if not isinstance(source, Node) or not isinstance(base, Node):
            return None
        if after is not None and not all(user is after or _is_layout(user) for user in write.users):
            return None
        found[residue[1]] = _copied(source)
        write, after = base, write
    return [found[start] for start in range(step)], dim


def _is_layout(node: Node) -> bool:
    """Whether a part is taken only as what a copy is laid out like."""
    return node.target is aten.slice.Tensor and all(
        user.target is aten.copy.default and user.args[0] is node and user.args[1] is not node for user in node.users
    )


def _copied(source: Node) -> Node:
    """What a copy takes, if that has its sizes and its dtype."""
    operand = source.args[1] if source.target is aten.copy.default else source
    if not isinstance(operand, Node):
        return source
    value, taken = value_of(source), value_of(operand)
    return operand if taken.dtype is value.dtype and taken.shape == value.shape else source


def stack_interleaved(gm: GraphModule) -> None:
    """In a graph after AOTAutograd."""
    changed = False
    for node in list(gm.graph.nodes):
        found = _sources_of(node)
        if found is None:
            continue
        sources, dim = found
        value = value_of(node)
        is_known = all(isinstance(size, int) for size in value.shape)
        is_plain = is_known and value.is_contiguous() and all(value_of(each).dtype is value.dtype for each in sources)
        if not is_plain:
            continue
        parts = [emit_before(gm, node, aten.unsqueeze.default, each, dim + 1) for each in sources]
        joined = emit_before(gm, node, aten.cat.default, parts, dim + 1)
        if not value_of(joined).is_contiguous():  # it lies as its operands do
            for made in (joined, *reversed(parts)):
                gm.graph.erase_node(made)
            continue
        result = emit_before(gm, node, aten.view.default, joined, list(value.shape))
        node.replace_all_uses_with(result)
        changed = True
    if changed:
        gm.graph.eliminate_dead_code()
        gm.recompile()
