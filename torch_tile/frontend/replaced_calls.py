"""Calls in Dynamo's graph that AOTAutograd traces as other functions of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.fx import GraphModule, Node

from torch_tile.frontend.dynamo_calls import graphs_of

# Target, arguments and keyword arguments of a node.
Call = tuple[Callable[..., Any], Any, Any]
Choice = Callable[[Node], Call | None]


@contextlib.contextmanager
def replaced(gm: Any, choices: Sequence[Choice], outside: Sequence[Choice] = ()) -> Iterator[None]:
    """Replaces calls while AOTAutograd traces a graph. Afterwards the graph is as it was: scripts that show a failure
    are made of it.

    Args:
        gm: graph of Dynamo; anything else is left alone.
        choices: each gives the call that stands for that of a node, or None. The first one that gives a call is taken.
            They see the bodies of higher-order operators, too.
        outside: likewise, outside of those bodies alone.
    """
    before: list[tuple[Node, Call]] = []
    changed: list[GraphModule] = []
    try:
        for module in graphs_of(gm):
            known = len(before)
            for node in module.graph.nodes:
                if node.op != "call_function":
                    continue
                each = [*outside, *choices] if module is gm else choices
                call = next(filter(None, (choice(node) for choice in each)), None)
                if call is not None:
                    before.append((node, (node.target, node.args, node.kwargs)))
                    node.target, node.args, node.kwargs = call
            if len(before) > known:
                changed.append(module)
                module.recompile()
        yield
    finally:
        for node, call in before:
            node.target, node.args, node.kwargs = call
        for module in changed:
            module.recompile()
