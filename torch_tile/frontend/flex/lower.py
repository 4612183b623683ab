"""Chooses what `flex_attention` becomes: kernels of the tile language, operators of the graph, or a call of Python."""

from __future__ import annotations

import logging
from typing import Any

from torch.fx import GraphModule, Node

from torch_tile.errors import TileError
from torch_tile.frontend.flex.blocks import LEAST as LEAST_ROWS
from torch_tile.frontend.flex.blocks import MOST_HALVINGS
from torch_tile.frontend.flex.call import is_flex_attention
from torch_tile.frontend.flex.dense import inline_flex_attention
from torch_tile.frontend.flex.launches import launch_instead
from torch_tile.frontend.launches.embed_kernels import GivenKernel
from torch_tile.frontend.launches.launch import NotNative
from torch_tile.frontend.tile_operators import UnsupportedFunctionError

log = logging.getLogger(__name__)
# Devices that have kernels of it.
KERNEL_DEVICES = {"cpu", "cuda"}


def lower_flex_attention(gm: GraphModule, decompositions: dict[Any, Any], smaller: int = 0) -> None:
    """Replaces all calls.

    Args:
        smaller: how often to halve the blocks of kernels; beyond `blocks.MOST_HALVINGS` there are no kernels.
    """
    kernels: dict[str, GivenKernel] = {}
    for node in list(gm.graph.nodes):
        if not is_flex_attention(node) or _is_launched(gm, node, kernels, smaller):
            continue
        try:
            inline_flex_attention(gm, node, decompositions)
        except Exception as error:
            log.info("%s stays a call of Python: %s", node.name, error)


def _is_launched(gm: GraphModule, node: Node, kernels: dict[str, GivenKernel], smaller: int) -> bool:
    if smaller > MOST_HALVINGS or not _is_for_kernels(node):
        return False
    before = set(gm.graph.nodes)
    try:
        launch_instead(gm, node, kernels, smaller)
    except (NotNative, UnsupportedFunctionError, TileError) as reason:
        log.info("%s has no kernel: %s", node.name, reason)
        for made in reversed([each for each in gm.graph.nodes if each not in before]):
            gm.graph.erase_node(made)
        return False
    return True


def _is_for_kernels(node: Node) -> bool:
    """Whether kernels are better than the operators of the graph, if they can compute it."""
    query: Any = node.args[0]
    _, _, rows, _ = query.meta["val"].shape
    device = query.meta["val"].device.type
    if device == "cpu" and isinstance(rows, int) and rows < LEAST_ROWS:
        # A block would be mostly empty, and the scores of few rows take no more memory than keys do.
        return False
    return device in KERNEL_DEVICES
