"""Biases of convolutions on CUDA as ops of their own: sums, and for their gradients reductions.

cuDNN's convolutions are called without the bias, which eager mode adds in a kernel of its own, in place. As an op of
the graph, the sum is a part of the kernel that reads the result, and the gradient's reduction one of the kernel that
computes the gradient of the result.
"""

from __future__ import annotations

import operator

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import GraphModule, Node

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.launches.embed_kernels import own_copy

aten = torch.ops.aten

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _is_of_cudnn(weight: torch.Tensor, groups: object) -> bool:
    """Whether eager mode rounds the result of the convolution before it adds the bias. The kernels for one filter per
    channel that are not cuDNN's add before they round.

    Args:
        groups: an int, or the node of one that may change from call to call.
    """
    if weight.device.type != "cuda" or not torch.backends.cudnn.enabled or torch.version.hip is not None:
        return False
    may_be_depthwise = groups != 1 and not (isinstance(weight.shape[1], int) and weight.shape[1] > 1)
    return weight.dtype in _DTYPES and not may_be_depthwise


def _has_bias(node: Node) -> bool:
    """Whether the node is a convolution whose bias becomes an op of its own."""
    if node.target is not aten.convolution.default or node.args[2] is None:
        return False
    return _is_of_cudnn(node.args[1].meta["val"], node.args[8])  # type: ignore[union-attr]


def _has_bias_gradient(node: Node) -> bool:
    if node.target is not aten.convolution_backward.default or not node.args[10][2]:  # type: ignore[index]
        return False
    if any(user.target is not operator.getitem for user in node.users):
        return False
    return _is_of_cudnn(node.args[2].meta["val"], node.args[9])  # type: ignore[union-attr]


def _separate_bias(gm: GraphModule, node: Node) -> None:
    value = node.meta["val"]
    image = emit_before(gm, node.next, aten.view.default, node.args[2], [-1] + [1] * (value.dim() - 2))
    image.meta = {**node.meta, "val": image.meta["val"]}
    with gm.graph.inserting_after(image):
        biased = gm.graph.call_function(aten.add.Tensor, (node, image))
    # The strides of the convolution, as those of eager mode's sum in place; asking a fake sum would make guards.
    with value.fake_mode:
        sum_in_place = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    biased.meta = {**node.meta, "val": sum_in_place}
    for made in (image, biased):
        made.meta.pop("tensor_meta", None)
    node.replace_all_uses_with(biased, delete_user_cb=lambda user: user is not biased)
    node.update_arg(2, None)


def _separate_gradient(gm: GraphModule, node: Node) -> None:
    gradient = node.args[0]
    num_dims = gradient.meta["val"].dim()  # type: ignore[union-attr]
    total = emit_before(gm, node, aten.sum.dim_IntList, gradient, [0, *range(2, num_dims)])
    for user in list(node.users):
        if user.args[1] == 2:
            user.replace_all_uses_with(total)
            gm.graph.erase_node(user)
    node.update_arg(10, [*node.args[10][:2], False])  # type: ignore[index, misc]
    node.meta["val"] = (*node.meta["val"][:2], None)


def separate_biases(gm: GraphModule, settings: Settings) -> GraphModule:
    """The graph with biases of convolutions, and gradients of such, as ops of their own; the same graph where it has
    none on CUDA."""
    if not settings["fusion"] or not limits.is_on(settings, "convolution_biases"):
        return gm
    if not any(_has_bias(node) or _has_bias_gradient(node) for node in gm.graph.nodes):
        return gm
    gm = own_copy(gm)
    with enable_python_dispatcher():  # fake results of sizes that are known at run time alone
        for node in list(gm.graph.nodes):
            if _has_bias(node):
                _separate_bias(gm, node)
            elif _has_bias_gradient(node):
                _separate_gradient(gm, node)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm
