"""Calls of operators that passes put into a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

# Of a node's meta, what describes its value.
_OF_THE_VALUE = ("val", "tensor_meta")


def emit_before(gm: GraphModule, node: Node, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
    """A call of `target` before the node, with its fake result and the place in the user's source of the node."""
    with gm.graph.inserting_before(node):
        made = gm.graph.call_function(target, args, kwargs)
    values, named = torch.fx.map_arg((args, kwargs), lambda n: n.meta["val"])
    mode = detect_fake_mode([each.meta["val"] for each in (*made.all_input_nodes, node) if "val" in each.meta])
    assert mode is not None, "graphs of AOTAutograd hold fake tensors"
    made.meta.update({k: v for k, v in node.meta.items() if k not in _OF_THE_VALUE})
    with mode, torch.no_grad():
        made.meta["val"] = target(*values, **named)
    return made


def emit_traced(gm: GraphModule, node: Node, function: Callable[..., Any], *operands: Node) -> Node:
    """What a function of tensors calls, before the node.

    Returns:
        The node of its result.
    """
    values = [operand.meta["val"] for operand in operands]
    with values[0].fake_mode, torch.no_grad():
        traced = make_fx(function, tracing_mode="symbolic")(*values)
    copies = dict(zip(traced.graph.find_nodes(op="placeholder"), operands, strict=True))
    for inner in traced.graph.nodes:
        if inner.op == "call_function":
            with gm.graph.inserting_before(node):
                copies[inner] = gm.graph.node_copy(inner, copies.__getitem__)
            copies[inner].meta = {**node.meta, "val": inner.meta["val"]}
            copies[inner].meta.pop("tensor_meta", None)
    result: Node = copies[traced.graph.output_node().args[0]]
    return result
