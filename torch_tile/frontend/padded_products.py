"""Products on GPU whose rows begin between multiples of 16 bytes, padded with zeros where that pays.

The library's fast kernels load 16 bytes at a time, so rows of every matrix have to begin at multiples of them. For
others it has kernels that load elements one by one or in pairs, at a fifth to a third of the speed. Aligned strides
alone do not help: the library asks for aligned sizes, so zeros are multiplied and the result is cut. The copies are
loops like others: they fuse with what computes the operands and with what reads the result.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from torch_tile import targets
from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.launches.embed_kernels import own_copy
from torch_tile.frontend.launches.options import matmul_precision
from torch_tile.frontend.sizes import has_strides_of, hint_of

aten = torch.ops.aten

# Where the operands of each operator begin.
_PRODUCTS = {aten.mm.default: 0, aten.addmm.default: 1, aten.bmm.default: 0, aten.baddbmm.default: 1}
_ALIGNED_BYTES = 16


class Rates(NamedTuple):
    """What a device can do: multiprocessors, floating-point operations of matrix instructions in float16 and bytes of
    memory in a nanosecond (data sheets)."""

    multiprocessors: int
    operations: float
    bytes: float


# By compute capability. A device in between is taken for the next lower one.
_RATES = {
    (8, 0): Rates(108, 312e3, 2039.0),
    (8, 6): Rates(72, 125e3, 600.0),
    (8, 9): Rates(142, 362e3, 864.0),
    (9, 0): Rates(132, 989e3, 3350.0),
}
# What a multiprocessor computes of a product at a time: rows, columns, and the depth from which on several share it.
_BLOCK = (128, 128, 1024)
# Shares of these that the library reaches, by the bytes that all rows are aligned to (H100, products of 1024 to 16384
# rows; and of 16 rows for the memory's).
_OPERATIONS = {16: 0.65, 8: 0.22, 4: 0.22, 2: 0.12}
_OPERATIONS_TF32 = {16: 0.45, 8: 0.21, 4: 0.21}
_BYTES = {16: 0.52, 8: 0.3, 4: 0.3, 2: 0.22}
# Of a copy: the share of the memory's rate, and the launch of a kernel in nanoseconds.
_COPY_BYTES, _LAUNCH_NS = 0.6, 3000.0
# A gain has to exceed what the predictions miss times by.
_WORTH = 0.85


@dataclasses.dataclass
class _Matrix:
    """An operand, [rows, columns] behind the batch.

    Attributes:
        is_transposed: consecutive elements of a column are consecutive in memory.
        bytes: that its rows in memory begin at multiples of: 16 or less.
    """

    node: Node
    is_transposed: bool
    bytes: int

    @property
    def value(self) -> torch.Tensor:
        value: torch.Tensor = self.node.meta["val"]
        return value


def _multiple(of: Any, item: int) -> int:
    """The bytes, 16 at most, that this many elements are a multiple of."""
    count = int(hint_of(of)) * item
    return min(_ALIGNED_BYTES, count & -count) if count else _ALIGNED_BYTES


def _matrix_of(node: Any) -> _Matrix | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    strides = [int(hint_of(stride)) for stride in value.stride()]
    if strides[-1] == 1:
        is_transposed = False
    elif strides[-2] == 1:
        is_transposed = True
    else:
        return None  # the library copies it
    length = value.shape[-2 if is_transposed else -1]
    outer = [strides[i] for i in range(value.dim()) if i != value.dim() - (2 if is_transposed else 1)]
    item = value.dtype.itemsize
    found = min(_multiple(each, item) for each in (length, value.storage_offset(), *outer))
    return _Matrix(node, is_transposed, found)


def _padding(size: Any, step: int) -> int:
    """Zeros behind a size; none behind one that is known at run time alone."""
    return -size % step if isinstance(size, int) else 0


class _Product:
    """A product, and how far to pad it: rows, columns and depth, each by 0 to 7 elements."""

    def __init__(self, node: Node, left: _Matrix, right: _Matrix) -> None:
        self.node, self.left, self.right = node, left, right
        self.value: torch.Tensor = node.meta["val"]
        step = _ALIGNED_BYTES // self.value.dtype.itemsize
        rows, depth = left.value.shape[-2:]
        columns = right.value.shape[-1]
        self.rows = _padding(rows, step) if left.is_transposed else 0
        self.columns = _padding(columns, step)
        self.depth = 0 if left.is_transposed and not right.is_transposed else _padding(depth, step)
        self.sizes = [int(hint_of(size)) for size in (rows, columns, depth)]
        self.batch = int(hint_of(self.value.shape[0])) if self.value.dim() == 3 else 1
        self.bytes = min(left.bytes, right.bytes, _multiple(columns, self.value.dtype.itemsize))

    def is_aligned_then(self) -> bool:
        step = _ALIGNED_BYTES // self.value.dtype.itemsize
        rows, columns, depth = self.sizes
        needs_rows, needs_depth = self.left.is_transposed, not self.left.is_transposed or self.right.is_transposed
        return not (
            (columns + self.columns) % step
            or (needs_rows and (rows + self.rows) % step)
            or (needs_depth and (depth + self.depth) % step)
        )

    def changes_left(self) -> bool:
        return bool(self.rows or self.depth or self.left.bytes < _ALIGNED_BYTES)

    def changes_right(self) -> bool:
        return bool(self.columns or self.depth or self.right.bytes < _ALIGNED_BYTES)

    def time(self, aligned_to: int, rates: Rates) -> float:
        """Predicted, in nanoseconds."""
        rows, columns, depth = self.sizes
        item = self.value.dtype.itemsize
        is_single = self.value.dtype is torch.float32
        share = (_OPERATIONS_TF32 if is_single else _OPERATIONS)[aligned_to]
        share *= self._share_of_multiprocessors(rates) / (2 if is_single else 1)
        operations = 2 * self.batch * rows * columns * depth / (share * rates.operations)
        moved = self.batch * item * (rows * depth + depth * columns + rows * columns)
        return max(operations, moved / (_BYTES[aligned_to] * rates.bytes))

    def _share_of_multiprocessors(self, rates: Rates) -> float:
        """How many of them work, on average: blocks are dealt out in rounds."""
        rows, columns, depth = (-(-size // block) for size, block in zip(self.sizes, _BLOCK, strict=True))
        blocks = self.batch * rows * columns * depth
        rounds = -(-blocks // rates.multiprocessors)
        return blocks / (rounds * rates.multiprocessors)

    def copies(self, rates: Rates) -> float:
        """Predicted time of the copies that no other kernel makes, in nanoseconds."""
        total = 0.0
        changed = [(self.changes_left(), self.left.node), (self.changes_right(), self.right.node)]
        for node in (node for is_changed, node in changed if is_changed and not _is_computed_for(node)):
            total += _copy_time(node, rates)
        if (self.rows or self.columns) and not _is_read_by_kernels(self.node):
            total += _copy_time(self.node, rates)
        return total


def _copy_time(node: Node, rates: Rates) -> float:
    value = node.meta["val"]
    size: int = math.prod(int(hint_of(each)) for each in value.shape) * value.dtype.itemsize
    return _LAUNCH_NS + 2 * size / (_COPY_BYTES * rates.bytes)


_VIEWS = (aten.permute.default, aten.t.default, aten.transpose.int, aten.view.default, aten._unsafe_view.default)


def _is_pointwise(node: Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or target is torch.ops.prims.convert_element_type.default


def _is_computed_for(node: Node) -> bool:
    """Whether one kernel computes an operand and pads it: it is pointwise, and read by the product alone."""
    while node.target in _VIEWS and len(node.users) == 1:
        (node,) = node.all_input_nodes
    return _is_pointwise(node) and len(node.users) == 1


def _is_read_by_kernels(node: Node) -> bool:
    """Whether pointwise operators alone read it, so that no copy is written."""
    return all(_is_read_by_kernels(user) if user.target in _VIEWS else _is_pointwise(user) for user in node.users)


def _rates_of(device: torch.device) -> Rates | None:
    capability = targets.capability_of(device)
    known = [each for each in _RATES if capability is not None and each <= capability]
    return _RATES[max(known)] if known else None


def _has_known_sizes(node: Any) -> bool:
    """Whether sizes and strides are numbers, or were when the graph was traced: none comes of data."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor):
        return False
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return not free_unbacked_symbols(numbers) and all(hint_of(size) for size in value.shape)


