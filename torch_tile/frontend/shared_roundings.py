"""Values of 16 bits that the forward graph computes and the backward graph computes again.

A value has one rounding, whoever reads it. Fusion leaves a rounding out where one operator alone reads the value. Of a
value that is computed again each graph may have one reader, and together there are several: a derivative would meet the
rounded value in one place and the exact one in another, as `p * (1 - p)` of a saved and a recomputed probability.
"""

from __future__ import annotations

import torch

from torch_tile.frontend.tracked_views import is_view

MARK = "tile_rounded"  # in node.meta; csrc/runtime/fx/Importer.cpp reads it
_SHORT = (torch.float16, torch.bfloat16)


def mark_shared_roundings(joint: torch.fx.Graph, forward: torch.fx.Graph, backward: torch.fx.Graph) -> None:
    """Marks, in both graphs, the nodes that both compute and that have more than one reader in the joint graph."""
    shared = {node.name for node in joint.nodes if node.op == "call_function" and len(node.users) > 1}
    for graph in (forward, backward):
        shared &= {node.name for node in graph.nodes if node.op == "call_function"}
    for graph in (forward, backward):
        for node in graph.nodes:
            if node.name in shared and _is_short(node) and not is_view(node):
                node.meta[MARK] = True


def _is_short(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in _SHORT
