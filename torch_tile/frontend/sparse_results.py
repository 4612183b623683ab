"""Results that are not strided: torch makes them of what the program returns.

The gradient of `nn.Embedding(sparse=True)` is such a result, of indices and rows that are ordinary tensors. Programs
compute those, so that one sparse weight does not send a whole backward graph to eager mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node


def _is_sparse(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


# What a program returns.
_PASSED = (torch.Tensor, int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


def _may_write(node: Node) -> bool:
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    return not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable


def without_sparse_results(gm: GraphModule) -> tuple[GraphModule, Callable[[Sequence[Any]], list[Any]]] | None:
    """Splits a graph before its sparse results.

    Returns:
        A graph whose last results are the operands of the sparse ones, and a function that makes the results of `gm` of
        its results. None where no result is sparse, where the graph goes on with one or is given one, and where it
        writes something after one was made: operands might change.
    """
    (output,) = gm.graph.find_nodes(op="output")
    made = [node for node in gm.graph.nodes if _is_sparse(node)]
    is_end = all(
        node.op == "call_function" and all(user in made or user is output for user in node.users) for node in made
    )
    if not made or not is_end or not isinstance(output.args[0], (list, tuple)):
        return None
    needed = list(dict.fromkeys(source for node in made for source in node.all_input_nodes if source not in made))
    behind = list(gm.graph.nodes)[list(gm.graph.nodes).index(made[0]) :]
    if any(map(_may_write, behind)) or not all(isinstance(node.meta.get("val"), _PASSED) for node in needed):
        return None
    results = list(output.args[0])
    kept = [result for result in results if result not in made]

    graph, copies = Graph(), dict[Node, Node]()
    for node in gm.graph.nodes:
        if node not in made and node is not output:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    returned = [copies[value] if isinstance(value, Node) else value for value in (*kept, *needed)]
    graph.output(tuple(returned)).meta = {key: value for key, value in output.meta.items() if key != "desc"}

    rest, values = Graph(), dict[Node, Node]()
    for node in needed:
        values[node] = rest.placeholder(node.name)
    for node in made:
        values[node] = rest.node_copy(node, values.__getitem__)
    rest.output(tuple(values[node] for node in made))
    make = GraphModule(gm, rest)

    def results_of(returned: Sequence[Any]) -> list[Any]:
        others = iter(returned[: len(kept)])
        sparse = dict(zip(made, make(*returned[len(kept) :]), strict=True))
        return [sparse[result] if result in sparse else next(others) for result in results]

    return GraphModule(gm, graph), results_of


def making_sparse_results(
    compiled: Callable[[list[Any]], Sequence[Any]], results_of: Callable[[Sequence[Any]], list[Any]]
) -> Callable[[list[Any]], list[Any]]:
    def call(inputs: list[Any]) -> list[Any]:
        return results_of(compiled(inputs))

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
