"""Calls in Dynamo's graph that AOTAutograd traces as other functions of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch.fx import GraphModule, Node

# Target, arguments and keyword arguments of a node.
Call = tuple[Callable[..., Any], Any, Any]


@contextlib.contextmanager
def replaced(gm: Any, *choices: Callable[[Node], Call | None]) -> Iterator[None]:
    """Replaces calls while AOTAutograd traces a graph. Afterwards the graph is as it was: scripts that show a failure
    are made of it.

    Args:
        gm: graph of Dynamo; anything else is left alone.
        choices: each gives the call that stands for that of a node, or None. The first one that gives a call is taken.
    """
    before: list[tuple[Node, Call]] = []
    nodes = gm.graph.nodes if isinstance(gm, GraphModule) else ()
    try:
        for node in nodes:
            if node.op != "call_function":
                continue
            call = next(filter(None, (choice(node) for choice in choices)), None)
            if call is not None:
                before.append((node, (node.target, node.args, node.kwargs)))
                node.target, node.args, node.kwargs = call
        if before:
            gm.recompile()
        yield
    finally:
        for node, call in before:
            node.target, node.args, node.kwargs = call
        if before:
            gm.recompile()
