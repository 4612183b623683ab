"""Inputs whose shape or strides a program changes: a package writes elements, and leaves a tensor of its caller's or a
buffer the form that it has."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.aot.viewed_inputs import place_of, written_place
from torch_tile.errors import UnsupportedError

_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
_OTHER_MEMORY = torch.ops.aten.set_


def refuse_changed_forms(exported: ExportedProgram) -> None:
    """
    Raises:
        UnsupportedError: the program changes the shape, the strides or the memory of an input; names it.
    """
    inputs = dict(zip(exported.graph.find_nodes(op="placeholder"), exported.graph_signature.input_specs, strict=True))
    _refuse_calls(exported, {node: place_of(spec)[1] for node, spec in inputs.items()})
    places = {place_of(spec): node for node, spec in inputs.items()}
    results: Any = exported.graph.output_node().args[0]
    for made, value in zip(exported.graph_signature.output_specs, results, strict=True):
        if made.kind in _MUTATIONS and made.target is not None:
            _refuse_value(made.target, places[written_place(made)], value)


def _refuse_calls(exported: ExportedProgram, names: dict[Node, str]) -> None:
    """Looks at the calls of a program that writes in place. A form that is changed and restored is none."""
    same, last = {node: node for node in names}, dict[Node, Node]()
    for node in exported.graph.nodes:
        source = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        if source not in same or not isinstance(node.target, torch._ops.OpOverload):
            continue
        assert source is not None
        schema = node.target._schema
        first = schema.arguments[0].alias_info
        if first is None or not first.is_write or not schema.returns or schema.returns[0].alias_info is None:
            continue
        same[node] = same[source]
        if torch.Tag.inplace_view in node.target.tags:
            last[same[node]] = node
            if node.target.overloadpacket is _OTHER_MEMORY:
                raise UnsupportedError("package", f"`{names[same[node]]}` is set to the memory of another tensor")
    for place, node in last.items():
        _refuse_form(names[place], place, node)


def _refuse_value(name: str, place: Node, value: Node) -> None:
    """Looks at what a decomposed program writes to an input. An operator keeps the order of the strides of its operand,
    but not their gaps."""
    before, after = place.meta["val"], value.meta["val"]
    if _listed(before.shape) != _listed(after.shape) or _is_permuted(before, after):
        _refuse_form(name, place, value)


def _is_permuted(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether two dimensions have changed places in memory."""
    known = statically_known_true
    strides = [
        (one, other)
        for one, other, size in zip(before.stride(), after.stride(), before.shape, strict=True)
        if not known(size == 1)
    ]
    return any(known(a > c) and known(b < d) for a, b in strides for c, d in strides)


def _refuse_form(name: str, place: Node, node: Node) -> None:
    before, after = (_form_of(each.meta["val"]) for each in (place, node))
    if before != after:
        raise UnsupportedError(
            "package",
            f"`{name}` has {before}, and the model changes that in place to {after}, which a package cannot do to a "
            "tensor that it is given; use a view of it or a copy (`x = x.t()` in place of `x.t_()`)",
        )


def _form_of(value: Any) -> str:
    return f"shape {_listed(value.shape)} and strides {_listed(value.stride())}"


def _listed(numbers: Any) -> str:
    return f"({', '.join(map(str, numbers))})"
