"""What bisection turns off (cli_bisect.py): passes by name; graphs, kernels and operators beyond a number.

Numbers count over the process, in the order in which graphs are compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torch_tile.config import Settings
from torch_tile.debug.memory import planned_steps
from torch_tile.debug.places import source_line

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

# Passes that may be left out, and what they do.
PASSES = {
    "user_passes": "passes that options give, such as post_grad_pass",
    "attention": "scaled_dot_product_attention stays whole",
    "circular_pads": "circular padding is concatenations",
    "complex_numbers": "chains of complex operators are arithmetic of their parts",
    "decompositions": "decompositions of ours; each alone by its operator, as in aten.glu.default",
    "random": "random numbers are made in kernels",
    "channels_last_scatters": "sums by index of values with channels last are made in their order",
    "product_gradients": "gradients of products divide the product of all elements by each",
    "thin_products": "a row times a matrix of few bytes is a fused sum",
    "narrow_products": "products on GPU compute weights of few bits on the way",
    "pad_products": "products on GPU get rows that begin at multiples of 16 bytes",
    "slice_writes": "assignments to parts of a large tensor write these parts alone",
    "sorts": "sorts of short rows are kernels",
    "written_attention": "products with a softmax between are one kernel",
    "common_subexpressions": "equal computations of a joint graph are merged",
    "channels_last": "convolutions get inputs with channels last",
    "pointwise_convolutions": "convolutions with filters of one point on CPU are products",
    "convolution_biases": "biases of convolutions on GPU are added by kernels",
    "epilogues": "activations are computed by the library, behind products and convolutions",
    "fold": "frozen parameters: what depends on them alone is computed once",
    "scale_weights": "frozen parameters: weights take in what follows",
    "elide_roundings": "values of low precision that never reach memory stay in float32",
    "fusion": "operators share kernels",
}
_VIEWS = (
    "view",
    "expand",
    "permute",
    "slice",
    "select",
    "unsqueeze",
    "squeeze",
    "alias",
    "unfold",
    "as_strided",
    "transpose",
)
_num_graphs = 0
_num_operators = 0
_num_kernels = 0


def is_on(settings: Settings, name: str) -> bool:
    """Whether a pass of PASSES, or a decomposition by the name of its operator, is not left out."""
    return name not in settings.disabled_passes()


def are_set(settings: Settings) -> bool:
    """Whether what is compiled depends on what was compiled before."""
    return (
        settings["only_first_graphs"] >= 0
        or settings["only_first_kernels"] >= 0
        or settings["only_first_operators"] >= 0
        or bool(settings["bisect_report"])
    )


def is_graph_compiled(settings: Settings) -> bool:
    """Counts a graph; whether it is among the first ones."""
    global _num_graphs
    _num_graphs += 1
    _report(settings, "graph", str(_num_graphs))
    limit = settings["only_first_graphs"]
    return bool(limit < 0 or limit >= _num_graphs)


def is_beyond(settings: Settings) -> bool:
    """Whether a graph of Dynamo's that is about to be traced lies beyond the first ones. It then runs as after a
    failure: as Dynamo captured it, with the random numbers of eager mode.

    One of which the forward graph is the last of the first ones is traced, and its backward graph alone is left out.
    """
    limit = settings["only_first_graphs"]
    return bool(0 <= limit <= _num_graphs)


def limit_operators(gm: GraphModule, settings: Settings) -> None:
    """Operators beyond the first ones become calls of Python functions."""
    global _num_operators
    limit = settings["only_first_operators"]
    if limit < 0 and not settings["bisect_report"]:
        return
    for node in gm.graph.nodes:
        if not _is_computed(node):
            continue
        _num_operators += 1
        _report(settings, "operator", f"{_num_operators} {node.name} {node.target} {source_line(node) or ''}")
        if 0 <= limit < _num_operators:
            node.target = _Outside(node.target)


def limit_kernels(gm: GraphModule, graph: Any, program: Any, settings: Settings) -> bool:
    """Operators of kernels beyond the first ones become calls of Python functions, unless another kernel has them, too.

    Args:
        gm: the graph.
        graph: its text.
        program: what was made of it. A kernel counts as often as it is launched.

    Returns:
        Whether the graph is to be compiled again.
    """
    global _num_kernels
    limit = settings["only_first_kernels"]
    if limit < 0 and not settings["bisect_report"]:
        return False
    nodes, names = {node.name: node for node in gm.graph.nodes}, dict(graph.lines)
    inside: set[Node] = set()
    outside: list[Node] = []
    launches = {step: kernel for what, step, _, kernel, _, _ in planned_steps(graph, program) if what == "launch"}
    for step, kernel in launches.items():
        _num_kernels += 1
        members = [nodes[names[line]] for line in program.step_lines[step] if names.get(line) in nodes]
        members = [node for node in members if _is_computed(node)]
        targets = ", ".join(str(node.target).removeprefix("aten.").removesuffix(".default") for node in members)
        sources = dict.fromkeys(source for node in members if (source := source_line(node)))
        name = program.kernels[kernel]["name"]
        _report(settings, "kernel", f"{_num_kernels} {name} {targets}\t{' | '.join(sources)}")
        if 0 <= limit < _num_kernels:
            outside += members
        else:
            inside.update(members)
    left_out = [node for node in outside if node not in inside]
    for node in left_out:
        node.target = _Outside(node.meta.get("eager", node.target))
    return bool(left_out)


def _is_computed(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    is_tensor = isinstance(node.meta.get("val"), torch.Tensor)
    return bool(is_tensor) and not schema.is_mutable and schema.name.rpartition("::")[2] not in _VIEWS


def _report(settings: Settings, kind: str, text: str) -> None:
    if settings["bisect_report"]:
        with open(settings["bisect_report"], "a", encoding="utf-8") as file:
            file.write(f"{kind} {text}\n")


class _Outside:
    """An operator as the importer does not know it."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.__name__ = f"outside_{target.__name__.replace('.', '_')}"
        self.__module__ = "torch_tile.debug.limits"
        self.__qualname__ = self.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.target(*args, **kwargs)
