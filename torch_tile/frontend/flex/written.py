"""Attention that a graph computes operator by operator: a product of queries and keys, a function of each score,
softmax along the keys, a product with values.

The softmax of a product that only another product reads is a reduction that can be computed block by block (online
softmax), whatever is done to the scores in between, as long as it is done to each by itself. So the kernel of
`flex_attention` takes the place of all of it, and scores are never in memory.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.errors import TileError
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.flex.blocks import MOST_HALVINGS
from torch_tile.frontend.flex.functions import ElementFunction
from torch_tile.frontend.flex.launches import Launcher
from torch_tile.frontend.launches.embed_kernels import GivenKernel, own_copy
from torch_tile.frontend.launches.launch import NotNative
from torch_tile.frontend.products.region import CONVERSIONS, NOT_POINTWISE, VIEWS, is_static
from torch_tile.frontend.tile_operators import OPERATORS, SAME, UnsupportedFunctionError

aten = torch.ops.aten
log = logging.getLogger(__name__)

# Devices where the kernel is faster than a library's products with a softmax between them.
DEVICES = {"cuda"}
# Types of operands that matrix instructions take.
DTYPES = {torch.float16, torch.bfloat16}
_COPIES = (aten.clone.default, aten.alias.default, aten.detach.default)
# A block of the mask that holds all keys.
_EVERYTHING = 1 << 30


class WrittenCall:
    """What `flex/launches.py` asks of a call of `flex_attention`; see `FlexCall`.

    Attributes:
        node: the second product.
        softmax: the node between.
        chain: nodes that compute the softmax's operand from the first product, in the order of the graph.
        leading: dimensions of the scores but rows and keys.
    """

    is_backward = False
    zeroes_empty_rows = False
    partial = full = None
    mask = joint = None
    block_rows = block_keys = _EVERYTHING

    def __init__(self, gm: GraphModule, softmax: Node) -> None:
        self.gm, self.softmax = gm, softmax
        self.options: dict[str, Any] = {}
        self.mask_captured: list[Any] = []
        self.leading = [int(size) for size in softmax.meta["val"].shape[:-2]]
        self.node = self._second_product()
        self.first, self.chain = self._first_product()
        self.captured: dict[Node, Node] = {}
        self.scale, rest = self._scale()
        function = self._function(rest)
        self.score = None if function.is_identity() else function
        self.score_captured = list(self.captured)
        batch, heads = self._batch_and_heads()
        left, right = self.first.args
        self.query = self._with_heads(left, batch, heads)
        keys = self._with_heads(right, batch, heads)
        self.key = emit_before(gm, self.node, aten.permute.default, keys, [0, 1, 3, 2])
        self.value = self._with_heads(self.node.args[1], batch, heads)

    # --- the parts ---------------------------------------------------------------------------------------------------

    def _second_product(self) -> Node:
        """The product that alone reads the softmax."""
        node = self.softmax
        while True:
            if len(node.users) != 1:
                raise NotNative("a softmax that others read, too")
            (user,) = node.users
            if user.target is aten.bmm.default and user.args[0] is node and user.args[1] is not node:
                return user
            is_same = user.target in (*VIEWS, *CONVERSIONS, *_COPIES) or _is_same_shape(user)
            if not is_same or user.args[0] is not node or user.meta["val"].shape[-2:] != node.meta["val"].shape[-2:]:
                raise NotNative(f"a softmax that no product reads, but {user.target}")
            node = user

    def _first_product(self) -> tuple[Node, list[Node]]:
        """The product that the softmax's operand is computed from, and what computes it."""
        found: set[Node] = set()
        products: set[Node] = set()
        open_nodes: list[Any] = [self.softmax.args[0]]
        size = self.softmax.meta["val"].numel()
        while open_nodes:
            node = open_nodes.pop()
            if node in found or not isinstance(node, Node):
                continue
            if node.target is aten.bmm.default and node.meta["val"].numel() == size:
                products.add(node)
                continue
            if self._is_of_scores(node):
                found.add(node)
                open_nodes += node.all_input_nodes
        if len(products) != 1:
            raise NotNative(f"{len(products)} products of queries and keys, expected 1")
        (product,) = products
        order = [node for node in self.gm.graph.nodes if node in found]
        depends = {product}
        for node in order:
            if any(operand in depends for operand in node.all_input_nodes):
                depends.add(node)
        chain = [node for node in order if node in depends]
        inner = {*chain, product}
        if any(user not in inner and user is not self.softmax for node in inner for user in node.users):
            raise NotNative("scores that others read, too")
        return product, chain

    def _is_of_scores(self, node: Node) -> bool:
        """Whether each element is computed from the scores at the same place."""
        if node.op != "call_function" or not is_static(node):
            return False
        value, wanted = node.meta["val"], self.softmax.meta["val"]
        if value.dim() < 3 or value.numel() != wanted.numel() or value.shape[-2:] != wanted.shape[-2:]:
            return False
        if node.target in VIEWS or _is_same_shape(node):
            return True
        return node.target in OPERATORS and node.target not in NOT_POINTWISE

    def _scale(self) -> tuple[float, list[Node]]:
        """What scores are multiplied by first, and the rest of the chain."""
        scale, rest, source = 1.0, list(self.chain), self.first
        while rest:
            node = rest[0]
            if node.args[0] is not source or len(source.users) != 1:
                break
            factor = node.args[1] if len(node.args) == 2 else None
            is_number = isinstance(factor, (int, float)) and not isinstance(factor, bool)
            if node.target in (aten.mul.Tensor, aten.mul.Scalar) and is_number:
                scale *= float(factor)  # type: ignore[arg-type]
            elif node.target in (aten.div.Tensor, aten.div.Scalar) and is_number and factor != 0:
                scale /= float(factor)  # type: ignore[arg-type]
            elif node.target not in VIEWS and not _is_same_shape(node):
                break
            source = rest.pop(0)
        self.scaled = source
        return (scale, rest) if math.isfinite(scale) else (1.0, list(self.chain))

    def _function(self, chain: list[Node]) -> ElementFunction:
        """The chain for one score, at (batch, head, row, key)."""
        graph = Graph()
        score, b, h, row, key = (graph.placeholder(name) for name in ("score", "b", "h", "row", "key"))
        environment: dict[Node, Any] = {self.scaled if chain != self.chain else self.first: score}
        batch, heads = self._batch_and_heads()

        def element(operand: Node, of: Node) -> Any:
            """An operand that does not depend on scores, at the place of the element."""
            shape = [int(size) for size in of.meta["val"].shape]
            held = operand.meta["val"]
            if not is_static(operand) or held.device != self.softmax.meta["val"].device or held.dim() > len(shape):
                raise NotNative("an operand of scores with other dimensions, or on another device")
            if operand not in self.captured:
                self.captured[operand] = graph.placeholder(f"captured_{len(self.captured)}")
            at = places(shape)[len(shape) - held.dim() :]
            indices = [0 if size == 1 else index for size, index in zip(held.shape, at, strict=True)]
            found = self.captured[operand]
            return graph.call_function(aten.index.Tensor, (found, indices)) if indices else found

        def places(shape: list[int]) -> list[Any]:
            """The index of the element in each dimension."""
            leading = shape[:-2]
            if leading == [batch, heads]:
                return [b, h, row, key]
            if math.prod(leading) != batch * heads:
                raise NotNative("scores with other dimensions")
            number = graph.call_function(aten.add.Tensor, (graph.call_function(aten.mul.Tensor, (b, heads)), h))
            found: list[Any] = []
            for size in reversed(leading):
                found.insert(0, graph.call_function(aten.remainder.Scalar, (number, size)))
                number = graph.call_function(aten.floor_divide.default, (number, size))
            return [*found, row, key]

        for node in chain:

            def value_of(operand: Node, of: Node = node) -> Any:
                return environment[operand] if operand in environment else element(operand, of)

            arguments = torch.fx.map_arg((node.args, dict(node.kwargs)), value_of)
            if node.target in VIEWS or _is_same_shape(node) or node.target in SAME:
                environment[node] = environment[node.args[0]]  # type: ignore[index]
            elif node.target in CONVERSIONS and node.meta["val"].dtype.is_floating_point:
                environment[node] = arguments[0][0]  # scores are float32 until the end
            else:
                environment[node] = graph.call_function(node.target, *arguments)  # type: ignore[arg-type]
        operand = self.softmax.args[0]
        graph.output(environment[operand])  # type: ignore[index]
        self._placeholders_first(graph)
        return ElementFunction(GraphModule({}, graph), 5)

    @staticmethod
    def _placeholders_first(graph: Graph) -> None:
        last: Node | None = None
        for node in list(graph.find_nodes(op="placeholder")):
            if last is not None:
                last.append(node)
            last = node

    def _batch_and_heads(self) -> tuple[int, int]:
        if len(self.leading) == 1:
            return self.leading[0], 1
        return math.prod(self.leading[:-1]), self.leading[-1]

    def _with_heads(self, operand: Any, batch: int, heads: int) -> Node:
        """An operand of a product as (batch, heads, length, width), what was copied to be multiplied as it was."""
        node: Node = operand
        rows, columns = (int(size) for size in node.meta["val"].shape[-2:])
        while node.target in (aten.clone.default, *VIEWS) or _is_same_shape(node):
            source: Any = node.args[0]
            if not isinstance(source, Node) or not is_static(source):
                break
            if source.meta["val"].shape[-2:] != (rows, columns) or source.meta["val"].dtype != node.meta["val"].dtype:
                break
            node = source
            if list(node.meta["val"].shape) == [batch, heads, rows, columns]:
                return node
        return emit_before(self.gm, self.node, aten.view.default, operand, [batch, heads, rows, columns])

    # --- as `FlexCall` has it ----------------------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.query.meta["val"].dtype
        return dtype

    def sizes(self) -> tuple[int, int, int, int]:
        batch, heads, length, _ = self.query.meta["val"].shape
        return batch, heads, length, int(self.key.meta["val"].shape[2])

    def results(self) -> dict[int, torch.Tensor]:
        """The result's fake tensor, with heads next to each other in memory where it is copied to that order."""
        batch, heads, length, _ = self.sizes()
        value = self.node.meta["val"]
        if self.turned_copies():
            return {0: value.new_empty((batch, length, heads, value.shape[-1])).transpose(1, 2)}
        return {0: value.new_empty((batch, heads, length, value.shape[-1]))}

    def turned_copies(self) -> list[Node]:
        """Copies of the result with heads next to each other."""
        batch, heads = self._batch_and_heads()
        shape = [batch, heads, *self.node.meta["val"].shape[-2:]]
        views = [view for view in self.node.users if view.target in VIEWS and list(view.meta["val"].shape) == shape]
        turned = [user for view in views for user in view.users if _exchanges_middle(user)]
        copies = [user for each in turned for user in each.users if user.target is aten.clone.default]
        return [copy for copy in copies if copy.meta["val"].is_contiguous()]


