"""Scatters of slices and diagonals in a graph, and chains of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

SCATTERS: dict[Any, Any] = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
}
_PURE = (*SCATTERS, *SCATTERS.values(), aten.copy.default)
_DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
_DIAGONAL = ((0, "offset", 0), (1, "dim1", 0), (2, "dim2", 1))
_SLICE = ((1, "start", None), (2, "end", None), (3, "step", 1))


@dataclasses.dataclass
class Write:
    """`base` with `source` in a part of it: `depth` scatters within each other, `node` the outermost."""

    node: Node
    depth: int

    @property
    def base(self) -> Node:
        return self.node.args[0]  # type: ignore[return-value]

    @property
    def scatters(self) -> list[Node]:
        """From the outermost on."""
        nodes = [self.node]
        for _ in range(1, self.depth):
            nodes.append(nodes[-1].args[1])  # type: ignore[arg-type]
        return nodes

    @property
    def source(self) -> Node:
        return self.scatters[-1].args[1]  # type: ignore[return-value]


def value_of(node: Any) -> Any:
    return node.meta["val"] if isinstance(node, Node) else node


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


def is_the_view(view: Any, node: Node, base: Any = None) -> bool:
    """Whether `view` is the part of the scatter's base, or of another tensor, that the scatter writes."""
    if not isinstance(view, Node) or view.target is not SCATTERS[node.target]:
        return False
    if view.args[0] is not (base or node.args[0]):
        return False
    if node.target is aten.diagonal_scatter.default:
        return diagonal_of(view, 1) == diagonal_of(node, 2)
    return view.args[1:] == node.args[2:] and view.kwargs == node.kwargs


def diagonal_of(node: Node, operands: int) -> tuple[Any, Any, Any]:
    """Offset and dimensions of a diagonal, or of a scatter of one: numbers or nodes; `operands` are tensors."""
    rank = value_of(node.args[0]).dim()
    offset, *dims = (argument(node, operands + k, name, default) for k, name, default in _DIAGONAL)
    dim1, dim2 = (dim % rank if isinstance(dim, int) else dim for dim in dims)
    return offset, dim1, dim2


def _write_of(node: Node) -> Write | None:
    """A scatter, or scatters within each other, that replace a part of one tensor."""
    base = value_of(node.args[0])
    if base.dtype not in _DTYPES:
        return None
    scatter, depth = node, 1
    while True:
        source = scatter.args[1]
        if not isinstance(source, Node) or value_of(source).dtype is not base.dtype:
            return None
        is_inner = source.target in SCATTERS and len(source.users) == 1
        if not is_inner or not is_the_view(source.args[0], scatter):
            return Write(node, depth)
        scatter = source
        depth += 1


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
        if node.target in SCATTERS and node not in inner and (write := _write_of(node)):
            writes[node] = write
            inner.update(write.scatters[1:])
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


class Order:
    """The order of a graph's nodes, which is that of its effects."""

    def __init__(self, gm: GraphModule) -> None:
        self.position = {node: place for place, node in enumerate(gm.graph.nodes)}
        self.written_back = {node.args[1]: node for node in gm.graph.nodes if node.target is aten.copy_.default}

    def copy_back(self, chain: list[Write]) -> Node | None:
        """The `copy_` that writes what the chain makes of a graph input to that input."""
        copy = self.written_back.get(chain[-1].node)
        return copy if copy is not None and copy.args[0] is chain[0].base and copy.args[0].op == "placeholder" else None

    def is_in_place(self, chain: list[Write]) -> bool:
        """Whether nothing reads what a write replaces, once it is replaced. After the `copy_` to an input, its memory
        holds the last value anyway."""
        copy = self.copy_back(chain)
        for write in chain:
            is_input = copy is not None and write.base is copy.args[0]
            end = self.position[copy] if copy is not None and is_input else len(self.position)
            for reader in readers_of(write.base):
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


def _same_layout(node: Node, other: Node) -> bool:
    a, b = node.meta["val"], other.meta["val"]
    return a.dtype is b.dtype and all(
        statically_known_true(x == y) for x, y in zip((*a.shape, *a.stride()), (*b.shape, *b.stride()), strict=True)
    )


def _same_as(node: Node) -> Node | None:
    """The operand whose elements a slice, or a scatter, has."""
    base: Any = node.args[0]
    if node.target is aten.slice.Tensor:
        return base if _is_whole(node, 1) else None
    source: Any = node.args[1]
    is_whole = node.target is aten.slice_scatter.default and _is_whole(node, 2)
    if is_whole and source is base:
        return base  # type: ignore[no-any-return]
    if is_whole and source.op == "call_function" and len(source.users) == 1 and not is_view(source):
        return source  # type: ignore[no-any-return]
    if source.target is aten.copy.default and is_the_view(source.args[0], node):
        source = source.args[1]
    return base if base.target in SCATTERS and is_the_view(source, node) else None


def simplify(gm: GraphModule) -> None:
    """Slices of everything are what they are of; `x[a:b] += y` ends with a write of the part to itself. What the graph
    returns stays: results are tensors of their own.
    """
    for node in list(gm.graph.nodes):
        if node.target in (aten.slice.Tensor, *SCATTERS) and all(reader.op != "output" for reader in readers_of(node)):
            same = _same_as(node)
            if same is not None and _same_layout(node, same):
                node.replace_all_uses_with(same)
                gm.graph.erase_node(node)
