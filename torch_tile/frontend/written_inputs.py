"""What a forward graph saves for the backward of an input that is written: a copy, made before the write.

The partitioner takes inputs as free to save, and as values that do not change. A written input holds another value when
the backward runs. Views of it do, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.errors import UnsupportedError
from torch_tile.frontend.common_subexpressions import storage_of

_clone = torch.ops.aten.clone.default
_as_strided = torch.ops.aten.as_strided.default


def written_inputs(joint: Graph) -> set[str]:
    """Names of inputs that the graph writes, or that are written with its results after each call."""
    written = set()
    for node in joint.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            arguments = zip(node.target._schema.arguments, node.args, strict=False)
            named = [(a, node.kwargs[a.name]) for a in node.target._schema.arguments if a.name in node.kwargs]
            for argument, value in (*arguments, *named):
                if argument.is_write and isinstance(value, Node) and value.op == "placeholder":
                    written.add(value.name)
    results = [_origin(d).mutated_input for d in joint.output_node().meta.get("desc", ()) if _is_update(d)]
    for node in joint.find_nodes(op="placeholder"):
        if _origin(node.meta.get("desc")) in results:
            written.add(node.name)
    return written


def _origin(description: Any) -> Any:
    """The tensor that AOTAutograd describes, and not the inner tensor of a subclass."""
    while hasattr(description, "base") and hasattr(description, "attr"):
        description = description.base
    return description


def _is_update(description: Any) -> bool:
    return hasattr(_origin(description), "mutated_input")


def save_copies(forward: GraphModule, backward: GraphModule, written: set[str], num_results: int) -> None:
    """Replaces what `forward` saves of the inputs `written`, and views of them, by the same of a copy.

    Args:
        forward: its outputs are `num_results` results, and then values for the backward.
        backward: its placeholders have the names of those values.
        written: names of placeholders of `forward`.
        num_results: results of the function.

    Raises:
        UnsupportedError: the backward reads the memory of such an input by strides that the copy does not have.
    """
    inputs = forward.graph.find_nodes(op="placeholder")
    storages = {_storage(node) for node in inputs if node.name in written} - {None}
    output = forward.graph.output_node()
    results = list(output.args[0])  # type: ignore[arg-type]
    taken = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    copies: dict[Node, Node] = {}
    for position, saved in enumerate(results[num_results:], num_results):
        if not isinstance(saved, Node) or _storage(saved) not in storages:
            continue
        copy = results[position] = _of_a_copy(saved, copies, inputs[-1])
        node = taken[saved.name]
        if _is_restrided(node) and not _are_laid_out_alike(copy.meta["val"], saved.meta["val"]):
            text = f"as_strided in the backward pass of {saved.name}, which the forward pass writes"
            raise UnsupportedError("partition", text)
        node.meta["val"] = copy.meta["val"]
    if copies:
        output.args = (tuple(results),)
        forward.recompile()


def _storage(node: Node) -> Any:
    value = node.meta.get("val")
    return storage_of(value) if isinstance(value, torch.Tensor) else None


def _of_a_copy(node: Node, copies: dict[Node, Node], last_input: Node) -> Node:
    """The value of `node`, an input or a view, computed from a copy of the input."""
    if node in copies:
        return copies[node]
    graph = node.graph
    source = next((n for n in node.all_input_nodes if _storage(n) == _storage(node)), None)
    if source is None:  # an input, or one of several views that one call makes
        with graph.inserting_after(last_input if node.op == "placeholder" else node):
            copy = graph.call_function(_clone, (node,))
    else:
        of_source = _of_a_copy(source, copies, last_input)
        with graph.inserting_after(node):
            copy = graph.node_copy(node, lambda n: of_source if n is source else n)
    args, kwargs = torch.fx.map_arg((copy.args, copy.kwargs), lambda n: n.meta["val"])
    copy.meta = {**node.meta, "val": copy.target(*args, **kwargs)}  # type: ignore[operator]
    copies[node] = copy
    return copy


def _is_restrided(node: Node) -> bool:
    """Whether `as_strided` reads the memory of a value."""
    reads = [node]
    for read in reads:  # grows
        if any(user.target is _as_strided for user in read.users):
            return True
        reads += [user for user in read.users if _storage(user) == _storage(node) and user not in reads]
    return False


def _are_laid_out_alike(copy: torch.Tensor, original: torch.Tensor) -> bool:
    places = zip((*copy.stride(), copy.storage_offset()), (*original.stride(), original.storage_offset()), strict=True)
    return all(statically_known_true(a == b) for a, b in places)
