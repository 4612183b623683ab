"""Numbers of `random.Random` objects, which Dynamo gives to a graph as tensors of no dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.source import RandomValueSource


def as_they_come(gm: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """Inputs with such numbers in float64.

    Dynamo draws one number when it traces, makes it a tensor of the default dtype, and calls the graph with float64.

    Args:
        gm: graph of Dynamo, or a module around one.
        inputs: its example inputs, one for each placeholder.
    """
    if not isinstance(gm, torch.fx.GraphModule):
        return inputs
    result = list(inputs)
    for place, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        value = result[place] if place < len(result) else None
        source = getattr(node.meta.get("grapharg"), "source", None)
        if isinstance(source, RandomValueSource) and isinstance(value, torch.Tensor) and value.is_floating_point():
            result[place] = value.detach().to(torch.float64)
    return result
