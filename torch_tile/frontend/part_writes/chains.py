"""Scatters of slices and diagonals in a graph, and chains of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.part_writes.paths import (
    LAYOUTS,
    Step,
    is_same_layout,
    is_same_view,
    is_view_of,
    operands_of,
    steps_from,
    value_of,
    view_along,
    viewed_as_itself,
)

aten = torch.ops.aten

SCATTERS: dict[Any, Any] = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.as_strided_scatter.default: aten.as_strided.default,
}
_PURE = (*SCATTERS, *SCATTERS.values(), *LAYOUTS, aten.copy.default)
_DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
_DIAGONAL = ((0, "offset", 0), (1, "dim1", 0), (2, "dim2", 1))
_SLICE = ((1, "start", None), (2, "end", None), (3, "step", 1))


@dataclasses.dataclass
class Write:
    """`base` with `source` in a part of it, which `steps` lead to."""

    node: Node
    """What has the value: the outermost of `scatters`, or a view of it that has the base's sizes again."""
    reader: Node
    """What takes the base as its operand: the first of the views of all of it, or the outermost scatter."""
    steps: list[Step]
    scatters: list[Node]
    """Scatters within each other, from the outermost on."""

    # Read from the graph, in which writes before this one may be replaced.
    @property
    def base(self) -> Node:
        return self.reader.args[0]  # type: ignore[return-value]

    @property
    def source(self) -> Node:
        return self.scatters[-1].args[1]  # type: ignore[return-value]

    def part(self) -> Any:
        """The part of the base, a view of its fake tensor."""
        return view_along(value_of(self.base), self.steps)

    def is_of_scatters(self) -> bool:
        """Whether the dimensions of `scatters` are those of the base."""
        return all(step.target in SCATTERS.values() for step in self.steps)


