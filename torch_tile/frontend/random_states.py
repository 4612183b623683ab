"""Random operators that a checkpoint runs twice, forward and backward, with the same numbers.

In graphs of ATen operators, AOTAutograd's partitioner replaces them by calls that save and set the state of the
generator, and gives those calls no fake results. They stay calls of Python.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import checkpoint

from torch_tile.frontend.sizes import hint_of

_CHECKPOINT_OPTIONS = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")


def _fake_result(node: Node, num_before: int) -> Any:
    """What the operator behind the first `num_before` arguments gives."""
    args: Any
    kwargs: Any
    args, kwargs = torch.fx.map_arg((node.args[num_before:], node.kwargs), lambda each: each.meta["val"])
    values = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    mode = torch._guards.detect_fake_mode(values)
    if mode is None:
        raise LookupError("no fake tensors")
    with mode:
        return args[0](*args[1:], **kwargs)


def _fake_state(node: Node) -> torch.Tensor:
    """Its length is a number, though torch traces it as a size that no input has."""
    users = [user for user in node.users if user.args[1] == 0 and "val" in user.meta]
    if not users:
        raise LookupError("no state is saved")
    value = users[0].meta["val"]
    with value.fake_mode:
        return torch.empty([int(hint_of(size)) for size in value.shape], dtype=value.dtype, device=value.device)


def _give(node: Node, value: Any) -> None:
    node.meta["val"] = value
    for user in node.users:
        if isinstance(value, (tuple, list)) and getattr(user.target, "__name__", "") == "getitem":
            position: Any = user.args[1]
            _give(user, value[position])


def give_random_results(gm: GraphModule) -> None:
    """Fake results for calls that save or set the state of the generator."""
    for node in gm.graph.find_nodes(op="call_function", target=run_and_save_rng_state):
        _give(node, (_fake_state(node), _fake_result(node, 0)))
    for node in gm.graph.find_nodes(op="call_function", target=run_with_rng_state):
        _give(node, _fake_result(node, 1))


def _checkpoint(module: GraphModule, *args: Any, **kwargs: Any) -> Any:
    """A checkpoint as the user wrote it, but for reentrance."""
    own = {name: kwargs.pop(name) for name in _CHECKPOINT_OPTIONS if name in kwargs}
    if "_checkpoint_context_fn" in module.meta:
        own["context_fn"] = module.meta["_checkpoint_context_fn"]
    own["use_reentrant"] = False
    return checkpoint(keeping_random_states(module), *args, **own, **kwargs)


def keeping_random_states(gm: GraphModule) -> GraphModule:
    """A graph of Dynamo's to be run in eager mode: torch's operator for a checkpoint computes again with other random
    numbers there, because it leaves the state of the generator to AOTAutograd."""
    if not any(each.find_nodes(op="call_function", target=tag_activation_checkpoint) for each in _graphs(gm)):
        return gm
    graph = torch.fx.Graph()
    result: Any = graph.graph_copy(gm.graph, {}, return_output_node=True)
    if result is not None:
        graph.output(result[0])
    for node in graph.find_nodes(op="call_function", target=tag_activation_checkpoint):
        node.target = _checkpoint
    copied = GraphModule(gm, graph)
    copied.meta = dict(gm.meta)
    return copied


def _graphs(gm: GraphModule) -> list[torch.fx.Graph]:
    return [module.graph for module in gm.modules() if isinstance(module, GraphModule)]
