"""Products of one row with a matrix that the graph computes from fewer bytes, like weights kept in 8 or 4 bits.

A library's product reads its operand from memory: the graph would write the wide matrix and read it again. The memory's
speed limits a product of one row, so a reduction that computes the matrix on the way is as fast as reading the narrow
one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.emit import emit_before

aten = torch.ops.aten

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_VIEWS = frozenset(
    {
        aten.permute.default,
        aten.t.default,
        aten.transpose.int,
        aten.view.default,
        aten.reshape.default,
        aten._unsafe_view.default,
        aten.unsqueeze.default,
        aten.expand.default,
        aten.slice.Tensor,
        aten.cat.default,
        aten.stack.default,
    }
)
_CONVERSIONS = (torch.ops.prims.convert_element_type.default, aten._to_copy.default)


def _is_inlined(node: Node) -> bool:
    """Whether a reduction computes it element by element: pointwise, or a view of what is."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    return target in _VIEWS or torch.Tag.pointwise in target.tags or target in _CONVERSIONS


def _bytes(node: Node) -> int | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        return None
    return value.numel() * value.dtype.itemsize


def _bytes_read(node: Node) -> int | None:
    """Of what a matrix is computed from, if nothing else needs it; None if it cannot be computed on the way."""
    total, open_nodes, seen = 0, [node], set()
    while open_nodes:
        current = open_nodes.pop()
        if current in seen:
            continue
        seen.add(current)
        if _is_inlined(current) and len(current.users) == 1:
            open_nodes += current.all_input_nodes
            continue
        if (count := _bytes(current)) is None:
            return None
        total += count
    return total


def _is_worth_it(row: Node, matrix: Node) -> bool:
    left, right = row.meta["val"], matrix.meta["val"]
    if left.dim() != 2 or not isinstance(left.shape[0], int) or left.shape[0] != 1 or right.dtype not in _FLOATS:
        return False
    if left.dtype is not right.dtype:
        return False
    whole, read = _bytes(matrix), _bytes_read(matrix)
    # The row is read beside the matrix either way. Less than all of the bytes: the wide matrix is computed.
    return whole is not None and read is not None and read < whole


def sum_of_row(emit: Callable[..., Node], row: Node, matrix: Node) -> Node:
    """row @ matrix in float32: [1, K] and [K, N] give [1, N]."""
    convert = torch.ops.prims.convert_element_type.default
    columns = emit(aten.permute.default, matrix, [1, 0])  # each is summed along memory, if weights are [N, K]
    left, right = (emit(convert, operand, torch.float32) for operand in (row, columns))
    return emit(aten.permute.default, emit(aten.sum.dim_IntList, emit(aten.mul.Tensor, right, left), [1], True), [1, 0])


def replace_by_sum(gm: GraphModule, node: Node) -> None:
    """Rewrites `mm` or `addmm` of one row as a fused sum."""
    row, matrix = node.args[-2:]
    emit = functools.partial(emit_before, gm, node)
    result = sum_of_row(emit, row, matrix)  # type: ignore[arg-type]
    if node.target is aten.addmm.default:
        convert = torch.ops.prims.convert_element_type.default
        result = emit(aten.add.Tensor, result, emit(convert, node.args[0], torch.float32))
    result = emit(torch.ops.prims.convert_element_type.default, result, node.meta["val"].dtype)
    node.replace_all_uses_with(result)
    gm.graph.erase_node(node)


def replace_thin_products(gm: GraphModule) -> int:
    """Rewrites `mm` and `addmm` of one row; returns how many."""
    count = 0
    for node in list(gm.graph.nodes):
        if node.target is aten.mm.default:
            row, matrix = node.args
        elif node.target is aten.addmm.default and not node.kwargs:
            row, matrix = node.args[1:3]
        else:
            continue
        if not _is_worth_it(row, matrix):
            continue
        replace_by_sum(gm, node)
        count += 1
    if count:
        gm.recompile()
    return count
