"""Results of an exported program that are inputs which it writes, or views of them."""

from __future__ import annotations

import operator

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx import Node

_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)

# An input of an exported program. A buffer may have the name of an argument.
Place = tuple[InputKind, str]


def viewed_inputs(exported: ExportedProgram) -> list[Place | None]:
    """For each result the input that it is or views, as far as the program says it.

    A program that was not decomposed writes in place, so its graph says it. A decomposed one says which results are the
    new values of inputs, and nothing of views.
    """
    signature = exported.graph_signature
    results = [spec for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    if any(spec.kind in _MUTATIONS for spec in signature.output_specs):
        inputs = {getattr(spec.arg, "name", None) for spec in signature.input_specs}
        written = [spec for spec in signature.output_specs if spec.kind in _MUTATIONS]
        targets = {spec.arg.name: written_place(spec) for spec in written if spec.arg.name not in inputs}
        return [targets.get(getattr(spec.arg, "name", None)) for spec in results]
    placeholders = exported.graph.find_nodes(op="placeholder")
    places = dict(zip(placeholders, map(place_of, signature.input_specs), strict=True))
    values: list[object] = [
        value
        for spec, value in zip(signature.output_specs, exported.graph.output_node().args[0], strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    return [places.get(_source_of(value)) if isinstance(value, Node) else None for value in values]


def place_of(spec: InputSpec) -> Place:
    return spec.kind, str(spec.target if spec.kind is InputKind.BUFFER else spec.arg.name)


def written_place(spec: OutputSpec) -> Place:
    """The input that a mutation writes."""
    kind = InputKind.BUFFER if spec.kind is OutputKind.BUFFER_MUTATION else InputKind.USER_INPUT
    return kind, str(spec.target)


def is_view(node: Node) -> bool:
    """Whether a node of a functional graph is a view, or one of a list of views, of its first argument."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    return node.target is operator.getitem or (isinstance(node.target, torch._ops.OpOverload) and node.target.is_view)


def is_read_by_strides(node: Node) -> bool:
    """Whether `as_strided` reads the memory of an input of a functional graph."""
    views = [node]
    for view in views:  # grows
        for user in view.users:
            if user.target in (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default):
                return True
            if is_view(user) and user.args[0] is view:
                views.append(user)
    return False


def _source_of(node: Node) -> Node:
    """What a value was written to or may view, as the schemas of operators say it."""
    while node.op == "call_function":
        source = node.args[0] if node.target is operator.getitem else aliased(node)
        if not isinstance(source, Node):
            break
        node = source
    return node


def aliased(node: Node) -> object:
    """The argument that a call returns, written or not, or a view of it."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.returns:
        return None
    if is_view(node):  # a schema does not say it of a list
        return node.args[0]
    schema = node.target._schema
    returned = schema.returns[0].alias_info
    if returned is None:
        return None
    for number, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.before_set & returned.before_set:
            return node.args[number] if number < len(node.args) else node.kwargs.get(argument.name)
    return None