def _product_of(node: Node) -> _Product | None:
    if node.op != "call_function" or node.target not in _PRODUCTS or not all(map(_has_known_sizes, (node, *node.args))):
        return None
    value = node.meta["val"]
    if value.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return None
    if value.dtype is torch.float32 and matmul_precision() == "ieee":
        return None  # its kernels load single elements as fast
    first = _PRODUCTS[node.target]
    left, right = (_matrix_of(operand) for operand in node.args[first : first + 2])
    if left is None or right is None or not has_strides_of(value, torch.contiguous_format):
        return None
    if {left.value.dtype, right.value.dtype} != {value.dtype}:
        return None
    return _Product(node, left, right)


def _pays(product: _Product, rates: Rates) -> bool:
    if product.bytes == _ALIGNED_BYTES or not product.is_aligned_then():
        return False
    padded = product.time(_ALIGNED_BYTES, rates) + product.copies(rates)
    return padded < _WORTH * product.time(product.bytes, rates)


def _padded(emit: Callable[..., Node], matrix: _Matrix, rows: int, columns: int) -> Node:
    """The operand with zeros behind it, in its order in memory."""
    found, order = matrix.node, list(range(matrix.value.dim()))
    if matrix.is_transposed:
        order[-2:] = order[:-3:-1]
        found, rows, columns = emit(aten.permute.default, found, order), columns, rows
    if rows or columns:
        found = emit(aten.constant_pad_nd.default, found, [0, columns, 0, rows], 0)
    else:
        found = emit(aten.clone.default, found, memory_format=torch.contiguous_format)
    return emit(aten.permute.default, found, order) if matrix.is_transposed else found


