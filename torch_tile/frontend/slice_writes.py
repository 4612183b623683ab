"""Writes of a part of a tensor, as one write at indices that the compiler may do in place.

`cache[:, p] = x` is a `slice_scatter` in a graph without mutation: a whole new tensor. As a choice between two operands
it joins the kernels around it, but computes every element of the result. As `index_put` it is a scatter, of which the
compiler removes the copy (`ReuseBuffers`): where the result goes back to an input of the graph, and between the writes
of a chain.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend.emit import emit_before

aten = torch.ops.aten

_SCATTERS: dict[Any, Any] = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
}
_PURE = (*_SCATTERS, *_SCATTERS.values(), aten.copy.default)
_DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
_SLICE = ((1, "start", None), (2, "end", None), (3, "step", 1))
# What a kernel of its own costs, in elements, and what one element of a write costs against one of a choice: writes
# keep their order, so they have fewer programs, and no lanes along the innermost dimension.
_ELEMENTS_PER_WRITE, _WRITTEN_ELEMENT, _WRITTEN_LANE = 4096, 2, 8
# Choices that one body takes in before it is worth a tensor in memory between writes.
_FEW_CHOICES = 4


@dataclasses.dataclass
class _Range:
    """Indices along one dimension: `length` from `start` on; a selected dimension is not one of the source."""

    start: int | Node = 0
    length: Any = None
    is_selected: bool = False


@dataclasses.dataclass
class _Write:
    """`base` with `source` at `ranges`, by dimension of `base`; `depth` scatters within each other."""

    node: Node
    ranges: dict[int, _Range]
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


def _value(node: Any) -> Any:
    return node.meta["val"] if isinstance(node, Node) else node


def _argument(node: Node, position: int, name: str, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _hint(sizes: Any) -> int | None:
    """Elements of a tensor of these sizes, as they were when the graph was traced; adds no guard."""
    total = 1
    for size in sizes:
        known = size if isinstance(size, int) else size.node.hint if size.node.has_hint() else None
        if known is None:
            return None
        total *= int(known)
    return total


def _start(start: Any, size: Any) -> int | Node | None:
    """The first index, if it is known from which end it counts."""
    if start is None:
        return 0
    if isinstance(start, Node):
        return start if statically_known_true(_value(start) >= 0) else None
    if start < 0:
        return max(0, start + size) if isinstance(size, int) else None
    return min(int(start), size) if isinstance(size, int) else int(start)


def _range_of(node: Node) -> tuple[int, _Range] | None:
    """Dimension and range of one scatter."""
    base, source = _value(node.args[0]), _value(node.args[1])
    dim = int(_argument(node, 2, "dim", 0)) % base.dim()
    if node.target is aten.select_scatter.default:
        index = _start(node.args[3], base.shape[dim])
        return None if index is None else (dim, _Range(index, 1, is_selected=True))
    if _argument(node, 5, "step", 1) != 1:
        return None
    start = _start(_argument(node, 3, "start", None), base.shape[dim])
    return None if start is None else (dim, _Range(start, source.shape[dim]))


def _is_the_view(view: Any, node: Node) -> bool:
    """Whether `view` is the part of the scatter's base that the scatter writes."""
    return (
        isinstance(view, Node)
        and view.target is _SCATTERS[node.target]
        and view.args[0] is node.args[0]
        and view.args[1:] == node.args[2:]
        and view.kwargs == node.kwargs
    )


def _write_of(node: Node) -> _Write | None:
    """A scatter, or scatters within each other, that replace a part of one tensor."""
    base = _value(node.args[0])
    if base.device.type != "cpu" or base.dtype not in _DTYPES:
        return None
    ranges: dict[int, _Range] = {}
    dims, scatter, depth = list(range(base.dim())), node, 0
    while True:
        found = _range_of(scatter)
        if found is None:
            return None
        dim, part = found
        outside = ranges.get(dims[dim])
        if outside and not (outside.start == 0 and statically_known_true(outside.length == base.shape[dims[dim]])):
            return None  # a slice of a slice
        ranges[dims[dim]] = part
        if part.is_selected:
            del dims[dim]
        depth += 1
        source = scatter.args[1]
        if not isinstance(source, Node) or _value(source).dtype is not base.dtype:
            return None
        is_inner = source.target in _SCATTERS and len(source.users) == 1
        if not is_inner or not _is_the_view(source.args[0], scatter):
            return _Write(node, ranges, depth)
        scatter = source


def _is_view(node: Node) -> bool:
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


def _readers(node: Node) -> set[Node]:
    """Nodes that read the memory of a value, through views too."""
    found: set[Node] = set()
    pending = [node]
    while pending:
        for user in pending.pop().users:
            if user not in found:
                found.add(user)
                if _is_view(user) and not isinstance(
                    user.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat)
                ):
                    pending.append(user)
    return found


