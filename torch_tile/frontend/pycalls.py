"""Higher-order ops and Python functions of a graph as callables for the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.debug import calls


def _attribute(gm: GraphModule, path: str) -> Any:
    value: Any = gm
    for name in path.split("."):
        value = getattr(value, name)
    return value


def make_pycall(gm: GraphModule, node: Node) -> Callable[..., Any]:
    """A function of the values of the node's inputs, in the order of `node.all_input_nodes`, without its modules.

    The node is one of the graph's or of one of its subgraphs.
    """
    owner = node.graph.owning_module
    if node.graph is not gm.graph and owner is not None:
        gm = owner
    constants: dict[Node, Any] = {}
    inputs: list[Node] = []
    # Positions of floats and bools that depend on sizes; they come as 0-d tensors and integers.
    floats, bools = set(), set()
    for each in node.all_input_nodes:
        value = _attribute(gm, str(each.target)) if each.op == "get_attr" else None
        if value is not None and not isinstance(value, torch.Tensor):
            constants[each] = value
        else:
            if isinstance(each.meta.get("val"), torch.SymFloat):
                floats.add(len(inputs))
            elif isinstance(each.meta.get("val"), torch.SymBool):
                bools.add(len(inputs))
            inputs.append(each)
    target, args, kwargs = node.target, node.args, node.kwargs
    assert callable(target)

    def call(*values: Any) -> Any:
        if floats or bools:
            values = tuple(v.item() if k in floats else bool(v) if k in bools else v for k, v in enumerate(values))
        environment = {**constants, **dict(zip(inputs, values, strict=True))}
        actual_args, actual_kwargs = torch.fx.map_arg((args, kwargs), environment.__getitem__)
        return target(*actual_args, **actual_kwargs)

    return call


def make_pycalls(gm: GraphModule, nodes: Sequence[Node]) -> list[Callable[..., Any]]:
    return [make_pycall(gm, node) for node in nodes]


def first_in_python(gm: GraphModule, graph: Any) -> str:
    """The first call that the runtime makes through Python: its operator, the reason, and the user's line."""
    node = graph.pycalls[0]
    rows = [(name, operator, reason) for name, operator, reason in graph.externs if name == node.name]
    return calls.call_records(gm, rows[:1])[0].line() if rows else str(node)
