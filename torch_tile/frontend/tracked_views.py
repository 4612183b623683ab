"""Results that AOTAutograd can make again as views only if it finds out how they were made.

Where sizes are symbols it makes a result that is a view again from its base: by the view's function if the result knows
its base, else by `as_strided`, which does not reach from real numbers to complex ones of other sizes, nor to a negative
or conjugate. Programs return tensors that know no base; these few results get one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch.fx import GraphModule


@dataclasses.dataclass
class TrackedView:
    """Result `place` is a view of an input, or of another result."""

    place: int
    base: int
    is_of_input: bool


def _is_unlike(value: Any, base: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(base, torch.Tensor):
        return False
    kinds = [(t.is_complex(), t.is_conj(), t.is_neg()) for t in (value, base)]
    return kinds[0] != kinds[1]


def views_to_track(gm: GraphModule) -> list[TrackedView]:
    """Such results of a forward or inference graph."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    inputs = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    if metadata is None or not any(isinstance(value, torch.SymInt) for value in inputs):
        return []
    (end,) = gm.graph.find_nodes(op="output")
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
        if place < len(outputs) and base < len(values) and _is_unlike(outputs[place], values[base]):
            found.append(TrackedView(place, base, values is inputs))
    return found


def _view_of(base: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """`result` again, by functions of views of `base`."""
    sizes, strides, offset = result.size(), result.stride(), result.storage_offset()
    with torch.no_grad():
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


def tracking(call: Callable[[list[Any]], Any], views: list[TrackedView]) -> Callable[[list[Any]], Any]:
    """The boxed callable, with these results replaced."""
    if not views:
        return call

    def tracked(inputs: list[Any]) -> Any:
        bases = {view.place: inputs[view.base] for view in views if view.is_of_input}
        results = list(call(inputs))
        for view in views:
            base = bases[view.place] if view.is_of_input else results[view.base]
            result = results[view.place]
            if isinstance(base, torch.Tensor) and result.untyped_storage()._cdata == base.untyped_storage()._cdata:
                results[view.place] = _view_of(base, result)
        return results

    tracked._boxed_call = True  # type: ignore[attr-defined]
    return tracked
