"""Sums by index whose values have their channels side by side, on the CPU.

The gradient of a resized or indexed image adds to zeros in torch's usual order, whatever the order of the gradient.
Neighbouring values then go to places far apart. Zeros in the order of the values take them as vectors, and one copy
puts the sums in the usual order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.emit import emit_traced

aten = torch.ops.aten

_ZEROS = (aten.new_zeros.default, aten.zeros.default)
# Bytes of results from which on the copy takes less than what it saves: those beyond a first-level cache.
_LEAST_BYTES = 32 << 10


def order_scatters(gm: GraphModule) -> int:
    """Returns how many are ordered."""
    count = 0
    for node in gm.graph.find_nodes(op="call_function", target=aten.index_put.default):
        if not _is_for_channels(node):
            continue
        indices: Any = node.args[1]
        places = [k for k, index in enumerate(indices) if index is not None]
        operands: Any = [node.args[2], *(indices[k] for k in places)]
        node.replace_all_uses_with(emit_traced(gm, node, _adding(node.meta["val"].shape, places), *operands))
        count += 1
    if count:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return count


def _adding(shape: Sequence[int], places: list[int]) -> Callable[..., torch.Tensor]:
    """Of values and their indices along some dimensions, their sums in a contiguous tensor of the shape."""
    pixels = [*shape[2:]]

    def add(values: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        zeros = values.new_zeros([shape[0], *pixels, shape[1]]).movedim(-1, 1)
        indices = [given[places.index(k)] if k in places else None for k in range(max(places) + 1)]
        sums: torch.Tensor = aten.index_put.default(zeros, indices, values, True)
        return sums.contiguous()

    return add


def _is_for_channels(node: Node) -> bool:
    arguments: Any = node.args
    if len(arguments) != 4 or arguments[3] is not True:
        return False
    zeros, indices, values, _ = arguments
    if not isinstance(zeros, Node) or zeros.target not in _ZEROS:
        return False
    result, given = node.meta["val"], values.meta["val"]
    sizes = [*result.shape, *given.shape]
    if result.dim() not in (4, 5) or given.dim() != result.dim() or not all(isinstance(size, int) for size in sizes):
        return False
    memory_format = torch.channels_last if result.dim() == 4 else torch.channels_last_3d
    is_ordered = given.is_contiguous(memory_format=memory_format) and not given.is_contiguous()
    # Each channel is summed by itself.
    is_by_pixels = len(indices) > 2 and indices[0] is indices[1] is None
    is_large = result.numel() * result.dtype.itemsize >= _LEAST_BYTES
    return result.device.type == "cpu" and result.is_contiguous() and is_ordered and is_by_pixels and is_large
