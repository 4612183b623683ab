"""Results that view a written input become views of that input itself.

AOTAutograd returns views of the new value. It takes their sizes, strides and, where sizes are symbols, their offset for
those of views of the input; the offset is the input's only if the view is one of the input's memory. It also saves
keeping the new value beside the input.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext, detect_fake_mode
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

_copy = torch.ops.aten.copy_.default


def _is_view(node: Node) -> bool:
    if node.target is operator.getitem:  # of several views
        return isinstance(node.args[0], Node) and node.args[0].op == "call_function" and _is_view(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload) or node.target is torch.ops.aten.as_strided.default:
        return False
    schema = node.target._schema
    returned = schema.returns[0].alias_info if len(schema.returns) == 1 else None
    return returned is not None and not returned.is_write and not schema.is_mutable


def _views_down_to(node: Node, base: Node) -> list[Node] | None:
    """The views that make `node` of `base`, first one first."""
    chain = []
    while node is not base:
        if node.op != "call_function" or not _is_view(node) or not isinstance(node.args[0], Node):
            return None
        chain.append(node)
        node = node.args[0]
    return chain[::-1]


def _new_values(outputs: list[Any], inputs: list[Node], gm: GraphModule, metadata: Any) -> dict[int, Node]:
    """For each input that is written, by position, the value that ends in it."""
    values = {}
    for node in gm.graph.find_nodes(op="call_function", target=_copy):
        if node.args[0] in inputs and isinstance(node.args[1], Node):
            values[inputs.index(node.args[0])] = node.args[1]
    for output, position in zip(outputs, metadata.mutated_inp_runtime_indices, strict=False):
        if isinstance(output, Node):
            values[position] = output
    return values


def _replay(chain: list[Node], node: Node, end: Node, mode: Any) -> Node | None:
    """The views of `chain`, of another tensor; None where its strides do not let it be viewed so."""
    for view in chain:
        with end.graph.inserting_before(end):
            made = end.graph.call_function(view.target, (node, *view.args[1:]), view.kwargs)  # type: ignore[arg-type]
        made.meta = dict(view.meta)
        args, kwargs = pytree.tree_map_only(Node, lambda n: n.meta["val"], (made.args, made.kwargs))
        try:
            with mode:
                made.meta["val"] = view.target(*args, **kwargs)  # type: ignore[operator]
        except RuntimeError:
            end.graph.erase_node(made)
            return None
        node = made
    return node


def view_inputs(gm: GraphModule) -> int:
    """Replaces such results of a forward or inference graph; their number."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    if metadata is None or not any(info.output_type is OutputType.alias_of_input for info in metadata.output_info):
        return 0
    (end,) = gm.graph.find_nodes(op="output")
    outputs, inputs = list(end.args[0]), list(gm.graph.find_nodes(op="placeholder"))
    first = metadata.num_mutated_inp_runtime_indices
    values = _new_values(outputs, inputs, gm, metadata)
    mode = detect_fake_mode([node.meta.get("val") for node in inputs])
    replaced = 0
    for position, info in enumerate(metadata.output_info, first):
        base = info.base_idx
        if info.output_type is not OutputType.alias_of_input or base not in values or position >= len(outputs):
            continue
        output = outputs[position]
        chain = _views_down_to(output, values[base]) if isinstance(output, Node) else None
        if chain is None or mode is None or inputs[base].meta["val"].shape != values[base].meta["val"].shape:
            continue
        node = _replay(chain, inputs[base], end, mode)
        if node is not None and node.meta["val"].shape == output.meta["val"].shape:
            outputs[position] = node
            replaced += 1
    if replaced:
        end.args = (tuple(outputs) if isinstance(end.args[0], tuple) else outputs,)
        for node in reversed(gm.graph.nodes):
            if node.op == "call_function" and not node.users and _is_view(node):
                gm.graph.erase_node(node)
        gm.recompile()
    return replaced
