"""Sizes that a program states and torch writes as quotients of symbols.

`x.reshape(-1, 4)` of dynamic sizes has a last size of `E//(E//4)`, where E is the number of elements: torch computes it
from the size that it inferred. The view exists only where that is 4, so the number stands for the expression in every
graph over the same sizes, gradients' too, whose own views may not state it. Likewise `s//8*8` is the size s that the
program asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.symbol import SymT, symbol_is_type

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
# On torch's environment of symbols, whose life they share.
_ATTRIBUTE = "_torch_tile_stated_sizes"
# Each replacement may make way for another one; so many are enough for views of views of views.
_MOST_ROUNDS = 4


def learn(gm: GraphModule) -> None:
    """Notes what views of the graph state for expressions."""
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target not in _VIEWS or len(node.args) != 2:
            continue
        for stated, size in zip(node.args[1], node.meta["val"].shape, strict=False):
            if isinstance(size, torch.SymInt) and not size.node.expr.is_Symbol and _has_guards(size):
                known = size.node.shape_env.__dict__.setdefault(_ATTRIBUTE, {})
                known.update(_facts(stated, size.node.expr))


@contextlib.contextmanager
def also(facts: dict[Any, Any], shape_env: Any) -> Iterator[None]:
    """What equals expressions or symbols for the time being."""
    before = shape_env.__dict__.get(_ATTRIBUTE)
    shape_env.__dict__[_ATTRIBUTE] = {**(before or {}), **facts}
    try:
        yield
    finally:
        if before is None:
            del shape_env.__dict__[_ATTRIBUTE]
        else:
            shape_env.__dict__[_ATTRIBUTE] = before


def _has_guards(size: torch.SymInt) -> bool:
    """Whether the program runs only where its views exist: nothing guards what depends on data."""
    return all(
        not symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)) for symbol in size.node.expr.free_symbols
    )


def _facts(stated: Any, expression: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(stated, Node):
        stated = stated.meta["val"]
    if isinstance(stated, torch.SymInt):
        if stated.node.expr.count_ops() < expression.count_ops():  # so that replacements end
            yield expression, stated.node.expr
    elif stated >= 0:
        yield expression, sympy.Integer(stated)
    elif isinstance(expression, FloorDiv) and expression.args[1].is_Integer:
        # The view exists where the division is one without rest.
        dividend, divisor = expression.args
        yield FloorDiv(dividend, expression), divisor


def replaced(expression: Any, shape_env: Any) -> Any:
    """The expression with what is known to equal parts of it in their place."""
    known = shape_env.__dict__[_ATTRIBUTE]
    is_plain = expression.is_number or (expression.is_Symbol and expression not in known)
    for _ in range(0 if is_plain else _MOST_ROUNDS):
        before, expression = expression, expression.subs(known)
        if expression == before:
            break
    return expression
