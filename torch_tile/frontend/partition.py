"""How a joint graph becomes forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition

from torch_tile.config import Settings
from torch_tile.frontend.fx_passes import replace_random


def partition(
    joint: torch.fx.GraphModule, inputs: Any, *, settings: Settings, **options: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Split a joint graph, recomputing in backward what is cheaper than to save.

    Random ops are replaced before, on the joint graph: a mask is then a function of a seed and a position, the same in both halves.
    """
    if not settings.fallback_random:
        replace_random(joint)
    return min_cut_rematerialization_partition(joint, inputs, **options)
