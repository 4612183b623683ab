"""Attention masks built in the graph: finds those that hide nothing, and causal ones.

A library of models may skip such a mask in eager mode, where it looks at its values, and build it while it is traced.
The fused kernels are faster without one.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

log = logging.getLogger(__name__)

# What masks are made of: functions of their arguments alone, by the names that Dynamo's graphs have for them.
# fmt: off
_PURE = {
    "arange", "ones", "zeros", "full", "tensor", "ones_like", "zeros_like", "full_like", "new_ones",
    "new_zeros", "new_full", "tril", "triu", "where", "masked_fill", "logical_and", "logical_or", "logical_not",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not", "and_", "or_", "xor", "invert", "__and__",
    "__or__", "__invert__", "eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "neg", "abs", "floordiv",
    "mod", "remainder", "clone",
}
# These may return their argument's memory.
_VIEWS = {
    "view", "reshape", "expand", "expand_as", "broadcast_to", "unsqueeze", "squeeze", "getitem", "transpose",
    "permute", "contiguous", "to", "bool", "float", "int", "long", "type",
}
# fmt: on
_MOST_NODES = 64
_MOST_ELEMENTS = 1 << 26


def _name(node: Node) -> str:
    return node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", ""))


def _extent(value: torch.Tensor) -> int:
    """Elements between the first and the last one; -1 if a size is not known."""
    if any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride())):
        return -1
    return sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) + 1


def _may_be_written(node: Node) -> bool:
    """Whether a user of the node, or of a view of it, is another function than those above and attention."""
    seen, waiting = {node}, [node]
    while waiting:
        for user in waiting.pop().users:
            name = _name(user)
            if name in _VIEWS:
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
            elif "out" in user.kwargs or (name not in _PURE and name != "scaled_dot_product_attention"):
                return True
    return False


def _makers(mask: Node) -> list[Node] | None:
    """The nodes that make the mask, in order; None if it depends on an input, or on what is not listed above."""
    found: set[Node] = set()
    waiting = [mask]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        value = node.meta.get("example_value")
        if node.op not in ("call_function", "call_method") or _name(node) not in _PURE | _VIEWS:
            return None
        if len(found) >= _MOST_NODES or "out" in node.kwargs or _may_be_written(node):
            return None
        if not isinstance(value, torch.Tensor) or not 0 <= _extent(value) <= _MOST_ELEMENTS:
            return None
        found.add(node)
        waiting += node.all_input_nodes
    return sorted(found)


def _value(mask: Node, makers: list[Node]) -> torch.Tensor:
    values: dict[Node, Any] = {}
    for node in makers:
        args, kwargs = pytree.tree_map_only(Node, values.__getitem__, (node.args, dict(node.kwargs)))
        if node.op == "call_method":
            assert isinstance(node.target, str)
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        else:
            assert callable(node.target)
            values[node] = node.target(*args, **kwargs)
    result: torch.Tensor = values[mask]
    return result


def meaning_of(mask: Node) -> str | None:
    """`nothing` if the mask hides nothing, `causal` if it hides what is right of a square's diagonal; else None."""
    makers = _makers(mask)
    if makers is None:
        return None
    try:
        with _disable_current_modes(), torch.no_grad():
            value = _value(mask, makers)
            for axis in range(value.dim() - 2):  # equal for all batches and heads, as a rule by a stride of 0
                if value.stride(axis) == 0:
                    value = value.narrow(axis, 0, 1)
            shown = value if value.dtype is torch.bool else value == 0
            if bool(shown.all()):
                return "nothing"
            hidden = ~shown if value.dtype is torch.bool else value == float("-inf")
            rows, columns = value.shape[-2:] if value.dim() >= 2 else (0, 0)
            if rows == columns and bool((hidden != shown).all()):
                causal = torch.ones(rows, columns, dtype=torch.bool, device=value.device).tril()
                if bool((shown == causal).all()):
                    return "causal"
    except Exception as error:  # the mask stays; that it cannot be computed is for torch to say
        log.info("the mask '%s' cannot be computed ahead: %s", mask.name, error)
    return None
