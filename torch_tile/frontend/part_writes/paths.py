"""Views of a tensor in a graph, step by step, and whether two of them are the same part of it."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

aten = torch.ops.aten

# Views of all elements: the same ones in other dimensions.
LAYOUTS = (
    *(aten.view.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.alias.default),
    *(aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims),
)
# Views of some of them.
PARTS = (aten.slice.Tensor, aten.select.int, aten.diagonal.default, aten.as_strided.default)


def value_of(node: Any) -> Any:
    return node.meta["val"] if isinstance(node, Node) else node


@dataclasses.dataclass(frozen=True)
class Step:
    """A call of a view, without its operand."""

    target: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    @staticmethod
    def of(node: Node, operands: int = 1, target: Any = None) -> Step:
        return Step(target or node.target, tuple(node.args[operands:]), tuple(node.kwargs.items()))

    def is_made_by(self, node: Node) -> bool:
        return node.target is self.target and Step.of(node) == self

    def applied(self, value: Any) -> Any:
        args, kwargs = pytree.tree_map_only(Node, value_of, (list(self.args), dict(self.kwargs)))
        return self.target(value, *args, **kwargs)


def view_along(value: Any, steps: Sequence[Step]) -> Any:
    """The view of a fake tensor; None if one of the steps is not possible without a copy."""
    try:
        with value.fake_mode, torch.no_grad():
            for step in steps:
                value = step.applied(value)
    except (RuntimeError, ValueError, IndexError):
        return None
    return value


def is_same_layout(a: Any, b: Any) -> bool:
    """Whether two tensors lie in memory in the same way."""
    return (
        a.dtype is b.dtype
        and a.dim() == b.dim()
        and all(
            statically_known_true(m == n) and (statically_known_true(m == 1) or statically_known_true(s == t))
            for m, n, s, t in zip(a.shape, b.shape, a.stride(), b.stride(), strict=True)
        )
    )


def is_same_view(a: Any, b: Any) -> bool:
    """Whether two views of one tensor have the same elements at the same indices."""
    if a is None or b is None or not is_same_layout(a, b):
        return False
    return statically_known_true(a.storage_offset() == b.storage_offset())


def operands_of(node: Any) -> Iterator[tuple[Node, list[Step]]]:
    """What a node is a view of, with the steps from there to the node: first the node itself without steps."""
    steps: list[Step] = []
    while isinstance(node, Node):
        yield node, steps
        if node.op != "call_function" or node.target not in (*LAYOUTS, *PARTS):
            return
        steps = [Step.of(node), *steps]
        node = node.args[0]


def steps_from(base: Node, node: Any) -> list[Step] | None:
    """What makes the node of `base`: none if it is `base`; None if it is no view of it."""
    return next((way for operand, way in operands_of(node) if operand is base), None)


def is_view_of(node: Any, base: Node, steps: Sequence[Step]) -> bool:
    """Whether a node is the part of `base` that the steps lead to."""
    way, value = steps_from(base, node), value_of(base)
    return way == list(steps) or (way is not None and is_same_view(view_along(value, way), view_along(value, steps)))


def viewed_as_itself(node: Node) -> Node | None:
    """The farthest tensor of which a view of all elements has all elements at the same indices."""
    value, same = value_of(node), None
    for operand, way in operands_of(node):
        given = value_of(operand)
        if way and given.dim() == value.dim() and is_same_view(view_along(given, way), given):
            same = operand
        if operand.target not in LAYOUTS:
            break
    return same


def name_parts(graph: torch.fx.Graph) -> None:
    """Parts that `split` and `unbind` make become slices and selections of their own."""
    for node in list(graph.find_nodes(op="call_function", target=operator.getitem)):
        of, place = node.args
        step = _step_of_part(of, place) if isinstance(of, Node) else None
        if step is None:
            continue
        with graph.inserting_before(node):
            part = graph.call_function(step.target, (of.args[0], *step.args))
        part.meta.update(node.meta)
        node.replace_all_uses_with(part)
        graph.erase_node(node)
        if not of.users:
            graph.erase_node(of)


def _step_of_part(of: Node, place: Any) -> Step | None:
    if of.op != "call_function" or not isinstance(place, int) or place < 0:  # names are of launches' results
        return None
    dim = of.args[-1] if len(of.args) == (2 if of.target is aten.unbind.int else 3) else of.kwargs.get("dim", 0)
    if of.target is aten.unbind.int:
        return Step(aten.select.int, (dim, place))
    if of.target is aten.split.Tensor and isinstance(of.args[1], int):
        return Step(aten.slice.Tensor, (dim, place * of.args[1], (place + 1) * of.args[1]))
    if of.target is aten.split_with_sizes.default and all(isinstance(size, int) for size in of.args[1]):  # type: ignore[union-attr]
        sizes: Any = of.args[1]
        return Step(aten.slice.Tensor, (dim, sum(sizes[:place]), sum(sizes[: place + 1])))
    return None
