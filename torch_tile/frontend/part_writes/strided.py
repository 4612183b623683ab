"""Scatters of slices with steps and of diagonals, as choices between the tensor and an element of the source."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.frontend.decompositions.views import are_numbers, diagonal_scatter, may_overlap
from torch_tile.frontend.emit import emit_before, emit_traced
from torch_tile.frontend.part_writes.chains import SCATTERS, argument, diagonal_of
from torch_tile.frontend.part_writes.paths import value_of

aten = torch.ops.aten


def _fits(node: Node) -> bool:
    """Whether the source has the sizes of what it replaces. ATen refuses others."""
    given: list[Any] = [value_of(argument) if isinstance(argument, Node) else argument for argument in node.args]
    x, source, *places = given
    options: dict[str, Any] = {name: value_of(v) if isinstance(v, Node) else v for name, v in node.kwargs.items()}
    with x.fake_mode, torch.no_grad():
        sizes = SCATTERS[node.target](x, *places, **options).shape
    return len(sizes) == source.dim() and all(map(statically_known_true, map(operator.eq, sizes, source.shape)))


def _has_kernels(node: Node) -> bool:
    """Whether the elements of the tensor have memory of their own, and a dtype that kernels have."""
    x = value_of(node.args[0])
    return not x.dtype.is_complex and not may_overlap(x)


def _is_strided(node: Node) -> bool:
    dim = int(argument(node, 2, "dim", 0))
    start, end, step = argument(node, 3, "start", None), argument(node, 4, "end", None), argument(node, 5, "step", 1)
    return step != 1 and are_numbers(start, end, step, value_of(node.args[0]).shape[dim])


def _spec(node: Node, first: int) -> tuple[Any, ...]:
    """Dimension, start, end and step of a slice, or of a scatter of one, whose operands are `first` tensors."""
    dim = int(argument(node, first, "dim", 0)) % value_of(node.args[0]).dim()
    size = value_of(node.args[0]).shape[dim]
    places = [argument(node, first + k, name, None) for k, name in ((1, "start"), (2, "end"), (3, "step"))]
    if isinstance(size, int):
        return dim, slice(*places).indices(size)
    start, end, step = places
    return dim, (start or 0, None if end == _TO_THE_END else end, step)


_TO_THE_END = 2**63 - 1

# Operators of a source that are computed for all positions rather than looked up at those that are written.
_MOST_WIDENED = 8


class _Widened:
    """A source that is computed point by point of equal parts of tensors, as in `x[::3] += y`: the same of the whole
    tensors, where it is chosen. One other operand may be looked up; of more the source itself is."""

    def __init__(self, node: Node, emit: Any, look_up: Any) -> None:
        self.node, self.emit, self.look_up = node, emit, look_up
        self.spec, self.shape = _spec(node, 2), value_of(node.args[0]).shape
        self.left = _MOST_WIDENED
        self.has_part, self.looked_up = False, 0

    def value(self, source: Any) -> Any:
        """None where the source is no such thing."""
        found = self._of(source)
        return found if found is not None and self.has_part and self.looked_up <= 1 else None

    def _of(self, source: Any) -> Any:
        if not isinstance(source, Node) or not isinstance(value_of(source), torch.Tensor):
            return source
        held = value_of(source)
        is_part = source.target is aten.slice.Tensor and str(value_of(source.args[0]).shape) == str(self.shape)
        if is_part and _spec(source, 1) == self.spec:
            self.has_part = True
            return source.args[0]
        from_end = len(self.shape) - self.spec[0]
        if held.dim() < from_end or statically_known_true(held.shape[-from_end] == 1):
            return source  # the same at all positions
        tags = source.target.tags if isinstance(source.target, torch._ops.OpOverload) else ()
        is_pointwise = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
        is_pointwise &= held.dtype.is_floating_point  # integers may raise at positions that are not chosen
        users = [user for user in source.users if user.target is not aten.sym_size.int]
        if not is_pointwise or len(users) > 1 or held.dim() != len(self.shape):
            self.looked_up += 1
            return self.look_up(source) if held.dim() == len(self.shape) else None
        self.left -= 1
        arguments = [self._of(each) for each in source.args]
        named = {name: self._of(each) for name, each in source.kwargs.items()}
        lost = any(new is None and old is not None for new, old in zip(arguments, source.args, strict=True))
        if lost or self.left < 0 or any(isinstance(each, Node) for each in source.kwargs.values()):
            return None
        return self.emit(source.target, *arguments, **named)


def _choose(gm: GraphModule, node: Node) -> None:
    emit = functools.partial(emit_before, gm, node)
    x, source = node.args[:2]
    value, dim = value_of(x), int(argument(node, 2, "dim", 0)) % value_of(x).dim()
    start, end, step = (argument(node, k, name, None) for k, name in ((3, "start"), (4, "end"), (5, "step")))
    size: Any = value.shape[dim]
    if isinstance(size, int):
        start, end, step = slice(start, end, step).indices(size)
        last: Any = len(range(start, end, step)) - 1
    else:
        start, end, size = start or 0, None if end == _TO_THE_END else end, emit(aten.sym_size.int, x, dim)
        last = emit(operator.sub, emit(aten.sym_size.int, source, dim), 1)
    if last == -1:
        chosen = emit(aten.clone.default, x)
    else:
        # Quotients and remainders of what is never negative: few instructions, and bounds that are known.
        position = emit(aten.arange.default, size, dtype=torch.int64, device=value.device)
        is_chosen = emit(aten.eq.Scalar, emit(aten.remainder.Scalar, position, step), start % step)
        if start >= step:
            is_chosen = emit(aten.bitwise_and.Tensor, is_chosen, emit(aten.ge.Scalar, position, start))
        if end not in (None, size):
            is_chosen = emit(aten.bitwise_and.Tensor, is_chosen, emit(aten.lt.Scalar, position, end))
        shape: list[Any] = [1] * value.dim()
        shape[dim] = size
        is_chosen = emit(aten.view.default, is_chosen, shape)
        at = emit(aten.div.Tensor_mode, position, step, rounding_mode="floor")
        if start >= step:
            at = emit(aten.sub.Tensor, at, start // step)
        at = emit(aten.clamp.default, at, 0, last)

        def look_up(part: Any) -> Node:
            return emit(aten._unsafe_index.Tensor, part, [None] * dim + [at])

        element = _Widened(node, emit, look_up).value(source) if value.device.type == "cpu" else None
        element = look_up(source) if element is None else element
        if value_of(source).dtype is not value.dtype:
            element = emit(aten._to_copy.default, element, dtype=value.dtype)
        chosen = emit(aten.copy.default, x, emit(aten.where.self, is_chosen, element, x))  # laid out as x is
    node.replace_all_uses_with(chosen)
    gm.graph.erase_node(node)


def choose_strided(gm: GraphModule) -> bool:
    """Replaces the scatters of slices with steps that are left; whether there were any."""
    count = 0
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        nodes = list(module.graph.find_nodes(op="call_function", target=aten.slice_scatter.default))
        strided = [n for n in nodes if _is_strided(n) and _has_kernels(n) and _fits(n)]
        for node in strided:
            _choose(module, node)
        if strided:
            module.recompile()
        count += len(strided)
    return count > 0


def _choose_diagonal(gm: GraphModule, node: Node) -> None:
    place = diagonal_of(node, 2)
    x, source = node.args[:2]
    chosen = emit_traced(gm, node, lambda x, source: diagonal_scatter(x, source, *place), x, source)  # type: ignore[arg-type]
    node.replace_all_uses_with(chosen)
    gm.graph.erase_node(node)


def choose_diagonals(gm: GraphModule) -> None:
    """Replaces the scatters of diagonals that are left. Which diagonal has to be known; ATen computes others."""
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        nodes = list(module.graph.find_nodes(op="call_function", target=aten.diagonal_scatter.default))
        for node in nodes:
            is_known = all(isinstance(number, int) for number in diagonal_of(node, 2))
            if is_known and _has_kernels(node) and _fits(node):
                _choose_diagonal(module, node)
        if nodes:
            module.recompile()
