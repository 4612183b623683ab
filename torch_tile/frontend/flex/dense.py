"""`flex_attention` and its gradient as operators of the graph, with the score and mask functions inlined.

torch's reference says what they compute; traced into the graph, all that lies between its two products becomes fused
kernels: scaling, score and mask functions with what they capture, softmax, and their gradients.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from torch_tile.frontend.flex.call import reference_of


def inline_flex_attention(gm: GraphModule, node: Node, decompositions: dict[Any, Any]) -> None:
    """Replaces a call by the operators of torch's reference.

    Raises:
        Exception: of any kind, where it cannot be traced.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    from torch_tile.frontend.higher_order import fake_mode

    # The package has an attribute of this name that is the operator.
    definitions = importlib.import_module("torch._higher_order_ops.flex_attention")
    reference = getattr(definitions, reference_of(node))
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    constants: dict[int, Any] = {}
    inputs: list[Node] = []
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, Node):
            constants[place] = leaf
        elif leaf.op == "get_attr" and not isinstance(value := getattr(gm, str(leaf.target)), torch.Tensor):
            constants[place] = value
        else:
            inputs.append(leaf)

    def call(*values: Any) -> Any:
        given = iter(values)
        actual = [constants[place] if place in constants else next(given) for place in range(len(leaves))]
        args, kwargs = pytree.tree_unflatten(actual, spec)
        return _as_declared(reference(*_with_exact_sums(node, args), **kwargs), node.meta["val"])

    values = [each.meta["val"] for each in inputs]
    with fake_mode(values), _asking_for_gradients(gm, node):
        traced = make_fx(call, decompositions)(*values)
    traced.graph.eliminate_dead_code()
    if not _has_all_used(node, next(iter(traced.graph.find_nodes(op="output"))).args[0]):
        raise ValueError("its results are not those of the reference")
    _replace(gm, node, traced, inputs)


def _as_declared(results: Any, declared: Any) -> Any:
    """torch declares the logarithms of the sums of rows, and their maxima, as float32 for operands of float64 too."""
    if isinstance(results, (tuple, list)):
        return type(results)(_as_declared(*pair) for pair in zip(results, declared, strict=True))
    is_other = isinstance(results, torch.Tensor) and results.dtype is not declared.dtype
    return results.to(declared.dtype) if is_other else results


def _with_exact_sums(node: Node, args: Any) -> Any:
    """Arguments of the gradient of float64: the sums that the forward pass kept have the digits of float32."""
    is_backward = str(node.target) == "flex_attention_backward"
    if not is_backward or args[0].dtype is not torch.float64 or args[4].dtype is torch.float64:
        return args
    definitions = importlib.import_module("torch._higher_order_ops.flex_attention")
    _, sums, _ = definitions.sdpa_dense(*args[:3], args[7], *args[9:])
    return (*args[:4], sums, *args[5:])


def _has_all_used(node: Node, results: Any) -> bool:
    """torch declares gradients of all captured tensors; the reference has those that somebody asks for."""
    for user in node.users:
        item = results[user.args[1]]
        if isinstance(item, (tuple, list)):
            if not _has_all_used(user, item):
                return False
        elif item is None and user.users:
            return False
    return True


@contextlib.contextmanager
def _asking_for_gradients(gm: GraphModule, node: Node) -> Iterator[None]:
    """The reference gives gradients of captured tensors that ask for them; values of a graph do not say so."""
    changed: list[tuple[torch.Tensor, bool]] = []
    if str(node.target) == "flex_attention_backward":
        joint: Any = getattr(gm, str(node.args[8]))
        gradients = next(iter(joint.graph.find_nodes(op="output"))).args[0][5:]
        captured: Any = node.args[12]
        for buffer, gradient in zip(captured, gradients, strict=True):
            value = buffer.meta["val"] if isinstance(buffer, Node) else None
            if isinstance(value, torch.Tensor) and value.requires_grad != (gradient is not None):
                changed.append((value, value.requires_grad))
                value.requires_grad_(gradient is not None)
    try:
        yield
    finally:
        for value, before in changed:
            value.requires_grad_(before)


def _replace(gm: GraphModule, node: Node, traced: GraphModule, inputs: list[Node]) -> None:
    environment: dict[Node, Any] = dict(zip(traced.graph.find_nodes(op="placeholder"), inputs, strict=True))
    result: Any = None
    kept = {k: v for k, v in node.meta.items() if k in ("stack_trace", "nn_module_stack", "seq_nr")}
    with gm.graph.inserting_before(node):
        for each in traced.graph.nodes:
            if each.op == "output":
                result = torch.fx.map_arg(each.args[0], environment.__getitem__)
            elif each.op == "get_attr":
                name = f"{node.name}_{each.target}"
                gm.register_buffer(name, getattr(traced, str(each.target)))
                environment[each] = gm.graph.get_attr(name)
            elif each.op != "placeholder":
                environment[each] = gm.graph.node_copy(each, environment.__getitem__)
                environment[each].meta.update(kept)
    _replace_items(gm, node, result)


def _replace_items(gm: GraphModule, node: Node, value: Any) -> None:
    """Users take the items of a list."""
    for user in list(node.users):
        assert user.target is operator.getitem, user
        item = value[user.args[1]]
        if isinstance(item, (tuple, list)):
            _replace_items(gm, user, item)
        else:
            user.replace_all_uses_with(item)
            gm.graph.erase_node(user)
    gm.graph.erase_node(node)
