"""Launches of kernels of the tile language that passes put into graphs."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.launches.embed_kernels import GivenKernel
from torch_tile.frontend.launches.options import attributes_on_gpu, is_tensor
from torch_tile.language.compile_time_values import constexpr
from torch_tile.language.launch_options import LaunchOptions

# An integer that stands for one whose value is not known: kernels see int64.
_UNKNOWN = 1 << 40


class Result:
    """A tensor that a kernel makes.

    Attributes:
        index: its place among the results.
        value: a fake tensor.
    """

    def __init__(self, index: int, value: torch.Tensor) -> None:
        self.index, self.value = index, value


def insert_launch(
    gm: GraphModule,
    before: Node,
    kernel: Any,
    values: dict[str, Any],
    grid: list[Any],
    options: LaunchOptions,
    results: list[torch.Tensor],
    device: torch.device,
    kernels: dict[str, GivenKernel],
) -> list[Node]:
    """A launch before a node, and the nodes of its results.

    Args:
        kernel: a function of the tile language.
        values: by parameter: nodes, numbers (constants of the kernel), a `Result` for each result, tuples of them, and
            other Python objects, which the kernel sees as they are.
        grid: three numbers or nodes.
        options: of the launch, on a GPU.
        results: fake tensors, in the order of `Result.index`.
        kernels: of this graph so far, by their texts.
    """
    from torch_tile.language.compile import trace

    actual: list[Any] = []
    bound = {name: _stand_in(values[name], actual) for name in kernel.arg_names}
    is_on_gpu = device.type == "cuda"
    text = trace(kernel, bound, device if is_on_gpu else None).text
    attributes = ["tile.noalias_args"]
    if is_on_gpu:  # kernels of graphs for GPU take their pointers first
        actual.sort(key=lambda value: not is_tensor(value))
        attributes += attributes_on_gpu(actual, True, options)
    graph = gm.graph
    with graph.inserting_before(before):
        node = graph.call_function(_given(kernel, text, attributes, kernels), (actual, grid, []))
    node.meta.update({k: v for k, v in before.meta.items() if k not in ("val", "tensor_meta")})
    node.meta["val"] = tuple(results)
    made = []
    for index, value in enumerate(results):
        with graph.inserting_before(before):
            made.append(graph.call_function(operator.getitem, (node, index)))
        made[-1].meta["val"] = value
    return made


def _given(kernel: Any, text: str, attributes: list[str], kernels: dict[str, GivenKernel]) -> GivenKernel:
    key = f"{attributes}{text}"
    if key not in kernels:
        name = f"{kernel.fn.__name__}_{len(kernels)}"
        module = f"module @{name} attributes {{{', '.join(attributes)}}} {{\n{text}}}\n"
        kernels[key] = GivenKernel(name, module, is_user_defined=False)
    return kernels[key]


def _stand_in(value: Any, actual: list[Any]) -> Any:
    """What the tracer sees of an argument; `actual` gets what the launch passes, in the order of the kernel's text."""
    if isinstance(value, tuple):
        return tuple(_stand_in(item, actual) for item in value)
    if isinstance(value, Result):
        actual.append(str(value.index))
        return torch.empty((), dtype=value.value.dtype)
    if isinstance(value, Node):
        actual.append(value)
        held = value.meta["val"]
        return torch.empty((), dtype=held.dtype) if isinstance(held, torch.Tensor) else _UNKNOWN
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return constexpr(value)
