"""A product and the pointwise operators of a graph around it that one kernel can compute.

The kernel's results have rows and columns: a row is an index into all dimensions of a product but the last, in
row-major order. Operators behind a product belong to it as long as each of their elements needs the element of the
product at the same row and column.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from torch_tile.frontend.tile_operators import OPERATORS, SAME

aten = torch.ops.aten

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_NUMBERS = (torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
CONVERSIONS = (torch.ops.prims.convert_element_type.default, aten._to_copy.default)
VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unsqueeze.default)
ALIASES = (aten.alias.default, aten.detach.default)
# Have operands that are read at other places, or none.
NOT_POINTWISE = (
    aten.index.Tensor,
    aten.select.int,
    aten.full.default,
    aten.full_like.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.new_full.default,
    aten.new_ones.default,
    aten.new_zeros.default,
    aten.scalar_tensor.default,
    aten.expand.default,
)
# Kernels with more sums than this have no registers for them.
MOST_PRODUCTS = 2


class Product:
    """A node that multiplies matrices, or batches of them. Operands are read from the node: the graph may change."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._has_added = node.target in (aten.addmm.default, aten.baddbmm.default)

    @property
    def left(self) -> Node:
        """[M, K] or [B, M, K]."""
        return self.node.args[int(self._has_added)]  # type: ignore[return-value]

    @property
    def right(self) -> Node:
        """[K, N] or [B, K, N]."""
        return self.node.args[int(self._has_added) + 1]  # type: ignore[return-value]

    @property
    def added(self) -> Node | None:
        """What is added to the product times `alpha`, times `beta`; None if nothing is."""
        return self.node.args[0] if self._has_added else None  # type: ignore[return-value]

    @property
    def alpha(self) -> Any:
        return self.node.kwargs.get("alpha", 1)

    @property
    def beta(self) -> Any:
        return self.node.kwargs.get("beta", 1)

    @property
    def value(self) -> torch.Tensor:
        found: torch.Tensor = self.node.meta["val"]
        return found

    @property
    def depth(self) -> int:
        return int(self.left.meta["val"].shape[-1])

    def operands(self) -> list[Node]:
        return [self.left, self.right] + ([self.added] if self.added is not None else [])


PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)


def is_product(node: Node) -> bool:
    """Whether kernels can compute it: static sizes, floats of one type."""
    if node.op != "call_function" or node.target not in PRODUCTS or not is_static(node):
        return False
    product = Product(node)
    if not all(isinstance(operand, Node) and is_static(operand) for operand in product.operands()):
        return False
    numbers = (product.alpha, product.beta)
    # A factor of 0 for what is added means that it is not read.
    if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        return False
    values = [operand.meta["val"] for operand in product.operands()] + [product.value]
    if product.beta == 0 or any(value.dtype is not values[0].dtype for value in values):
        return False
    if any(value.device != values[0].device for value in values) or values[0].device.type not in ("cpu", "cuda"):
        return False
    return values[0].dtype in FLOATS and product.value.numel() > 0 and product.depth > 0 and is_dense(product.value)


def is_static(node: Node) -> bool:
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and all(isinstance(n, int) for n in (*value.shape, *value.stride(), value.storage_offset()))
    )


def is_dense(value: torch.Tensor) -> bool:
    return value.is_contiguous()