def _chains(gm: GraphModule) -> list[list[_Write]]:
    """Writes of which each takes the result of the one before as its base."""
    writes: dict[Node, _Write] = {}
    inner: set[Node] = set()
    for node in reversed(gm.graph.nodes):  # the outermost first
        if node.target in _SCATTERS and node not in inner and (write := _write_of(node)):
            writes[node] = write
            inner.update(write.scatters[1:])
    following: dict[Node, list[_Write]] = {}
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


class _Choice:
    """Whether a chain is worth writes of their own, and whether they can be in place."""

    def __init__(self, gm: GraphModule) -> None:
        self.order = {node: place for place, node in enumerate(gm.graph.nodes)}
        self.written_back = {node.args[1]: node.args[0] for node in gm.graph.nodes if node.target is aten.copy_.default}

    def is_worth_it(self, chain: list[_Write]) -> bool:
        base, count = chain[0].base, len(chain)
        whole = _hint(_value(base).shape)
        is_input = base.op == "placeholder" and self.written_back.get(chain[-1].node) is base
        if whole is None or not (is_input or count > _FEW_CHOICES):
            return False
        cost = count * _ELEMENTS_PER_WRITE + (0 if is_input else whole)
        for write in chain:
            part = _hint(_value(write.source).shape)
            if part is None:
                return False
            cost += part * (_WRITTEN_LANE if max(write.ranges) == _value(base).dim() - 1 else _WRITTEN_ELEMENT)
        if is_input and any(reader.op == "output" for reader in _readers(chain[-1].node)):
            return False  # the result is a tensor of its own
        return 2 * cost <= whole * (count + 1) and self._is_in_place(chain)

    def _is_in_place(self, chain: list[_Write]) -> bool:
        """Whether nothing reads what a write replaces, once it is replaced."""
        for write in chain:
            for reader in _readers(write.base):
                if reader is write.node or (reader.target is aten.copy_.default and reader.args[0] is chain[0].base):
                    continue
                if self.order[reader] > self.order[write.node]:
                    return False
        return True


def _replace(gm: GraphModule, write: _Write) -> bool:
    emit = functools.partial(emit_before, gm, write.node)
    source, base = write.source, _value(write.base)
    first, last = min(write.ranges), max(write.ranges)
    for dim in sorted(dim for dim, part in write.ranges.items() if part.is_selected):
        source = emit(aten.unsqueeze.default, source, dim)
    indices: list[Node | None] = [None] * first
    for dim in range(first, last + 1):
        length: Any = _value(source).shape[dim]
        if not isinstance(length, int):
            length = emit(aten.sym_size.int, source, dim)
        index = emit(aten.arange.default, length, dtype=torch.int64, device=base.device)
        start = write.ranges.get(dim, _Range()).start
        if start != 0:
            index = emit(aten.add.Tensor, index, start)
        for _ in range(dim, last):
            index = emit(aten.unsqueeze.default, index, -1)
        indices.append(index)
    result = emit(aten.index_put.default, write.base, indices, source)
    strides = zip(result.meta["val"].stride(), write.node.meta["val"].stride(), strict=True)
    if not all(statically_known_true(found == expected) for found, expected in strides):
        gm.graph.erase_node(result)
        return False
    write.node.replace_all_uses_with(result)
    return True


def _erase_unused(gm: GraphModule) -> None:
    for node in reversed(gm.graph.nodes):
        if node.target in _PURE and not node.users:
            gm.graph.erase_node(node)


def _is_whole(node: Node, operands: int) -> bool:
    """Whether a slice, or a scatter of one, is of all elements; `operands` are tensors."""
    start, end, step = (_argument(node, operands + k, name, default) for k, name, default in _SLICE)
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
    if is_whole and source.op == "call_function" and len(source.users) == 1 and not _is_view(source):
        return source  # type: ignore[no-any-return]
    if source.target is aten.copy.default and _is_the_view(source.args[0], node):
        source = source.args[1]
    return base if base.target in _SCATTERS and _is_the_view(source, node) else None


def _simplify(gm: GraphModule) -> None:
    """Slices of everything are what they are of; `x[a:b] += y` ends with a write of the part to itself. What the graph
    returns stays: results are tensors of their own.
    """
    for node in list(gm.graph.nodes):
        if node.target in (aten.slice.Tensor, *_SCATTERS) and all(reader.op != "output" for reader in _readers(node)):
            same = _same_as(node)
            if same is not None and _same_layout(node, same):
                node.replace_all_uses_with(same)
                gm.graph.erase_node(node)


def write_slices_in_place(gm: GraphModule, settings: Settings) -> int:
    """Rewrites scatters of slices on the CPU that are cheaper as writes of their own; returns how many."""
    if not limits.is_on(settings, "slice_writes") or not any(node.target in _SCATTERS for node in gm.graph.nodes):
        return 0
    _simplify(gm)
    _erase_unused(gm)
    choice = _Choice(gm)
    chosen = [chain for chain in _chains(gm) if choice.is_worth_it(chain)]
    count = sum(_replace(gm, write) for chain in chosen for write in chain)
    _erase_unused(gm)
    gm.recompile()
    return count
