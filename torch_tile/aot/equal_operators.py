"""Operators of libraries that are defined in Python, in terms of operators of ATen that give the same bits.

A program without Python cannot call the former. Their bodies read values of tensors, so they cannot be traced either.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
_ALIGN_BYTES = 16


def use_operators_of_aten(gm: GraphModule, device: str) -> None:
    """Replaces calls that are known, in subgraphs too. Others stay, and are refused later.

    Args:
        gm: a graph of ATen operators.
        device: of the program.
    """
    for module in (module for module in gm.modules() if isinstance(module, GraphModule)):
        for node in list(module.graph.nodes):
            if str(node.target) == "transformers.grouped_mm_fallback.default" and _is_grouped_product(node, device):
                _use_grouped_mm(module, node)


def _is_grouped_product(node: Node, device: str) -> bool:
    """Whether aten::_grouped_mm takes the operands: it wants rows that begin at multiples of 16 bytes."""
    values: list[Any] = [arg.meta.get("val") if isinstance(arg, Node) else None for arg in node.args]
    if device != "cpu" or len(values) != 3 or not all(isinstance(value, torch.Tensor) for value in values):
        return False
    left, weight, ends = values
    return (
        left.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and (left.dtype, ends.dtype) == (weight.dtype, torch.int32)
        and (left.dim(), weight.dim(), ends.dim()) == (2, 3, 1)
        and left.stride(1) == 1
        and _is_aligned(left.stride(0), left)
        and any(weight.stride(d) == 1 and _is_aligned(weight.stride(3 - d), weight) for d in (1, 2))
        and _is_aligned(weight.stride(0), weight)
    )


def _is_aligned(stride: Any, value: torch.Tensor) -> bool:
    return isinstance(stride, int) and stride > 0 and stride * value.element_size() % _ALIGN_BYTES == 0


def _use_grouped_mm(gm: GraphModule, node: Node) -> None:
    """The product of each group. Rows behind the last group are 0, which aten::_grouped_mm leaves as they are."""
    left, weight, ends = node.args
    assert isinstance(left, Node) and isinstance(ends, Node)
    value, rows = node.meta["val"], left.meta["val"].shape[0]

    def call(target: Any, *args: Any, **kwargs: Any) -> Node:
        made = gm.graph.call_function(target, args, kwargs)
        made.meta.update({key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta})
        values = [arg.meta["val"] if isinstance(arg, Node) else arg for arg in args]
        with value.fake_mode:
            made.meta["val"] = value if target is aten._grouped_mm.default else target(*values, **kwargs)
        return made

    with gm.graph.inserting_before(node):
        length = call(aten.sym_size.int, left, 0) if isinstance(rows, torch.SymInt) else rows
        places = call(aten.arange.default, length, dtype=torch.int32, device=torch.device("cpu"), pin_memory=False)
        inside = call(aten.lt.Tensor, call(aten.unsqueeze.default, places, 1), call(aten.select.int, ends, 0, -1))
        product = call(aten._grouped_mm.default, left, weight, ends)
        zero = call(aten.full.default, [], 0, dtype=value.dtype, device=torch.device("cpu"), pin_memory=False)
        node.replace_all_uses_with(call(aten.where.self, inside, product, zero))
    gm.graph.erase_node(node)
