"""Gradients of `prod`: of each element the product of all others.

While it traces, torch cannot look whether an element is 0, so it multiplies two running products of everything before
and behind each element (`prod_backward` in ATen). Here the product of all elements is divided by each. Zeros,
infinities and NaN are counted apart, so that an element which is one of them gets the product of the others, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.emit import emit_traced

aten = torch.ops.aten


def replace_product_gradients(gm: GraphModule) -> int:
    """Returns how many."""
    count = 0
    for node in gm.graph.find_nodes(op="call_function", target=aten.mul.Tensor):
        found = _operand_of(node)
        if found is None:
            continue
        operand, dim = found
        node.replace_all_uses_with(emit_traced(gm, node, _product_of_others(dim), operand))
        count += 1
    if count:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return count


def _product_of_others(dim: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def product_of_others(x: torch.Tensor) -> torch.Tensor:
        special = {0.0: x == 0, torch.inf: x.isinf(), torch.nan: x.isnan()}
        is_special = special[0.0] | ~x.isfinite()
        factors = torch.where(is_special, torch.ones_like(x).copysign(x), x).double()
        result = factors.prod(dim, keepdim=True) / factors
        for value, is_here in special.items():
            others = is_here.sum(dim, keepdim=True) - is_here.long()
            result = torch.where(others > 0, result * value, result)
        return result.to(x.dtype)

    return product_of_others


def _operand_of(node: Node) -> tuple[Node, int] | None:
    """The operand and its dimension, if the node is a product of what is before each element and what is behind."""
    operands: Any = node.args
    before, behind = operands
    if not _calls(behind, aten.flip.default):
        return None
    first, last = _run_of(before), _run_of(behind.args[0])
    if first is None or last is None or not _calls(last[0], aten.flip.default):
        return None
    (part, dim), (flipped, flipped_dim) = first, last
    rest = flipped.args[0]
    if behind.args[1] != [dim] or flipped.args[1] != [dim] or flipped_dim != dim:
        return None
    if not _is_slice(part, dim, 0) or not _is_slice(rest, dim, 1) or rest.args[0] is not part.args[0]:
        return None
    operand, value = part.args[0], part.args[0].meta["val"]
    is_whole = str(node.meta["val"].shape) == str(value.shape)
    return (operand, dim) if is_whole and value.is_floating_point() else None


def _run_of(node: Any) -> tuple[Any, int] | None:
    """What is behind a 1 in a running product, and its dimension."""
    if not _calls(node, aten.cumprod.default) or len(node.args) != 2 or not _calls(node.args[0], aten.cat.default):
        return None
    parts, dim = [*node.args[0].args, 0][:2]
    if dim != node.args[1] or len(parts) != 2 or not _calls(parts[0], aten.ones.default):
        return None
    return (parts[1], dim) if str(parts[0].meta["val"].shape[dim]) == "1" else None


def _is_slice(node: Any, dim: int, start: int) -> bool:
    """Whether it begins there, in steps of 1."""
    return _calls(node, aten.slice.Tensor) and [*node.args[1:3], 0, 0][:2] == [dim, start] and len(node.args) < 5


def _calls(node: Any, target: Any) -> bool:
    return isinstance(node, Node) and node.target is target
