"""Writes of parts of a graph's inputs: `copy_` into views of them.

This comes after all other passes on FX graphs: they take the inputs of a graph to be values that do not change.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.launches.embed_kernels import own_copy
from torch_tile.frontend.part_writes import chains
from torch_tile.frontend.part_writes.chains import SCATTERS, Write, argument, value_of
from torch_tile.frontend.part_writes.strided import choose_diagonals, choose_strided

aten = torch.ops.aten

# What a kernel of its own costs, in elements that it could have moved meanwhile: 1 us on a processor, 3 us on a GPU.
_ELEMENTS_PER_KERNEL = {"cpu": 4096, "cuda": 1 << 20}
# Elements that one element costs which has no neighbour in the innermost dimension: a vector.
_ALONE = 8


def _elements_moved(write: Write) -> int | None:
    """What a write costs, in elements read or written."""
    sizes = value_of(write.source).shape
    part = chains.hint(sizes)
    if part is None:
        return None
    for scatter in write.scatters:
        if scatter.target is aten.diagonal_scatter.default:
            return 2 * part * _ALONE
        operand = value_of(scatter.args[0])
        dim = int(argument(scatter, 2, "dim", 0)) % operand.dim()
        is_innermost = statically_known_true(operand.stride()[dim] == 1)
        step = argument(scatter, 5, "step", 1) if scatter.target is aten.slice_scatter.default else _ALONE
        if is_innermost and step != 1:
            return 2 * part * _ALONE
    innermost = chains.hint(sizes[-1:]) if len(sizes) else 1
    return None if innermost is None else 2 * (part // max(innermost, 1)) * max(innermost, _ALONE)


def _is_worth_it(chain: list[Write]) -> bool:
    base = value_of(chain[0].base)
    whole, kernel = chains.hint(base.shape), _ELEMENTS_PER_KERNEL.get(base.device.type)
    if whole is None or kernel is None:
        return False
    moved = [n for write in chain if (n := _elements_moved(write)) is not None]
    if len(moved) != len(chain):
        return False
    # A choice more for each element of the tensor takes as long as a quarter of reading and writing it.
    return sum(moved) + kernel * (len(chain) - 1) <= whole * (2 + (len(chain) - 1) / 2)


def _view_of(gm: GraphModule, write: Write, of: Node) -> Node:
    """The part of the input `of` that is written, before the write. What reads the part first names it for both: the
    compiler sees that a kernel reads the elements that it writes."""
    view = of
    for scatter in write.scatters:
        operand = view
        same = (user for user in operand.users if chains.is_the_view(user, scatter, operand))
        known = next(same, None)
        view = known or emit_before(
            gm, write.node, SCATTERS[scatter.target], operand, *scatter.args[2:], **scatter.kwargs
        )
    return view


def _write(gm: GraphModule, chain: list[Write], copy: Node) -> None:
    written: Any = chain[0].base
    for write in chain:
        view, source = _view_of(gm, write, written), write.source
        emit_before(gm, write.node, aten.copy_.default, view, source)
        write.node.replace_all_uses_with(written)
    copy.replace_all_uses_with(written)
    gm.graph.erase_node(copy)


def write_into_inputs(gm: GraphModule, settings: Settings) -> GraphModule:
    """The graph with writes of parts alone where that moves less than whole tensors; itself where nothing is written.
    Scatters of diagonals, and of slices with steps, that are left become choices."""
    graphs = [module.graph for module in gm.modules() if isinstance(module, GraphModule)]  # bodies of branches too
    if not any(node.target in SCATTERS for graph in graphs for node in graph.nodes):
        return gm
    gm = own_copy(gm)
    if limits.is_on(settings, "slice_writes"):
        for chain, copy in _chosen(gm):
            _write(gm, chain, copy)
        chains.erase_unused(gm)
    choose_diagonals(gm)
    choose_strided(gm)
    gm.recompile()
    return gm


def _chosen(gm: GraphModule) -> list[tuple[list[Write], Node]]:
    order = chains.Order(gm)
    found = []
    for chain in chains.chains_of(gm):
        copy = order.copy_back(chain)
        if copy is None or any(reader.op == "output" for reader in chains.readers_of(chain[-1].node)):
            continue  # the result is a tensor of its own
        if _is_worth_it(chain) and order.is_in_place(chain):
            found.append((chain, copy))
    return found


def written_input(node: Node) -> Node | None:
    """The graph input that a `copy_` writes, or writes a part of; None for any other node."""
    if node.target is not aten.copy_.default:
        return None
    place: Any = node.args[0]
    while place.op == "call_function" and place.target in SCATTERS.values():
        place = place.args[0]
    return place if place.op == "placeholder" else None
