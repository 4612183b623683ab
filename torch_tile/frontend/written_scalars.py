"""Tensors of no dimension in float64 that a graph writes, which torch's handling of Python floats would lose.

Dynamo gives each such tensor a symbol for its value, as it does to Python floats. AOTAutograd sees that no value of the
graph uses the symbol, marks it as one to specialize, and has Dynamo trace again; Dynamo then takes `x.add_(1)` for an
unused reading of the number and drops it (`OutputGraph.remove_tensorify_specialized_graphargs`, torch 2.11 to 2.13).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo.symbolic_convert import TensorifyState
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type

from torch_tile.errors import UnsupportedError


def _floats_read(gm: torch.fx.GraphModule) -> set[str]:
    """Symbols of floats in numbers and sizes of the graph's values."""
    names: set[str] = set()
    for node in gm.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("example_value")):
            if isinstance(value, (torch.Tensor, torch.SymFloat, torch.SymInt, torch.SymBool)):
                names.update(str(s) for s in free_symbols(value) if symbol_is_type(s, SymT.FLOAT))
    return names


def _taken_for_readings(gm: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, str]]:
    """Calls that Dynamo would drop, with the symbol of the value, if that counted as specialized."""
    for node in gm.graph.nodes:
        value = node.meta.get("example_value")
        memo = value.item_memo if isinstance(value, FakeTensor) and node.op != "placeholder" else None
        if memo is not None and all(user.target == "item" for user in node.users):
            yield node, str(memo.node._expr)


@contextlib.contextmanager
def kept(gm: Any) -> Iterator[None]:
    """While AOTAutograd compiles the graph, the values of tensors that it writes count as specialized already, so that
    they are no reason for Dynamo to trace again. Python floats still are one.

    Args:
        gm: graph of Dynamo; anything else is left alone.

    Raises:
        UnsupportedError: the graph writes such a tensor and reads its value as a number.
    """
    written = set()
    dropped = list(_taken_for_readings(gm)) if isinstance(gm, torch.fx.GraphModule) else []
    if dropped:
        read = _floats_read(gm)
        for node, name in dropped:
            if name in read:
                raise UnsupportedError("import", f"{node.target} writes a float64 tensor that is read as a number")
        written = {name for _, name in dropped if not TensorifyState.should_specialize(name)}
    for name in written:
        TensorifyState.specialize(name)
    try:
        yield
    finally:  # Dynamo may trace again for another reason, and would drop what it takes for readings
        TensorifyState.force_specializations.difference_update(written)