def _exchanges_middle(node: Node) -> bool:
    """Whether it exchanges the second and third of four dimensions."""
    if node.target is aten.transpose.int:
        return {int(dim) % 4 for dim in node.args[1:3]} == {1, 2}  # type: ignore[arg-type]
    return node.target is aten.permute.default and [int(dim) % 4 for dim in node.args[1]] == [0, 2, 1, 3]  # type: ignore[union-attr,arg-type]


def _is_same_shape(node: Node) -> bool:
    """Whether it is an expansion that changes nothing."""
    if node.target is not aten.expand.default:
        return False
    source: Any = node.args[0]
    return bool(node.meta["val"].shape == source.meta["val"].shape)


def launch_written_attention(
    gm: GraphModule, kind: str, settings: Settings, smaller: int = 0
) -> tuple[GraphModule, int]:
    """The graph with kernels for attention that it computes operator by operator, and how many there are.

    Args:
        kind: of the graph. What a forward saves of the scores, its backward reads.
        smaller: how often to halve the blocks of kernels, see `blocks.choose`.
    """
    if kind != "inference" or smaller > MOST_HALVINGS or not limits.is_on(settings, "written_attention"):
        return gm, 0
    if settings["matmul_library"] == "aten" or settings.compiler_options().get("emulate_precision_casts"):
        return gm, 0  # eager mode's roundings are asked for
    if not any(_is_candidate(node) for node in gm.graph.nodes):
        return gm, 0
    gm = own_copy(gm)
    kernels: dict[str, GivenKernel] = {}
    count = 0
    for softmax in [node for node in gm.graph.nodes if _is_candidate(node)]:
        before = set(gm.graph.nodes)
        try:
            _launch(gm, softmax, kernels, smaller)
            count += 1
        except (NotNative, UnsupportedFunctionError, TileError) as reason:
            log.info("%s stays a kernel between products: %s", softmax.name, reason)
            for made in reversed([each for each in gm.graph.nodes if each not in before]):
                gm.graph.erase_node(made)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm, count


def _is_candidate(node: Node) -> bool:
    if node.target is not aten._softmax.default or not is_static(node):
        return False
    value = node.meta["val"]
    return value.device.type in DEVICES and value.dim() >= 3 and node.args[1] in (-1, value.dim() - 1)


def _launch(gm: GraphModule, softmax: Node, kernels: dict[str, GivenKernel], smaller: int) -> None:
    call = WrittenCall(gm, softmax)
    values = [each.meta["val"] for each in (call.query, call.key, call.value)]
    if any(value.numel() == 0 for value in values):
        raise NotNative("operands without elements")
    if any(value.dtype is not values[0].dtype or value.dtype not in DTYPES for value in values):
        raise NotNative(f"operands of {values[0].dtype}")
    (made,) = Launcher(gm, call, kernels, smaller).forward().values()
    node, found = call.node, made
    for copy in call.turned_copies():
        copy.replace_all_uses_with(emit_before(gm, node, aten.permute.default, made, [0, 2, 1, 3]))
        gm.graph.erase_node(copy)
    if not made.meta["val"].is_contiguous():
        found = emit_before(gm, node, aten.clone.default, made, memory_format=torch.contiguous_format)
    found = emit_before(gm, node, aten.view.default, found, list(node.meta["val"].shape))
    node.replace_all_uses_with(found)
    gm.graph.erase_node(node)
