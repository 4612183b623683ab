"""A launch of a Triton kernel in a graph: its node, its call through Python, its identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.language.launch_options import NONE, LaunchOptions

aten = torch.ops.aten


class NotNative(Exception):
    """Why a launch has to go through Python."""


def is_functional(node: Node) -> bool:
    return is_launch(node) and str(node.target).endswith("functional")


def is_launch(node: Node) -> bool:
    """Of a graph of Dynamo, where kernels write into their arguments, or of a functional one."""
    return node.op == "call_function" and str(node.target).startswith("triton_kernel_wrapper_")


_UNWRITTEN = (
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
    aten.empty_permuted.default,
)


def is_unwritten(node: Any) -> bool:
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


def run(kernel: Any, arguments: dict[str, Any], grids: Sequence[Any]) -> None:
    """Launches through Triton. Positions rather than names, as far as they go: hooks of kernels expect them."""
    named = dict(arguments)
    positional: list[Any] = []
    for name in kernel.arg_names:
        if name not in named:
            break
        positional.append(named.pop(name))
    kernel[_choose_grid(kernel, grids)](*positional, **named)


class Launch:
    """What a node says."""

    def __init__(self, node: Node) -> None:
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

        self.node = node
        self.recorded: dict[str, Any] = dict(node.kwargs)
        self.written: list[str] = list(self.recorded["tensors_to_clone"])
        self.arguments: dict[str, Any] = dict(self.recorded["kwargs"])
        self.grids: list[Any] = list(self.recorded["grid"])
        self.kernel: Any = kernel_side_table.get_kernel(self.recorded["kernel_idx"])
        self.constants: dict[str, Any] = dict(kernel_side_table.get_constant_args(self.recorded["constant_args_idx"]))
        self.has_descriptors = bool(self.recorded["tma_descriptor_metadata"])
        self.results: dict[str, torch.Tensor] = node.meta["val"]
        self.options: LaunchOptions = NONE
        """On a GPU, once the launch is traced."""

    @property
    def devices(self) -> set[torch.device]:
        """Where the tensors among the arguments are."""
        values = [v.meta.get("val") for v in self.arguments.values() if isinstance(v, Node)]
        return {value.device for value in values if isinstance(value, torch.Tensor)}

    @property
    def function_name(self) -> str:
        function = self.kernel
        while hasattr(function, "fn"):
            function = function.fn
        return str(function.__name__)

    def results_of(self, name: str) -> list[Node]:
        return [user for user in self.node.users if str(user.args[1]) == name]


def _make_function(launch: Launch, leaves: list[Node]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A function of the values of `leaves` that returns the written tensors, in the order of the node's names."""
    from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_functional
    from torch._prims_common import clone_preserve_strides

    unwritten = {name for name in launch.written if is_unwritten(launch.arguments[name])}

    def call(*values: Any) -> tuple[torch.Tensor, ...]:
        environment = dict(zip(leaves, values, strict=True))
        actual: dict[str, Any] = dict(torch.fx.map_arg(launch.arguments, environment.__getitem__))
        if launch.has_descriptors:
            rest: dict[str, Any] = torch.fx.map_arg(launch.recorded, environment.__getitem__)
            written = triton_kernel_wrapper_functional(**rest)
            return tuple(written[name] for name in launch.written)
        for name in launch.written:
            old = actual[name]
            if name in unwritten:
                actual[name] = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype, device=old.device)
            else:
                actual[name] = clone_preserve_strides(old)  # type: ignore[no-untyped-call]
        grids: Any = torch.fx.map_arg(launch.grids, environment.__getitem__)
        run(launch.kernel, {**actual, **launch.constants}, grids)
        return tuple(actual[name] for name in launch.written)

    call.__name__ = call.__qualname__ = f"triton_{launch.function_name}"
    call.__module__ = __name__
    return call


def call_function_instead(gm: GraphModule, launch: Launch) -> None:
    node = launch.node
    leaves = list(node.all_input_nodes)
    with gm.graph.inserting_before(node):
        call = gm.graph.call_function(_make_function(launch, leaves), tuple(leaves))
    call.meta.update(node.meta)
    call.meta["val"] = tuple(launch.results[name] for name in launch.written)
    for user in list(node.users):
        position = launch.written.index(str(user.args[1]))
        user.update_arg(0, call)
        user.update_arg(1, position)
    gm.graph.erase_node(node)


def identify(node: Node) -> str:
    """What tells the launch of a Dynamo graph's node from others in any process: the source of its kernel, constants,
    configurations.

    Raises:
        ValueError: the launch holds something that has no name.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from torch_tile.triton.driver import installed_triton

    recorded: dict[str, Any] = dict(node.kwargs)
    kernel: Any = kernel_side_table.get_kernel(recorded["kernel_idx"])
    parts = [installed_triton()]
    if isinstance(kernel, Autotuner):
        if any(config.pre_hook is not None for config in kernel.configs):
            raise ValueError("a configuration with a hook")
        parts.append(str([sorted(config.all_kwargs().items()) for config in kernel.configs]))
        kernel = kernel.fn
    if not isinstance(kernel, JITFunction):
        raise ValueError(f"a kernel that is no plain function of Triton: {type(kernel).__name__}")
    constants = kernel_side_table.get_constant_args(recorded["constant_args_idx"])
    return "\n".join([*parts, kernel.cache_key, *(f"{name}={_name_of(value)}" for name, value in constants.items())])


def _name_of(value: Any) -> str:
    if isinstance(value, (bool, int, float, str, type(None), torch.dtype)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_name_of(v) for v in value)})"
    if hasattr(value, "cache_key"):
        return str(value.cache_key)
    if type(value).__module__.startswith("triton.language"):
        return f"{type(value).__name__} {value}"
    raise ValueError(f"a constant of type {type(value).__name__}")
