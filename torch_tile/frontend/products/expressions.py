"""What the kernel of a region is compiled for: how it reads operands, and what it computes of the product."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.fx import Node

from torch_tile import language
from torch_tile.frontend.launches.options import matmul_precision
from torch_tile.frontend.products.blocks import Blocks
from torch_tile.frontend.products.prologue import TRANSPOSED, is_conversion, order_of
from torch_tile.frontend.products.region import VIEWS, Product, Region
from torch_tile.frontend.tile_operators import OPERATORS, SAME
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import dtype_of_torch

# Its values are of types that Python does not see.
tl: Any = language

# Groups of so many blocks of rows read the right operand one after another.
_GROUP = 8
_LIMIT_OF_32_BITS = 1 << 31


class Constants:
    """See the uses in `kernel.py`. Other attributes are for the methods.

    Args:
        region: what is computed.
        blocks: which blocks.
        inlined: operators in front of the products that the kernel computes.
        inputs: what the kernel reads, in the order of its arguments.
        stored: nodes of the region that are written, in the order of the arguments behind the inputs; none where the
            kernel writes partial sums of products.
    """

    def __init__(
        self, region: Region, blocks: Blocks, inlined: set[Node], inputs: list[Node], stored: list[Node]
    ) -> None:
        self.region, self.inlined, self.stored = region, inlined, stored
        self.place = {node: index for index, node in enumerate([*inputs, *stored])}
        self.ROWS, self.COLUMNS, self.depth = region.sizes
        self.BATCH = region.batch
        self.PRODUCTS = len(region.products)
        self.BLOCK_ROWS, self.BLOCK_COLUMNS, self.BLOCK_DEPTH = blocks.rows, blocks.columns, blocks.depth
        self.ROW_BLOCKS = -(-self.ROWS // blocks.rows)
        self.COLUMN_BLOCKS = -(-self.COLUMNS // blocks.columns)
        self.STEPS = -(-self.depth // blocks.depth)
        self.SPLITS = blocks.splits
        self.GROUP = _GROUP
        self.PRECISION = matmul_precision()
        self.EVEN_ROWS = self.ROWS % blocks.rows == 0
        self.EVEN_COLUMNS = self.COLUMNS % blocks.columns == 0
        self.has_whole_steps = self.depth % blocks.depth == 0

    @property
    def programs(self) -> int:
        return self.BATCH * self.ROW_BLOCKS * self.COLUMN_BLOCKS * self.SPLITS

    # --- operands of products ----------------------------------------------------------------------------------------

    def left(self, values: Any, batch: Any, rows: Any, depth: Any) -> Any:
        """A tile of the left operand."""
        is_term = None if self.has_whole_steps else depth < self.depth
        return self._operand(self.region.products[0].left, values, batch, (rows, None), (depth, is_term))

    def right(self, number: int, values: Any, batch: Any, depth: Any, columns: Any) -> Any:
        """A tile of the right operand of a product."""
        is_term = None if self.has_whole_steps else depth < self.depth
        return self._operand(self.region.products[number].right, values, batch, (depth, is_term), (columns, None))

    def _operand(self, node: Node, values: Any, batch: Any, rows: Any, columns: Any) -> Any:
        """A tile; rows and columns are indices, and what tells those that are inside (None: all are).

        What lies in memory column by column is read so, and transposed afterwards: threads read neighbours.
        """
        is_transposed = _lies_by_columns(node, self.inlined)
        if is_transposed:
            rows, columns = ([each[None, :] if each is not None else None for each in rows],
                             [each[:, None] if each is not None else None for each in columns])  # fmt: skip
        else:
            rows, columns = ([each[:, None] if each is not None else None for each in rows],
                             [each[None, :] if each is not None else None for each in columns])  # fmt: skip
        held = node.meta["val"]
        indices = [rows[0], columns[0]] if held.dim() == 2 else [batch, rows[0], columns[0]]
        mask = rows[1] if columns[1] is None else columns[1]
        reader = _Reader(self, values, mask)
        if node in self.inlined:
            # Functions of what stands outside may be anything.
            value = reader.value(node, indices)
            value = (value if mask is None else tl.where(mask, value, 0.0)).to(dtype_of_torch(held.dtype))
            value = tl.broadcast_to(
                value, [max(sizes) for sizes in zip(indices[-2].shape, indices[-1].shape, strict=True)]
            )
        else:
            value = reader.load(node, indices)
        return tl.trans(value) if is_transposed else value

    # --- what follows ------------------------------------------------------------------------------------------------

    def finish(self, values: Any, total: Any, second: Any, batch: Any, rows: Any, columns: Any, split: Any) -> None:
        """Computes and stores what the region gives for one block."""
        inside = None
        if not self.EVEN_ROWS:
            inside = (rows < self.ROWS)[:, None]
        if not self.EVEN_COLUMNS:
            is_column = (columns < self.COLUMNS)[None, :]
            inside = is_column if inside is None else inside & is_column
        everywhere = rows[:, None] if self.BATCH == 1 else batch * self.ROWS + rows[:, None]
        block = _Block(self, values, everywhere, columns[None, :], inside)
        if self.SPLITS > 1:
            block.store_partial(total, split)
        else:
            block.run([total, second])


class _Reader:
    """Operands of a product, computed from what the kernel reads."""

    def __init__(self, constants: Constants, values: Any, mask: Any) -> None:
        self.constants, self.values, self.mask = constants, values, mask

    def load(self, node: Node, indices: list[Any]) -> Any:
        held = node.meta["val"]
        offset: Any = 0
        is_wide = _extent(held) >= _LIMIT_OF_32_BITS
        has_mask = self.mask is not None
        for index, size, stride in zip(indices, held.shape, held.stride(), strict=True):
            if isinstance(index, int) and index == 0:
                continue
            # A dimension of one element has any stride.
            stride = stride if size > 1 else 0
            offset = offset + (index.to(tl.int64) if is_wide else index) * stride
        pointers = self.values[self.constants.place[node]] + offset
        # What is the same for all terms, as scales of columns are, has no terms outside.
        has_terms = has_mask and isinstance(offset, tensor) and _varies_along(offset, self.mask)
        return tl.load(pointers, mask=self.mask, other=0) if has_terms else tl.load(pointers)

    def value(self, node: Any, indices: list[Any]) -> Any:
        """In float32, if it is a float."""
        if not isinstance(node, Node):
            return node
        if node not in self.constants.inlined:
            return _widened(self.load(node, indices))
        if node.target in TRANSPOSED:
            order = order_of(node)
            source: list[Any] = [None] * len(order)
            for place, dim in enumerate(order):
                source[dim] = indices[place]
            return self.value(node.args[0], source)
        if node.target in SAME:
            return self.value(node.args[0], indices)
        if is_conversion(node):
            return _widened(self.value(node.args[0], indices))
        arguments = torch.fx.map_arg(node.args, lambda operand: self.value(operand, _aligned(operand, indices)))
        named = torch.fx.map_arg(dict(node.kwargs), lambda operand: self.value(operand, _aligned(operand, indices)))
        return OPERATORS[node.target](*arguments, **named)


def _varies_along(offset: Any, mask: Any) -> bool:
    """Whether a tile of offsets has the axis of a mask that is [n, 1] or [1, n]."""
    return len(offset.shape) == 2 and all(
        size == 1 or length > 1 for length, size in zip(offset.shape, mask.shape, strict=True)
    )


def _lies_by_columns(node: Node, inlined: set[Node]) -> bool:
    """Whether neighbours in memory are elements of one column, of what an operand is computed from."""
    held = node.meta["val"]
    if node not in inlined:
        return bool(held.stride(-2) == 1 and held.stride(-1) != 1 and held.shape[-2] > 1)
    if node.target in TRANSPOSED:
        (source,) = node.all_input_nodes
        count = held.dim()
        is_swapped = order_of(node)[-2:] == [count - 1, count - 2]
        return _lies_by_columns(source, inlined) != is_swapped
    largest = max(node.all_input_nodes, key=lambda operand: operand.meta["val"].numel())
    return _lies_by_columns(largest, inlined) if largest.meta["val"].dim() == held.dim() else False


def _aligned(operand: Node, indices: list[Any]) -> list[Any]:
    """Indices of an operand that is broadcast."""
    shape = operand.meta["val"].shape
    return [0 if size == 1 else index for size, index in zip(shape, indices[len(indices) - len(shape) :], strict=True)]


def _extent(held: torch.Tensor) -> int:
    return sum((size - 1) * stride for size, stride in zip(held.shape, held.stride(), strict=True)) + 1


def _widened(value: Any) -> Any:
    if not isinstance(value, tensor) or value.dtype is tl.int1:
        return value
    return value.to(tl.float32)


class _Block:
    """The operators of a region on one block."""

    def __init__(self, constants: Constants, values: Any, rows: Any, columns: Any, inside: Any) -> None:
        self.constants, self.values = constants, values
        self.rows, self.columns, self.inside = rows, columns, inside
        self.loaded: dict[Any, Any] = {}
        self.found: dict[Node, Any] = {}

    def store_partial(self, total: Any, split: Any) -> None:
        count = self.constants.BATCH * self.constants.ROWS * self.constants.COLUMNS
        base = self.values[-1]
        base = base + (
            split.to(tl.int64) * count if count * self.constants.SPLITS >= _LIMIT_OF_32_BITS else split * count
        )
        tl.store(base + self._place(), total, mask=self.inside)

    def run(self, totals: list[Any]) -> None:
        region = self.constants.region
        sums = {product.node: (product, total) for product, total in zip(region.products, totals, strict=False)}
        stored = set(self.constants.stored)
        for node in region.inner:
            if node in sums:
                value = self._product(*sums[node])
            elif node.target in VIEWS or node.target in SAME:
                value = self.found[node.args[0]]  # type: ignore[index]
            elif is_conversion(node):
                value = _widened(self._operand(node.args[0], node))
            else:
                operand_of = functools.partial(self._operand, of=node)
                arguments, named = torch.fx.map_arg((node.args, dict(node.kwargs)), operand_of)
                value = OPERATORS[node.target](*arguments, **named)
            if node in stored:
                # What is stored is rounded, for everybody who uses it.
                value = self._whole(value).to(dtype_of_torch(node.meta["val"].dtype))
                tl.store(self.values[self.constants.place[node]] + self._place(), value, mask=self.inside)
                value = _widened(value)
            self.found[node] = value

    def _product(self, product: Product, total: Any) -> Any:
        value = total if product.alpha == 1 else total * float(product.alpha)
        if product.added is None:
            return value
        added = self._operand(product.added, product.node)
        return value + (added if product.beta == 1 else added * float(product.beta))

    def _whole(self, value: Any) -> Any:
        """A tile with all rows and columns."""
        shape = (self.constants.BLOCK_ROWS, self.constants.BLOCK_COLUMNS)
        if not isinstance(value, tensor):
            return tl.full(shape, float(value), tl.float32)
        return value if tuple(value.shape) == shape else tl.broadcast_to(value, shape)

    def _place(self) -> Any:
        """Where the elements of a block stand in a dense tensor."""
        constants = self.constants
        rows = self.rows
        if constants.BATCH * constants.ROWS * constants.COLUMNS >= _LIMIT_OF_32_BITS:
            rows = rows.to(tl.int64)
        return rows * constants.COLUMNS + self.columns

    def _operand(self, operand: Any, of: Node) -> Any:
        if not isinstance(operand, Node):
            return operand
        if operand in self.found:
            return self.found[operand]
        key = operand, tuple(of.meta["val"].shape)
        if key not in self.loaded:
            self.loaded[key] = _widened(self._load(operand, of.meta["val"].shape))
        return self.loaded[key]

    def _load(self, node: Node, shape: torch.Size) -> Any:
        held = node.meta["val"]
        missing = len(shape) - held.dim()
        strides = [0] * missing + [s if n > 1 else 0 for n, s in zip(held.shape, held.stride(), strict=True)]
        rows = self.rows.to(tl.int64) if _extent(held) >= _LIMIT_OF_32_BITS else self.rows
        offset, needs_rows = _row_offset(rows, shape[:-1], strides[:-1])
        if strides[-1] != 0:
            offset = offset + self.columns * strides[-1]
        pointers = self.values[self.constants.place[node]] + offset
        mask = None
        if needs_rows and not self.constants.EVEN_ROWS:
            mask = self.rows < self.constants.BATCH * self.constants.ROWS
        if self.constants.BATCH > 1 and needs_rows:
            mask = self.inside if strides[-1] != 0 else mask
        if strides[-1] != 0 and not self.constants.EVEN_COLUMNS:
            is_column = self.columns < self.constants.COLUMNS
            mask = is_column if mask is None else mask & is_column
        return tl.load(pointers) if mask is None else tl.load(pointers, mask=mask, other=0)


def _row_offset(rows: Any, sizes: Any, strides: list[int]) -> tuple[Any, bool]:
    """Offset of rows, which count all leading dimensions in row-major order, and whether it depends on them."""
    merged: list[tuple[int, int]] = []  # sizes and strides, the innermost dimension first
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    offset: Any = 0
    needs_rows = False
    for number, (size, stride) in enumerate(merged):
        index = rows % size if number + 1 < len(merged) else rows
        rows = rows // size
        if stride != 0:
            offset = offset + index * stride
            needs_rows = True
    return offset, needs_rows