def _padded_summand(emit: Callable[..., Node], summand: Any, product: _Product) -> Any:
    """What is added to the product, of the product's size or broadcast to it."""
    value = summand.meta["val"]
    rows, columns = product.value.shape[-2:]
    amounts = [0, 0, 0, 0]
    if value.dim() >= 1 and value.shape[-1] == columns and value.shape[-1] != 1:
        amounts[1] = product.columns
    if value.dim() >= 2 and product.rows and value.shape[-2] == rows and value.shape[-2] != 1:
        amounts[3] = product.rows
    amounts = amounts[: 2 * min(2, value.dim())]
    return emit(aten.constant_pad_nd.default, summand, amounts, 0) if any(amounts) else summand


def _pad(gm: GraphModule, product: _Product) -> None:
    node = product.node
    emit: Callable[..., Node] = functools.partial(emit_before, gm, node)
    left, right = product.left.node, product.right.node
    if product.changes_left():
        left = _padded(emit, product.left, product.rows, product.depth)
    if product.changes_right():
        right = _padded(emit, product.right, product.depth, product.columns)
    target: Any = node.target
    summands = [_padded_summand(emit, each, product) for each in node.args[: _PRODUCTS[target]]]
    found = emit(target, *summands, left, right, **node.kwargs)
    first = product.value.dim() - 2
    for dim, amount in ((first, product.rows), (first + 1, product.columns)):
        if amount:
            found = emit(aten.slice.Tensor, found, dim, 0, product.value.shape[dim])
    if product.rows or product.columns:
        found = emit(aten.clone.default, found, memory_format=torch.contiguous_format)
    node.replace_all_uses_with(found)
    gm.graph.erase_node(node)


def pad_products(gm: GraphModule, settings: Settings) -> GraphModule:
    """The graph with padded products where the library is faster so; as it is where there are none.

    Padded sums may add in another order. With the option matmul_library="aten", which asks for eager's bits, nothing is
    done.
    """
    if not limits.is_on(settings, "pad_products") or not settings["shape_padding"]:
        return gm
    if settings["matmul_library"] == "aten" or settings.compiler_options().get("emulate_precision_casts"):
        return gm
    chosen = []
    for node in gm.graph.nodes:
        rates = _rates_of(node.meta["val"].device) if node.target in _PRODUCTS else None
        product = _product_of(node) if rates is not None else None
        if product is not None and rates is not None and _pays(product, rates):
            chosen.append(node.name)
    if not chosen:
        return gm
    gm = own_copy(gm)
    nodes = {node.name: node for node in gm.graph.nodes}
    for name in chosen:
        product = _product_of(nodes[name])
        assert product is not None
        with enable_python_dispatcher():  # fake results of sizes that are known at run time alone
            _pad(gm, product)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm
