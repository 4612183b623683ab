"""What a call in Dynamo's graph is of, takes and writes."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

_OPERATORS = {getattr(operator, name) for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow")}


def graphs_of(gm: Any) -> Iterator[GraphModule]:
    """A graph of Dynamo's and the bodies of its higher-order operators; nothing of anything else."""
    if isinstance(gm, GraphModule):
        yield from (module for module in gm.modules() if isinstance(module, GraphModule))


def name_of(node: Node) -> str:
    return node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", ""))


def tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(tree):
        value = leaf.meta.get("example_value") if isinstance(leaf, Node) else None
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            yield value


def written_by(node: Node) -> Any:
    """The operands that the call of a node writes, if its name says so."""
    if "out" in node.kwargs:
        return node.kwargs["out"]
    if node.kwargs.get("inplace") is True:
        return node.args[:1] or node.kwargs.get("input", ())
    name = name_of(node)
    is_operator = getattr(node.target, "__module__", "") == "_operator"  # and_, or_ write nothing
    if (name.endswith("_") and not name.endswith("__") and not is_operator) or node.target in _OPERATORS:
        return node.args[:1]
    return ()
