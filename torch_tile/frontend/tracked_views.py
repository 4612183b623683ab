"""Results that AOTAutograd can make again as views only if it finds out how they were made.

Where sizes are symbols it makes a result that is a view again from its base: by the view's function if the result knows
its base, else by `as_strided`. That does not reach from real numbers to complex ones of other sizes, nor to a negative
or conjugate, and its gradient is the mean over elements of a base that share memory. Programs return tensors that know
no base; these few results get one.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch.fx import Graph, GraphModule, Node

from torch_tile.frontend.sizes import hint_of


@dataclasses.dataclass
class TrackedView:
    """Result `place` is a view of an input, or of another result."""

    place: int
    base: int
    is_of_input: bool
    chain: GraphModule | None = None
    """The operators that make it of an input whose elements share memory; takes that input, then sizes."""
    sizes: tuple[int, ...] = ()
    """Which inputs these are."""
    is_piece: bool = False
    """A view of the input itself, as autograd sees it."""


def _is_unlike(value: Any, base: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(base, torch.Tensor):
        return False
    kinds = [(t.is_complex(), t.is_conj(), t.is_neg()) for t in (value, base)]
    return kinds[0] != kinds[1]


def _overlaps(value: torch.Tensor) -> bool:
    """Whether elements share memory, for the sizes that were traced."""
    extents = [(hint_of(stride), hint_of(size)) for stride, size in zip(value.stride(), value.shape, strict=True)]
    last = 0
    for stride, size in sorted(each for each in extents if each[1] != 1):
        if stride <= last:
            return True
        last += (size - 1) * stride
    return False


def views_to_track(gm: GraphModule) -> list[TrackedView]:
    """Such results of a forward or inference graph."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    inputs = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    if metadata is None:
        return []
    (end,) = gm.graph.find_nodes(op="output")
    pieces = _pieces(gm, end, metadata)
    if not any(isinstance(value, torch.SymInt) for value in inputs):
        return pieces
    outputs = [getattr(node, "meta", {}).get("val") for node in end.args[0]]
    first = metadata.num_mutated_inp_runtime_indices
    last = first + len(metadata.output_info)
    found = []
    for place, info in enumerate(metadata.output_info, first):
        base, values = info.base_idx, outputs
        if base is None:
            continue
        if info.output_type is OutputType.alias_of_input:
            values = inputs
        elif info.output_type is OutputType.alias_of_intermediate_base_is_user_output:
            base += first
        elif info.output_type in (
            OutputType.alias_of_intermediate,
            OutputType.alias_of_intermediate_save_as_output,
        ):
            base += last
        else:
            continue
        if place >= len(outputs) or base >= len(values):
            continue
        if _is_unlike(outputs[place], values[base]):
            found.append(TrackedView(place, base, values is inputs))
        elif values is inputs and isinstance(values[base], torch.Tensor) and _overlaps(values[base]):
            chain = _chain(gm, end.args[0][place], base)
            found += [TrackedView(place, base, True, *chain)] if chain else []
    return found + pieces


def _pieces(gm: GraphModule, end: Node, metadata: Any) -> list[TrackedView]:
    """Results with gradients that are pieces of an input, of `split` and its like. AOTAutograd does not make them
    again, and autograd, which forbids writes into them, knows them by their base."""
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    first, found = metadata.num_mutated_inp_runtime_indices, []
    results: Any = end.args[0]
    for place, info in enumerate(metadata.output_info, first):
        if info.output_type is not OutputType.non_alias or not info.requires_grad or place >= len(results):
            continue
        node = results[place]
        while isinstance(node, Node) and node.op == "call_function" and is_view(node):
            node = node.args[0]
        is_input = node is not results[place] and isinstance(node, Node) and node.op == "placeholder"
        # `as_strided` does not reach from complex numbers to their parts.
        if is_input and not _is_unlike(results[place].meta.get("val"), node.meta.get("val")):
            found.append(TrackedView(place, inputs.index(node), is_of_input=True, is_piece=True))
    return found


def is_view(node: Node) -> bool:
    """Whether an operator, or the place of one of its results, gives a view of its first operand."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.target is operator.getitem
    return not schema.is_mutable and any(returned.alias_info is not None for returned in schema.returns)


def _chain(gm: GraphModule, result: Node, base: int) -> tuple[GraphModule, tuple[int, ...]] | None:
    """The graph's operators between an input and a view of it; None where they are not known to be views."""
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    graph = Graph()
    copies = {inputs[base]: graph.placeholder("base")}
    sizes = [node for node in inputs if isinstance(node.meta.get("val"), torch.SymInt)]
    copies |= {node: graph.placeholder(f"size_{number}") for number, node in enumerate(sizes)}

    def copy(node: Node) -> bool:
        if node in copies:
            return True
        is_tensor = isinstance(node.meta.get("val"), torch.Tensor)
        if node.op != "call_function" or (is_tensor and not is_view(node)) or not all(map(copy, node.all_input_nodes)):
            return False
        copies[node] = graph.node_copy(node, copies.__getitem__)
        return True

    if result is inputs[base] or not copy(result):
        return None
    graph.output(copies[result])
    return GraphModule({}, graph), tuple(inputs.index(node) for node in sizes)


def _view_of(base: torch.Tensor, result: torch.Tensor, chain: GraphModule | None, numbers: list[int]) -> torch.Tensor:
    """`result` again, by functions of views of `base`."""
    sizes, strides, offset = result.size(), result.stride(), result.storage_offset()
    with torch.no_grad():
        if chain is not None:
            return chain(base.detach(), *numbers)  # type: ignore[no-any-return]
        view = base.detach()
        if view.is_conj():
            view = view.conj()
        if view.is_neg():
            view = torch._neg_view(view)
        if result.is_complex() and not base.is_complex():
            view = view.as_strided((*sizes, 2), (*(2 * stride for stride in strides), 1), 2 * offset)
            view = torch.view_as_complex(view)
        else:
            if base.is_complex() and not result.is_complex():
                view = torch.view_as_real(view)
            view = view.as_strided(sizes, strides, offset)
        if result.is_conj():
            view = view.conj()
        return torch._neg_view(view) if result.is_neg() else view


def _piece_of(base: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return base.as_strided(result.size(), result.stride(), result.storage_offset())


def tracking(call: Callable[[list[Any]], Any], views: list[TrackedView]) -> Callable[[list[Any]], Any]:
    """The boxed callable, with these results replaced."""
    if not views:
        return call

    def tracked(inputs: list[Any]) -> Any:
        bases = {view.place: inputs[view.base] for view in views if view.is_of_input}
        sizes = {view.place: [inputs[place] for place in view.sizes] for view in views}
        results = list(call(inputs))
        for view in views:
            base = bases[view.place] if view.is_of_input else results[view.base]
            result = results[view.place]
            if isinstance(base, torch.Tensor) and result.untyped_storage()._cdata == base.untyped_storage()._cdata:
                results[view.place] = (
                    _piece_of(base, result) if view.is_piece else _view_of(base, result, view.chain, sizes[view.place])
                )
        return results

    tracked._boxed_call = True  # type: ignore[attr-defined]
    return tracked