def argument(node: Node, position: int, name: str, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def hint(sizes: Any) -> int | None:
    """Elements of a tensor of these sizes, as they were when the graph was traced; adds no guard."""
    total = 1
    for size in sizes:
        known = size if isinstance(size, int) else size.node.hint if size.node.has_hint() else None
        if known is None:
            return None
        total *= int(known)
    return total


def diagonal_of(node: Node, operands: int) -> tuple[Any, Any, Any]:
    """Offset and dimensions of a diagonal, or of a scatter of one: numbers or nodes; `operands` are tensors."""
    rank = value_of(node.args[0]).dim()
    offset, *dims = (argument(node, operands + k, name, default) for k, name, default in _DIAGONAL)
    dim1, dim2 = (dim % rank if isinstance(dim, int) else dim for dim in dims)
    return offset, dim1, dim2


def _write_of(node: Any) -> Write | None:
    """A scatter, or scatters within each other, that replace a part of one tensor; views of all of the result that
    undo views of all of the tensor."""
    undone: list[Step] = []
    outermost = node
    while isinstance(node, Node) and node.target in LAYOUTS:
        undone.insert(0, Step.of(node))
        node = node.args[0]
        if len(node.users) != 1:
            return None
    if not isinstance(node, Node) or node.target not in SCATTERS:
        return None
    base, source = node.args[:2]
    if not isinstance(base, Node) or not isinstance(source, Node):
        return None
    dtype = value_of(base).dtype
    if dtype not in _DTYPES or value_of(source).dtype is not dtype:
        return None
    write = Write(node, node, [Step.of(node, 2, SCATTERS[node.target])], [node])
    if len(source.users) == 1 and (inner := _write_of(source)) and is_view_of(inner.base, base, write.steps):
        write = Write(node, node, [*write.steps, *inner.steps], [node, *inner.scatters])
    if not undone:
        return write
    reader = node
    for operand, way in operands_of(base):
        value = value_of(operand)
        if is_same_view(view_along(value, [*way, *undone]), value):
            return Write(outermost, reader, [*way, *write.steps], write.scatters)
        if operand.target not in LAYOUTS:
            return None
        reader = operand
    return None


def is_view(node: Node) -> bool:
    """Whether the result may lie in the memory of an operand."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return node.op == "call_function"
    if target is aten.copy_.default:
        return False
    return any(result.alias_info is not None for result in target._schema.returns) or target in (
        aten.reshape.default,
        aten.contiguous.default,
    )


def readers_of(node: Node) -> set[Node]:
    """Nodes that read the memory of a value, through views too."""
    found: set[Node] = set()
    pending = [node]
    while pending:
        for user in pending.pop().users:
            if user not in found:
                found.add(user)
                if is_view(user) and not isinstance(
                    user.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat)
                ):
                    pending.append(user)
    return found


def chains_of(gm: GraphModule) -> list[list[Write]]:
    """Writes of which each takes the result of the one before as its base."""
    writes: dict[Node, Write] = {}
    inner: set[Node] = set()
    for node in reversed(gm.graph.nodes):  # the outermost first
        if node.target in (*SCATTERS, *LAYOUTS) and node not in inner and (write := _write_of(node)):
            writes[node] = write
            inner.update(write.scatters, _views_between(write))
    following: dict[Node, list[Write]] = {}
    for write in writes.values():
        following.setdefault(write.base, []).append(write)
    chains = []
    for write in writes.values():
        if write.base in writes and len(following[write.base]) == 1:
            continue
        chain = [write]
        while len(following.get(chain[-1].node, [])) == 1:
            chain += following[chain[-1].node]
        chains.append(chain)
    return chains


def _views_between(write: Write) -> set[Node]:
    """Views of all of a scatter's result that the write is, or that the next scatter takes."""
    found: set[Node] = set()
    for node in (write.node, *(scatter.args[1] for scatter in write.scatters[:-1])):
        while isinstance(node, Node) and node.target in LAYOUTS:
            found.add(node)
            node = node.args[0]
    return found


class Order:
    """The order of a graph's nodes, which is that of its effects."""

    def __init__(self, gm: GraphModule) -> None:
        self.position = {node: place for place, node in enumerate(gm.graph.nodes)}
        self.copies: list[Node] = list(gm.graph.find_nodes(op="call_function", target=aten.copy_.default))

    def is_before(self, node: Node, other: Node) -> bool:
        """Whether a node comes before another; nodes that were not there at first are emitted in their order."""
        return self.position.get(node, -1) < self.position[other]

    def copy_back(self, chain: list[Write]) -> Node | None:
        """The `copy_` that writes what the chain makes of a graph input, or of a view of all of it, to that input."""
        copy: Node
        for copy in self.copies:
            given: Any = copy.args[0]
            undone = steps_from(chain[-1].node, copy.args[1])
            way = steps_from(given, chain[0].base)
            if undone is None or way is None or given.op != "placeholder":
                continue
            if any(step.target not in LAYOUTS for step in (*way, *undone)):
                continue
            if is_same_view(view_along(value_of(given), [*way, *undone]), value_of(given)):
                return copy
        return None

    def is_in_place(self, chain: list[Write], copy: Node | None) -> bool:
        """Whether nothing reads what a write replaces, once it is replaced. After the `copy_` to an input (see
        `copy_back`), its memory holds the last value anyway."""
        for write in chain:
            is_input = copy is not None and write is chain[0]
            end = self.position[copy] if copy is not None and is_input else len(self.position)
            base: Any = copy.args[0] if copy is not None and is_input else write.base
            for reader in readers_of(base):
                if reader is not write.node and self.position[write.node] < self.position[reader] < end:
                    return False
        return True


def erase_unused(gm: GraphModule) -> None:
    for node in reversed(gm.graph.nodes):
        if node.target in _PURE and not node.users:
            gm.graph.erase_node(node)


def _is_whole(node: Node, operands: int) -> bool:
    """Whether a slice, or a scatter of one, is of all elements; `operands` are tensors."""
    start, end, step = (argument(node, operands + k, name, default) for k, name, default in _SLICE)
    return start in (None, 0) and end in (None, 2**63 - 1) and step == 1


def _same_as(node: Node) -> Any:
    """The operand whose elements a slice, or a scatter, has."""
    base: Any = node.args[0]
    if node.target is aten.slice.Tensor:
        return base if _is_whole(node, 1) else None
    if node.target in LAYOUTS:
        return viewed_as_itself(node)
    source: Any = node.args[1]
    if node.target is not aten.slice_scatter.default or not _is_whole(node, 2):
        return None
    return source if source is base or _is_of_its_own(source) else None


def _is_of_its_own(node: Any) -> bool:
    """Whether the result is memory that nothing else reads, or a view of all of such memory."""
    while node.op == "call_function" and len(node.users) == 1:
        if node.target not in LAYOUTS:
            return not is_view(node)
        node = node.args[0]
    return False


def _written_to_itself(node: Node) -> Node | None:
    """The tensor that a write leaves as it is: the source is the part."""
    write = _write_of(node)
    if write is None:
        return None
    source: Any = write.source
    if source.target is aten.copy.default and is_view_of(source.args[0], write.base, write.steps):
        source = source.args[1]
    is_result = _write_of(write.base) is not None
    return write.base if is_result and is_view_of(source, write.base, write.steps) else None


def _erase_with_operands(gm: GraphModule, node: Node) -> None:
    """A node without users, and its operands that are left without users."""
    operands = node.all_input_nodes
    gm.graph.erase_node(node)
    for operand in operands:
        if operand.target in _PURE and not operand.users:
            _erase_with_operands(gm, operand)


def simplify(gm: GraphModule) -> None:
    """Slices of everything are what they are of; `x[a:b] += y` ends with a write of the part to itself. Results of the
    graph stay tensors of their own.
    """
    for node in list(gm.graph.nodes):
        if node.target not in (aten.slice.Tensor, *SCATTERS, *LAYOUTS):
            continue
        same = _written_to_itself(node)
        if any(reader.op == "output" for reader in readers_of(node)):
            if same is None or any(reader.op == "output" for reader in readers_of(same)):
                continue
        else:
            same = same or _same_as(node)
        if same is not None and is_same_layout(value_of(node), value_of(same)):
            node.replace_all_uses_with(same)
            _erase_with_operands(gm, node)
