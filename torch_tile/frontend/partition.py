"""Cuts a joint graph into forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition

from torch_tile.frontend.common_subexpressions import merge_common_subexpressions
from torch_tile.frontend.shared_roundings import mark_shared_roundings
from torch_tile.frontend.written_inputs import save_copies, written_inputs


def partition(
    joint: torch.fx.GraphModule, joint_inputs: Any, is_merged: bool = True, **kwargs: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Save what is dear to compute and recompute the rest, by the minimum cut over bytes kept.

    Args:
        joint: forward and backward in one graph.
        joint_inputs: (primals, tangents).
        is_merged: whether equal computations become one.
        kwargs: what AOTAutograd passes on: num_fwd_outputs, static_lifetime_input_indices.
    """
    if functorch_config.cse and is_merged:
        merge_common_subexpressions(joint.graph)
    written = written_inputs(joint.graph)
    with functorch_config.patch(cse=False):
        # "inductor" selects the heuristics for backends that fuse.
        forward, backward = min_cut_rematerialization_partition(joint, joint_inputs, compiler="inductor", **kwargs)
    mark_shared_roundings(joint.graph, forward.graph, backward.graph)
    if written:
        save_copies(forward, backward, written, kwargs["num_fwd_outputs"])
    return forward, backward