@dataclasses.dataclass
class Region:
    """What one kernel computes.

    Attributes:
        products: one, or two with one left operand and equal sizes.
        inner: nodes in the order of the graph, the products among them.
        outputs: inner nodes that others use.
        still: nodes of the graph between which, and the last inner node, no memory is written.
    """

    products: list[Product]
    inner: list[Node]
    outputs: list[Node]
    still: set[Node]

    @property
    def last(self) -> Node:
        return self.inner[-1]

    @property
    def batch(self) -> int:
        value = self.products[0].value
        return math.prod(value.shape[:-2])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows of one matrix, columns, terms of a sum."""
        value = self.products[0].value
        return int(value.shape[-2]), int(value.shape[-1]), self.products[0].depth

    def inputs(self, inlined: Collection[Node] = ()) -> list[Node]:
        """Nodes whose values are read, each once, if these are computed of others."""
        computed = {*self.inner, *inlined}
        found: dict[Node, None] = {}
        for node in [*inlined, *self.inner]:
            found.update(dict.fromkeys(operand for operand in node.all_input_nodes if operand not in computed))
        return list(found)

    def stored(self) -> list[Node]:
        """Inner nodes that hold the outputs."""
        return list(dict.fromkeys(self.root_of(node) for node in self.outputs))

    def root_of(self, node: Node) -> Node:
        """What holds the value of a node of the region: others compute views, and wider types, of it."""
        while _is_derived(node):
            node = node.args[0]  # type: ignore[assignment]
        return node

    def path_to(self, node: Node) -> list[Node]:
        """The nodes that compute a node from its root, without the root."""
        found = []
        while _is_derived(node):
            found.append(node)
            node = node.args[0]  # type: ignore[assignment]
        return found[::-1]

    def copied(self, environment: dict[Node, Node]) -> Region:
        """The same in a copy of the graph."""
        products = [Product(environment[product.node]) for product in self.products]
        inner, outputs = ([environment[node] for node in nodes] for nodes in (self.inner, self.outputs))
        return Region(products, inner, outputs, {environment[node] for node in self.still if node in environment})


def _is_derived(node: Node) -> bool:
    if node.target in VIEWS or node.target in ALIASES:
        return True
    if node.target not in CONVERSIONS:
        return False
    source: Any = node.args[0]
    is_wider = node.meta["val"].dtype.itemsize > source.meta["val"].dtype.itemsize
    return bool(is_wider and source.meta["val"].dtype.is_floating_point)


def _is_aligned(shape: Any, of: torch.Size) -> bool:
    """Whether a tensor of this shape has the elements of another one in their rows and columns."""
    return len(shape) > 0 and shape[-1] == of[-1] and math.prod(shape) == math.prod(of)


def _is_broadcast(shape: Any, to: Any) -> bool:
    return len(shape) <= len(to) and all(
        size in (1, wide) for size, wide in zip(reversed(shape), reversed(to), strict=False)
    )


def _writes(node: Node) -> bool:
    """Whether memory may change where it stands."""
    if node.op != "call_function":
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    return len(node.args) == 3 and bool(node.args[2])  # a `GivenKernel` and what it writes


class _Growth:
    """One region while nodes join it."""

    def __init__(self, first: Node, position: dict[Node, int], taken: set[Node]) -> None:
        self.products = [Product(first)]
        self.shape = first.meta["val"].shape
        self.device = first.meta["val"].device
        self.inner = {first}
        self.order = [first]
        self.position, self.taken = position, taken

    def _accepts(self, node: Node) -> bool:
        if node in self.taken or node.op != "call_function" or not is_static(node):
            return False
        value = node.meta["val"]
        if value.device != self.device or not _is_aligned(value.shape, self.shape) or not is_dense(value):
            return False
        if node.target in VIEWS or node.target in SAME:
            source = node.args[0]
            # A view of what the kernel makes: reading and writing it is the same memory, so nobody else may.
            return node.target is not aten.expand.default and source in self.inner
        if node.target not in OPERATORS or node.target in NOT_POINTWISE:
            return False
        if value.dtype not in FLOATS and value.dtype is not torch.bool:
            return False
        if node.target in CONVERSIONS and value.dtype not in FLOATS:
            return False
        return all(self._is_read(operand, value) for operand in node.all_input_nodes)

    def _is_read(self, operand: Node, value: torch.Tensor) -> bool:
        held: Any = operand.meta.get("val")
        if operand in self.inner:
            return isinstance(held, torch.Tensor) and held.shape == value.shape
        return is_static(operand) and self._is_number(operand) and _is_broadcast(held.shape, value.shape)

    def _second_product(self, node: Node) -> Node | None:
        """A product that the node needs too, of the same left operand."""
        for operand in node.all_input_nodes:
            while operand.target in (*VIEWS, *SAME) and operand not in self.inner:
                operand = operand.args[0]  # type: ignore[assignment]
            if operand in self.inner or operand in self.taken or not is_product(operand):
                continue
            first, second = self.products[0], Product(operand)
            rights = [product.right.meta["val"] for product in (first, second)]
            if is_same(first.left, second.left) and rights[0].shape == rights[1].shape and _strides(rights):
                return operand
        return None

    def add(self, node: Node) -> bool:
        """Whether the node joined, maybe with a second product."""
        second = self._second_product(node) if len(self.products) < MOST_PRODUCTS else None
        joined = [second, *_path(second, node)] if second is not None else []
        before = (set(self.inner), list(self.order))
        self.inner.update(joined)
        self.order += joined
        if self._accepts(node) and self._is_in_order(node):
            self.inner.add(node)
            self.order.append(node)
            if second is not None:
                self.products.append(Product(second))
            return True
        self.inner, self.order = before
        return False

    def absorb(self, still: set[Node]) -> None:
        """Operators whose results nobody else reads join, so that these are not written."""
        open_nodes = list(self.order)
        while open_nodes:
            for operand in open_nodes.pop().all_input_nodes:
                if operand in self.inner or operand not in still or not self._is_absorbed(operand):
                    continue
                self.inner.add(operand)
                self.order.append(operand)
                open_nodes.append(operand)

    def _is_absorbed(self, node: Node) -> bool:
        if node in self.taken or not is_static(node) or not all(user in self.inner for user in node.users):
            return False
        # Operands of products are read at other rows and columns.
        if any(node in (product.left, product.right) for product in self.products):
            return False
        value = node.meta["val"]
        is_row = value.numel() == value.shape[-1] if value.dim() > 0 else True
        if node.op != "call_function" or node.target not in OPERATORS or node.target in NOT_POINTWISE:
            return False
        if node.target in SAME or value.dtype not in (*FLOATS, torch.bool) or value.device != self.device:
            return False
        if not is_row and not _is_aligned(value.shape, self.shape):
            return False
        operands = [operand.meta.get("val") for operand in node.all_input_nodes]
        return len(operands) > 0 and all(
            is_static(operand) and self._is_number(operand) and _is_broadcast(operand.meta["val"].shape, value.shape)
            for operand in node.all_input_nodes
        )

    def _is_number(self, node: Node) -> bool:
        held = node.meta["val"]
        return held.device == self.device and (held.dtype in FLOATS or held.dtype in _NUMBERS)

    def _is_in_order(self, node: Node) -> bool:
        """Whether all can move to the place of the node: nobody needs results before, and nothing that is read is
        written in between."""
        end = self.position[node]
        return all(
            self.position[user] > end
            for each in self.inner
            for user in each.users
            if user not in self.inner and user is not node
        )


def is_same(a: Any, b: Any) -> bool:
    """Whether two nodes are one, or equal views of one."""
    if a is b:
        return True
    if not isinstance(a, Node) or not isinstance(b, Node) or a.target is not b.target or a.target not in VIEWS:
        return False
    return a.args[1:] == b.args[1:] and a.kwargs == b.kwargs and is_same(a.args[0], b.args[0])


def _strides(values: list[torch.Tensor]) -> bool:
    """Whether both lie in memory along the same dimension."""
    return values[0].stride() == values[1].stride()


def _path(product: Node, to: Node) -> list[Node]:
    """Views of the product that a node reads."""
    found: list[Node] = []
    for operand in to.all_input_nodes:
        chain = []
        while operand is not product and operand.target in (*VIEWS, *SAME) and operand.args:
            chain.append(operand)
            operand = operand.args[0]  # type: ignore[assignment]
        if operand is product:
            found += [view for view in reversed(chain) if view not in found]
    return found


def find_regions(graph: Graph) -> Iterator[Region]:
    """Regions without common nodes, in the order of the graph. The graph may be changed between two of them."""
    position = {node: index for index, node in enumerate(graph.nodes)}
    nodes = list(graph.nodes)
    writes = [index for index, node in enumerate(nodes) if _writes(node)]
    taken: set[Node] = set()
    for first in nodes:
        if first in taken or not is_product(first):
            continue
        growth = _Growth(first, position, taken)
        barrier = next((index for index in writes if index > position[first]), len(nodes))
        for node in nodes[position[first] + 1 : barrier]:
            if any(operand in growth.inner for operand in node.all_input_nodes):
                growth.add(node)
        before = [index for index in writes if index < position[first]]
        still = set(nodes[before[-1] + 1 if before else 0 : max(position[node] for node in growth.order)])
        growth.absorb(still)
        inner = sorted(growth.order, key=position.__getitem__)
        members = set(inner)
        taken |= members
        outputs = [node for node in inner if any(user not in members for user in node.users)]
        yield Region(growth.products, inner, outputs, still)
