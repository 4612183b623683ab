"""Folds per-channel arithmetic into weights: batch norm in eval mode, biases, scales.

`(convolution(x, w) + b) * s + t` is `convolution(x, w * s) + (b * s + t)`. The new weight and bias are computed in
float64 and rounded once to the dtype they had, so float32 results differ by roundings alone. In bfloat16 and float16
the scaled weight is rounded instead of the product, which is as far from the exact result.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import torch
from torch.fx import Node

from torch_tile.frontend.constant_folding import CASTS, Constants, Report

log = logging.getLogger(__name__)
aten = torch.ops.aten

_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
_ADD = (aten.add.Tensor, aten.add.Scalar)
_SUB = (aten.sub.Tensor, aten.sub.Scalar)
_MUL = (aten.mul.Tensor, aten.mul.Scalar)
_DIV = (aten.div.Tensor, aten.div.Scalar)


@dataclasses.dataclass
class _Product:
    """A convolution or a product of matrices with a constant weight."""

    node: Node
    x: Any
    weight: torch.Tensor
    bias: torch.Tensor | None
    channels: int
    is_convolution: bool

    def weight_scaled(self, scale: torch.Tensor) -> torch.Tensor:
        sizes = (-1,) + (1,) * (self.weight.dim() - 1) if self.is_convolution else (1, -1)
        scaled = (self.weight.double() * scale.view(sizes)).to(self.weight.dtype)
        result = torch.empty_strided(
            self.weight.shape, self.weight.stride(), dtype=self.weight.dtype, device=self.weight.device
        )
        return result.copy_(scaled)


def _find(constants: Constants, node: Node) -> _Product | None:
    if node.target is aten.convolution.default:
        weight, bias = constants.value(node.args[1]), constants.value(node.args[2])
        if weight is None or (node.args[2] is not None and bias is None) or node.args[6]:
            return None
        return _Product(node, node.args[0], weight, bias, weight.shape[0], True)
    if node.target is aten.mm.default:
        weight = constants.value(node.args[1])
        return None if weight is None else _Product(node, node.args[0], weight, None, weight.shape[1], False)
    if node.target is aten.addmm.default and not any(node.kwargs.get(name, 1) != 1 for name in ("alpha", "beta")):
        weight, bias = constants.value(node.args[2]), constants.value(node.args[0])
        if weight is None or bias is None or bias.numel() != weight.shape[1]:
            return None
        return _Product(node, node.args[1], weight, bias.reshape(-1), weight.shape[1], False)
    return None


def _per_channel(constants: Constants, operand: Any, product: _Product, rank: int) -> torch.Tensor | None:
    """One float64 number for each channel; None if the operand is not of that kind."""
    if isinstance(operand, (int, float)) and not isinstance(operand, bool):
        return torch.full((product.channels,), float(operand), dtype=torch.float64, device=product.weight.device)
    value = constants.value(operand)
    if value is None or not value.is_floating_point() or value.dim() > rank or value.device != product.weight.device:
        return None
    sizes = (1,) * (rank - value.dim()) + tuple(value.shape)
    channel = 1 if product.is_convolution else rank - 1
    if any(size != 1 for dim, size in enumerate(sizes) if dim != channel):
        return None
    if sizes[channel] not in (1, product.channels):
        return None
    return value.reshape(-1).double().expand(product.channels)


@dataclasses.dataclass
class _Step:
    """What a chain of operations has made of the product: `value * scale + shift`."""

    scale: torch.Tensor
    shift: torch.Tensor

    def then(self, constants: Constants, node: Node, before: Node, product: _Product) -> _Step | None:
        if len(node.args) < 2 or any(name != "alpha" for name in node.kwargs):
            return None
        first, second = node.args[:2]
        rank = node.meta["val"].dim()
        alpha = node.kwargs.get("alpha", 1)
        if first is second or not isinstance(alpha, (int, float)):
            return None
        c = _per_channel(constants, second if first is before else first, product, rank)
        if c is None:
            return None
        is_first = first is before
        if node.target in _MUL and alpha == 1:
            return _Step(self.scale * c, self.shift * c)
        if node.target in _DIV and alpha == 1 and is_first:
            return _Step(self.scale / c, self.shift / c)
        if node.target in _ADD or node.target in _SUB:
            sign = -alpha if node.target in _SUB else alpha
            if is_first:
                return _Step(self.scale, self.shift + sign * c)
            return _Step(self.scale * sign, self.shift * sign + c)
        return None


def _keeps_channels(node: Node, before: Node) -> bool:
    if node.target not in _VIEWS or node.args[0] is not before:
        return False
    new, old = node.meta["val"].shape, before.meta["val"].shape
    return len(new) > 0 and isinstance(new[-1], int) and isinstance(old[-1], int) and new[-1] == old[-1]


def _is_same(a: Node, b: Node) -> bool:
    return bool(a.meta["val"].shape == b.meta["val"].shape)


def _scale(constants: Constants, product: _Product) -> bool:
    dtype = product.weight.dtype
    one = torch.ones(product.channels, dtype=torch.float64, device=product.weight.device)
    step = _Step(one, torch.zeros_like(one))
    node, gone, pending = product.node, list[tuple[Node, Node]](), list[tuple[Node, Node]]()
    done = step
    while len(node.users) == 1:
        (user,) = node.users
        value = user.meta.get("val")
        if user.op != "call_function" or not isinstance(value, torch.Tensor):
            break
        if not product.is_convolution and _keeps_channels(user, node):
            if pending:  # a view between operations in another dtype
                break
            node = user
            continue
        if user.target in CASTS:
            is_plain = set(user.kwargs) <= {"dtype"} and user.args[0] is node
            if not is_plain or value.dtype not in (torch.float32, torch.float64, dtype):
                break
        elif not _is_same(user, node) or value.dtype not in (torch.float32, dtype):
            break
        elif (following := step.then(constants, user, node, product)) is not None:
            step = following
        else:
            break
        pending.append((user, node))
        node = user
        if value.dtype is dtype:
            gone += pending
            done = step
            pending = []
    if not gone:
        return False
    weight, shift = product.weight, done.shift
    if not torch.equal(done.scale, one):
        weight = product.weight_scaled(done.scale)
    if product.bias is not None:
        shift = shift + product.bias.double() * done.scale
    bias = shift.to(dtype)
    if not (weight.isfinite().all() and bias.isfinite().all()):
        return False
    for user, before in reversed(gone):
        user.replace_all_uses_with(before)
        constants.gm.graph.erase_node(user)
    _replace(constants, product, weight, bias if product.bias is not None or done.shift.any() else None)
    return True


def _replace(constants: Constants, product: _Product, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    node, graph = product.node, constants.gm.graph
    new_weight = constants.add(weight, node, node.meta)
    new_bias = None if bias is None else constants.add(bias, node, node.meta)
    if product.is_convolution:
        node.args = (product.x, new_weight, new_bias, *node.args[3:])
        return
    with graph.inserting_before(node):
        if new_bias is None:
            made = graph.call_function(aten.mm.default, (product.x, new_weight))
        else:
            made = graph.call_function(aten.addmm.default, (new_bias, product.x, new_weight))
    made.meta.update(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def scale_weights(constants: Constants, report: Report) -> None:
    """Takes arithmetic by channel into constant weights and biases, wherever nothing else reads the product."""
    for node in list(constants.gm.graph.nodes):
        product = _find(constants, node) if node.op == "call_function" else None
        if product is None or not product.weight.is_floating_point() or product.weight.numel() == 0:
            continue
        try:
            report.num_scaled += _scale(constants, product)
        except Exception as error:  # computed ahead, before the graph changes; the call computes it as it stands
            log.info("the weight of %s stays as it is: %s", node.name, error)
    constants.remove_unused()
