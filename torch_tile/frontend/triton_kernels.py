"""Triton kernels inside graphs: each node of Dynamo becomes one call of a Python function.

Dynamo records a launch as a higher-order op that names its kernel by an index into a table of this process. The
function holds the kernel itself, so it outlives the table. The op is functional: it returns new tensors in place of
those that the kernel writes. A tensor that nobody has written yet is not copied for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten

_UNWRITTEN = (
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
    aten.empty_permuted.default,
)


def _is_unwritten(node: Any) -> bool:
    return isinstance(node, Node) and node.target in _UNWRITTEN


def _choose_grid(kernel: Any, grids: Sequence[Any]) -> Any:
    """What to put between the brackets: the grid, or for an autotuned kernel the one of the configuration."""
    if len(grids) == 1:
        return tuple(grids[0])

    def grid(meta: dict[str, Any]) -> Any:
        for config, choice in zip(kernel.configs, grids, strict=True):
            if all(meta.get(name) == value for name, value in config.kwargs.items()):
                return tuple(choice)
        raise RuntimeError("no grid was recorded for the configuration that was chosen")

    return grid


def _make_launch(node: Node, leaves: list[Node]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A function of the values of `leaves` that returns the written tensors, in the order of the node's names."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_functional
    from torch._prims_common import clone_preserve_strides

    recorded: dict[str, Any] = dict(node.kwargs)
    names: list[str] = list(recorded["tensors_to_clone"])
    arguments: dict[str, Any] = dict(recorded["kwargs"])
    unwritten = {name for name in names if _is_unwritten(arguments[name])}
    kernel: Any = kernel_side_table.get_kernel(recorded["kernel_idx"])
    constants = dict(kernel_side_table.get_constant_args(recorded["constant_args_idx"]))
    has_descriptors = bool(recorded["tma_descriptor_metadata"])

    def launch(*values: Any) -> tuple[torch.Tensor, ...]:
        environment = dict(zip(leaves, values, strict=True))
        actual: dict[str, Any] = dict(torch.fx.map_arg(arguments, environment.__getitem__))
        if has_descriptors:
            rest: dict[str, Any] = torch.fx.map_arg(recorded, environment.__getitem__)
            written = triton_kernel_wrapper_functional(**rest)
            return tuple(written[name] for name in names)
        for name in names:
            old = actual[name]
            if name in unwritten:
                actual[name] = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype, device=old.device)
            else:
                actual[name] = clone_preserve_strides(old)  # type: ignore[no-untyped-call]
        grids: Any = torch.fx.map_arg(recorded["grid"], environment.__getitem__)
        result = tuple(actual[name] for name in names)
        # Positions rather than names, as far as they go: hooks of kernels expect them.
        named = {**actual, **constants}
        positional: list[Any] = []
        for name in kernel.arg_names:
            if name not in named:
                break
            positional.append(named.pop(name))
        kernel[_choose_grid(kernel, grids)](*positional, **named)
        return result

    function = kernel
    while hasattr(function, "fn"):
        function = function.fn
    launch.__name__ = launch.__qualname__ = f"triton_{function.__name__}"
    launch.__module__ = __name__
    return launch


def replace_triton_kernels(gm: GraphModule) -> int:
    """Rewrites launches of Triton kernels in a functional graph; returns how many."""
    try:
        from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_functional
    except ImportError:
        return 0
    nodes = [
        n
        for n in gm.graph.nodes
        if n.op == "call_function" and str(n.target).startswith("triton_kernel_wrapper_functional")
    ]
    if not nodes:
        return 0
    assert triton_kernel_wrapper_functional is not None
    for node in nodes:
        recorded: dict[str, Any] = dict(node.kwargs)
        names: list[str] = list(recorded["tensors_to_clone"])
        leaves = list(node.all_input_nodes)
        with gm.graph.inserting_before(node):
            call = gm.graph.call_function(_make_launch(node, leaves), tuple(leaves))
        value = node.meta["val"]
        call.meta.update(node.meta)
        call.meta["val"] = tuple(value[name] for name in names)
        for user in list(node.users):
            position = names.index(str(user.args[1]))
            user.update_arg(0, call)
            user.update_arg(1, position)
        gm.graph.erase_node(node)
    gm.recompile()
    return len(nodes)
