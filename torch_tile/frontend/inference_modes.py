"""Blocks of `torch.inference_mode()` within a graph, which are traced as blocks without gradients.

AOTAutograd traces with tensors that functionalization wraps, and a view of one cannot be made in inference mode.
Results of a compiled program are no inference tensors either way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import grad_mode
from torch.fx import GraphModule, Node

_enter: Any = getattr(grad_mode, "_enter_inference_mode", None)  # private parts of torch
_exit: Any = getattr(grad_mode, "_exit_inference_mode", None)


@contextlib.contextmanager
def traced_without_gradients(gm: Any) -> Iterator[None]:
    """The blocks of a graph are changed inside; after an error they are what they were, to run in eager mode."""
    if not isinstance(gm, GraphModule) or torch.is_inference_mode_enabled() or not _blocks(gm):
        yield
        return
    before = [(node, node.target, node.args) for node in _blocks(gm)]
    _change(gm)
    try:
        yield
    except BaseException:
        for node, target, arguments in before:
            node.target, node.args = target, arguments
        gm.recompile()
        raise


def _blocks(gm: GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if node.op == "call_function" and node.target in (_enter, _exit)]


def _change(gm: GraphModule) -> None:
    has_gradients = torch.is_grad_enabled()
    outside: dict[Node, bool] = {}
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is torch._C._set_grad_enabled:
            has_gradients = bool(node.args[0])
        elif node.target is _enter:
            outside[node] = has_gradients
            has_gradients = not node.args[0]  # inference_mode(False) has gradients
            node.target, node.args = torch._C._set_grad_enabled, (has_gradients,)
        elif node.target is _exit:
            has_gradients = outside[node.args[0]]
            node.target, node.args = torch._C._set_grad_enabled, (has_gradients,)
    gm.recompile()
