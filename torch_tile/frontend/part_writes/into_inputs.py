"""Writes of parts of a graph's inputs: `copy_` into views of them.

This comes after all other passes on FX graphs: they take the inputs of a graph to be values that do not change.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend.decompositions.views import may_overlap
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.launches.embed_kernels import own_copy
from torch_tile.frontend.part_writes import chains
from torch_tile.frontend.part_writes.chains import SCATTERS, Write
from torch_tile.frontend.part_writes.paths import LAYOUTS, PARTS, is_same_view, steps_from, value_of, view_along
from torch_tile.frontend.part_writes.strided import choose_diagonals, choose_strided

aten = torch.ops.aten

# What a kernel of its own costs, in elements that it could have moved meanwhile: 1 us on a processor, 3 us on a GPU.
_ELEMENTS_PER_KERNEL = {"cpu": 4096, "cuda": 1 << 20}
# Elements that one element costs which has no neighbour in the innermost dimension: a vector.
_ALONE = 8
# A result of `torch._debug_has_internal_overlap`.
_OVERLAPS = 1


def _elements_moved(write: Write) -> int | None:
    """What a write costs, in elements read or written."""
    part, whole = write.part(), chains.hint(value_of(write.base).shape)
    if part is None or whole is None:
        return None
    count, stride, run = 1, 0, 1
    for extent in zip(part.stride(), part.shape, strict=True):
        step, size = (chains.hint([number]) for number in extent)
        if step is None or size is None:
            return None
        count *= size
        if size != 1 and (stride == 0 or step < stride):
            stride, run = step, size
    if stride <= 1:
        return 2 * (count // max(run, 1)) * max(run, _ALONE)
    return 2 * min(count * min(stride, _ALONE), whole)


def _can_write(chain: list[Write], given: Node) -> bool:
    """Whether each part is a view of the input, of elements that do not share memory."""
    frame = steps_from(given, chain[0].base)
    assert frame is not None, "a chain begins with views of the input"
    whole = view_along(value_of(given), frame)
    for write in chain:
        part = view_along(whole, write.steps)
        if part is None or torch._debug_has_internal_overlap(part) == _OVERLAPS or may_overlap(part):
            return False
        counts_memory = any(step.target is aten.as_strided.default for step in write.steps)
        if counts_memory and not is_same_view(whole, value_of(write.base)):
            return False
    return True


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


def _view_of(gm: GraphModule, write: Write, of: Node, order: chains.Order) -> Node:
    """The part of the input `of` that is written, before the write. What reads the part first names it for both: the
    compiler sees that a kernel reads the elements that it writes."""
    view = of
    for step in write.steps:
        known = next((user for user in view.users if step.is_made_by(user) and order.is_before(user, write.node)), None)
        view = known or emit_before(gm, write.node, step.target, view, *step.args, **dict(step.kwargs))
    return view


def _write(gm: GraphModule, chain: list[Write], copy: Node, order: chains.Order) -> None:
    written: Any = chain[0].base
    for write in chain:
        view, source = _view_of(gm, write, written, order), write.source
        emit_before(gm, write.node, aten.copy_.default, view, source)
        write.node.replace_all_uses_with(written)
    given: Any = copy.args[0]
    copy.replace_all_uses_with(given)
    result: Any = copy.args[1]
    gm.graph.erase_node(copy)
    if result is not given:
        result.replace_all_uses_with(given)


def write_into_inputs(gm: GraphModule, settings: Settings) -> GraphModule:
    """The graph with writes of parts alone where that moves less than whole tensors; itself where nothing is written.
    Scatters of diagonals, and of slices with steps, that are left become choices."""
    graphs = [module.graph for module in gm.modules() if isinstance(module, GraphModule)]  # bodies of branches too
    if not any(node.target in SCATTERS for graph in graphs for node in graph.nodes):
        return gm
    gm = own_copy(gm)
    if limits.is_on(settings, "slice_writes"):
        order = chains.Order(gm)
        for chain, copy in _chosen(gm, order):
            _write(gm, chain, copy, order)
        chains.erase_unused(gm)
    choose_diagonals(gm)
    choose_strided(gm)
    gm.recompile()
    return gm


def _chosen(gm: GraphModule, order: chains.Order) -> list[tuple[list[Write], Node]]:
    found = []
    for chain in chains.chains_of(gm):
        copy = order.copy_back(chain)
        if copy is None or any(reader.op == "output" for reader in chains.readers_of(chain[-1].node)):
            continue  # the result is a tensor of its own
        given: Any = copy.args[0]
        if _can_write(chain, given) and _is_worth_it(chain) and order.is_in_place(chain, copy):
            found.append((chain, copy))
    return found


def written_input(node: Node) -> Node | None:
    """The graph input that a `copy_` writes, or writes a part of; None for any other node."""
    if node.target is not aten.copy_.default:
        return None
    place: Any = node.args[0]
    while place.op == "call_function" and place.target in (*LAYOUTS, *PARTS):
        place = place.args[0]
    return place if place.op == "placeholder" else None
