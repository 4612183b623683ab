"""Many writes of parts of a tensor that the graph makes, each as a write at indices.

As a choice between two operands a write joins the kernels around it, but computes every element of the result. As
`index_put` it is a scatter, of which the compiler removes the copy between the writes of a chain (`ReuseBuffers`).
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
from torch_tile.frontend.part_writes import chains
from torch_tile.frontend.part_writes.chains import SCATTERS, Write, argument
from torch_tile.frontend.part_writes.paths import name_parts, value_of

aten = torch.ops.aten

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


def _start(start: Any, size: Any) -> int | Node | None:
    """The first index, if it is known from which end it counts."""
    if start is None:
        return 0
    if isinstance(start, Node):
        return start if statically_known_true(value_of(start) >= 0) else None
    if start < 0:
        return max(0, start + size) if isinstance(size, int) else None
    return min(int(start), size) if isinstance(size, int) else int(start)


def _range_of(node: Node) -> tuple[int, _Range] | None:
    """Dimension and range of one scatter."""
    if node.target in (aten.diagonal_scatter.default, aten.as_strided_scatter.default):
        return None
    base, source = value_of(node.args[0]), value_of(node.args[1])
    dim = int(argument(node, 2, "dim", 0)) % base.dim()
    if node.target is aten.select_scatter.default:
        index = _start(node.args[3], base.shape[dim])
        return None if index is None else (dim, _Range(index, 1, is_selected=True))
    if argument(node, 5, "step", 1) != 1:
        return None
    start = _start(argument(node, 3, "start", None), base.shape[dim])
    return None if start is None else (dim, _Range(start, source.shape[dim]))


def _ranges_of(write: Write) -> dict[int, _Range] | None:
    """By dimension of the base."""
    if not write.is_of_scatters():
        return None
    base = value_of(write.base)
    ranges: dict[int, _Range] = {}
    dims = list(range(base.dim()))
    for scatter in write.scatters:
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
    return ranges


def _is_worth_it(chain: list[Write], ranges: list[dict[int, _Range]]) -> bool:
    base, count = value_of(chain[0].base), len(chain)
    whole = chains.hint(base.shape)
    if whole is None or count <= _FEW_CHOICES:
        return False
    cost = count * _ELEMENTS_PER_WRITE + whole
    for write, written in zip(chain, ranges, strict=True):
        part = chains.hint(value_of(write.source).shape)
        if part is None:
            return False
        cost += part * (_WRITTEN_LANE if max(written) == base.dim() - 1 else _WRITTEN_ELEMENT)
    return 2 * cost <= whole * (count + 1)


def _replace(gm: GraphModule, write: Write, ranges: dict[int, _Range]) -> bool:
    emit = functools.partial(emit_before, gm, write.node)
    source, base = write.source, value_of(write.base)
    first, last = min(ranges), max(ranges)
    for dim in sorted(dim for dim, part in ranges.items() if part.is_selected):
        source = emit(aten.unsqueeze.default, source, dim)
    indices: list[Node | None] = [None] * first
    for dim in range(first, last + 1):
        length: Any = value_of(source).shape[dim]
        if not isinstance(length, int):
            length = emit(aten.sym_size.int, source, dim)
        index = emit(aten.arange.default, length, dtype=torch.int64, device=base.device)
        start = ranges.get(dim, _Range()).start
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


def write_at_indices(gm: GraphModule, settings: Settings) -> int:
    """Rewrites chains of scatters of slices on the CPU that are cheaper as writes; returns how many writes."""
    if not limits.is_on(settings, "slice_writes") or not any(node.target in SCATTERS for node in gm.graph.nodes):
        return 0
    name_parts(gm.graph)
    chains.simplify(gm)
    chains.erase_unused(gm)
    order = chains.Order(gm)
    chosen: list[tuple[Write, dict[int, _Range]]] = []
    for chain in chains.chains_of(gm):
        if value_of(chain[0].base).device.type != "cpu" or order.copy_back(chain) is not None:
            continue  # into_inputs.py
        ranges = [written for write in chain if (written := _ranges_of(write)) is not None]
        if len(ranges) == len(chain) and _is_worth_it(chain, ranges) and order.is_in_place(chain, None):
            chosen += zip(chain, ranges, strict=True)
    count = sum(_replace(gm, write, ranges) for write, ranges in chosen)
    chains.erase_unused(gm)
    gm.recompile()
    return count
