"""Convolutions in channels last: images, filters and the ops around them change their memory order.

On the CPU, in inference: oneDNN computes either order in blocks of channels, and with channels last these lie in memory
as they are: 1.1 to 1.8 times as fast for images of 14 to 64 points square, and three times where each channel has its
own filter. On CUDA, in training too: cuDNN's matrix instructions take channels last alone; of other orders it makes
copies, and a filter for each channel has slow kernels. Results of the graph keep their strides.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from torch_tile.frontend.constant_folding import Constants, Report
from torch_tile.frontend.sizes import has_strides_of

aten = torch.ops.aten
log = logging.getLogger(__name__)

_VIEWS = (aten.view.default, aten._unsafe_view.default)
# These read memory, not elements.
_BY_STRIDES = (aten.as_strided.default, aten.as_strided_scatter.default, aten.as_strided_copy.default)
_NAMESPACES = ("aten", "prims", "torch_tile")


class _Refused(Exception):
    """The graph has something that other strides would change."""


# Filters that are no constants are copied in each call, at the cost of as many points of the result.
_LEAST_POINTS = 64
# What oneDNN gains on the CPU by channels last, per element of a result, in units of what a copy of an element to the
# other order takes (0.6 to 1 ns; both scale with threads). Measured on images of 14 to 224 points square with AVX-512:
# filters of several points gain 0.01 to 0.03 ns for each multiplication, those of one group for each channel 0.4 to
# 1.4 ns an element, those of groups of a few channels -0.1 to 1.6, and those of one point nothing.
_GAIN_OF_FILTERS, _GAIN_OF_MULTIPLICATION, _GAIN_OF_GROUPS, _GAIN_OF_SINGLE_CHANNELS = 0.5, 0.01, 0.5, 1.0


def _is_candidate_of_cudnn(weight: torch.Tensor, groups: Any) -> bool:
    """Whether cuDNN has fast kernels for these filters. Those for groups of several channels are slow in channels last,
    and so are those for single ones in float32."""
    if not torch.backends.cudnn.enabled or weight.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return False
    # `allow_tf32` raises where convolutions and recurrent layers have different precisions.
    precision = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    if weight.dtype is torch.float32 and precision != "tf32":
        return False
    return bool(groups == 1 or (weight.shape[1] == 1 and weight.dtype is not torch.float32))


def _is_candidate(constants: Constants, node: Node) -> bool:
    if node.target is not aten.convolution.default or node.args[6]:
        return False
    weight, result = node.args[1].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    if weight.dim() != 4 or result.dim() != 4:
        return False
    if weight.device.type == "cuda":
        return _is_candidate_of_cudnn(weight, node.args[8])
    if weight.device.type != "cpu" or not torch._C._has_mkldnn or not torch._C._get_mkldnn_enabled():
        return False
    if weight.dtype is torch.bfloat16:
        is_supported = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    else:
        is_supported = weight.dtype is torch.float32
    if not is_supported or constants.value(node.args[1]) is not None or has_strides_of(weight, torch.channels_last):
        return is_supported
    sizes = [n if isinstance(n, int) else n.node.hint for n in (result.shape[0], *result.shape[2:])]
    return all(n is not None for n in sizes) and math.prod(sizes) >= _LEAST_POINTS


def _strides(value: Any) -> list[str]:
    # As text, for comparing symbolic ones would be a guard.
    return [str(tuple(v.stride())) for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def _sizes(value: Any) -> list[str]:
    return [str(tuple(v.shape)) for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


class _Change:
    """Gives nodes new strides; all of it can be taken back."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.graph = constants.gm.graph
        self.before: dict[Node, Any] = {}  # values of nodes whose strides changed
        self.undo: list[Callable[[], Any]] = []
        self.copies: list[Node] = []

    def set_value(self, node: Node, value: Any) -> None:
        old = node.meta["val"]
        self.before.setdefault(node, old)
        self.undo.append(lambda: node.meta.__setitem__("val", old))
        node.meta["val"] = value

    def replace_operand(self, node: Node, old: Node, new: Node) -> None:
        if new is old:
            return
        node.replace_input_with(old, new)
        self.undo.append(lambda: node.replace_input_with(new, old))

    def restored(self, operand: Node, user: Node) -> Node:
        """A copy with the strides that the value had; only what is copied to such is known to be cheap."""
        old = self.before[operand]
        for memory_format in (torch.contiguous_format, torch.channels_last):
            if not isinstance(old, torch.Tensor) or (memory_format is torch.channels_last and old.dim() != 4):
                continue
            with self.mode(), torch.no_grad():
                value = operand.meta["val"].clone(memory_format=memory_format)
            if _strides(value) == _strides(old):
                break
        else:
            raise _Refused(f"the strides of {operand.name} are needed")
        copy = self.copied(operand, user, memory_format)
        self.replace_operand(user, operand, copy)
        return copy

    def copied(self, operand: Node, before: Node, memory_format: torch.memory_format) -> Node:
        with self.graph.inserting_before(before):
            copy = self.graph.call_function(aten.clone.default, (operand,), {"memory_format": memory_format})
        self.undo.append(lambda: self.graph.erase_node(copy))
        self.copies.append(copy)
        copy.meta.update({k: v for k, v in operand.meta.items() if k not in ("val", "tensor_meta")})
        with self.mode(), torch.no_grad():
            copy.meta["val"] = operand.meta["val"].clone(memory_format=memory_format)
        return copy

    def mode(self) -> Any:
        assert self.constants.mode is not None
        return self.constants.mode

    def restore_operands(self, node: Node) -> None:
        for operand in node.all_input_nodes:
            if operand in self.before:
                self.restored(operand, node)

    def visit(self, node: Node) -> None:
        if node.op == "output":
            self.restore_operands(node)
            return
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            if target.namespace not in _NAMESPACES or target in _BY_STRIDES:
                self.restore_operands(node)
                return
        elif getattr(target, "__module__", None) not in ("_operator", "operator"):
            self.restore_operands(node)
            return
        if node.meta.get("unbacked_bindings"):
            raise _Refused(f"{node.name} makes sizes of values")
        try:
            value = self.run(node)
        except (RuntimeError, ValueError):
            if target not in _VIEWS:
                raise _Refused(f"{node.name} depends on strides") from None
            self.restore_operands(node)
            return
        old = node.meta.get("val")
        if _sizes(value) != _sizes(old):
            raise _Refused(f"{node.name} depends on strides")
        if _strides(value) != _strides(old):
            self.set_value(node, value)

    def run(self, node: Node) -> Any:
        args, kwargs = pytree.tree_map_only(Node, lambda n: n.meta["val"], (node.args, node.kwargs))
        with self.mode(), torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]


def _elements(value: torch.Tensor) -> int | None:
    """As many as there were, where sizes are dynamic; None where that depends on data."""
    sizes = [size if isinstance(size, int) else size.node.hint for size in value.shape]
    return None if any(size is None for size in sizes) else math.prod(sizes)


def _gain(node: Node) -> float | None:
    """Of a convolution on the CPU, in copies of an element; None where its size is not known."""
    weight, groups = node.args[1].meta["val"], node.args[8]  # type: ignore[union-attr]
    count, multiplications = _elements(node.meta["val"]), _elements(weight[0])
    if count is None or multiplications is None:
        return None
    if groups != 1:
        return count * (_GAIN_OF_SINGLE_CHANNELS if weight.shape[1] == 1 else _GAIN_OF_GROUPS)
    if weight.shape[2] == weight.shape[3] == 1:
        return 0
    return count * (_GAIN_OF_FILTERS + _GAIN_OF_MULTIPLICATION * multiplications)


def _is_worth_it(convolutions: list[Node], copies: list[Node]) -> bool:
    """Whether those on the CPU, if there are any, gain more than copies between the two orders of memory take."""
    gains = [_gain(node) for node in convolutions if node.meta["val"].device.type == "cpu"]
    costs = [_elements(copy.meta["val"]) for copy in copies if copy.meta["val"].device.type == "cpu"]
    if not gains or any(each is None for each in (*gains, *costs)):
        return True
    return sum(gains) > sum(costs)  # type: ignore[arg-type]


def _filters(change: _Change, weight: Node, before: Node) -> Node:
    """The same with channels last."""
    constants = change.constants
    if (value := constants.value(weight)) is not None:
        # Not contiguous(): strides of filters of one point would be taken for either order.
        moved = torch.empty_like(value, memory_format=torch.channels_last).copy_(value)
        return constants.add(moved, before, weight.meta)
    if has_strides_of(weight.meta["val"], torch.channels_last):
        return weight
    return change.copied(weight, before, torch.channels_last)


def put_channels_last(constants: Constants, report: Report, device_type: str | None = None) -> None:
    """Gives images and filters of convolutions channels last, and the results of the graph the strides they had.

    Args:
        device_type: convolutions on other devices stay as they are.
    """
    graph = constants.gm.graph
    convolutions = [n for n in graph.nodes if n.op == "call_function" and _is_candidate(constants, n)]
    if device_type is not None:
        convolutions = [n for n in convolutions if n.meta["val"].device.type == device_type]
    if not convolutions:
        return
    change = _Change(constants)
    filters: dict[Node, Node] = {}
    images: dict[Node, Node] = {}

    def in_channels_last(image: Node, user: Node) -> Node:
        if image not in images:
            is_so = has_strides_of(image.meta["val"], torch.channels_last)
            images[image] = image if is_so else change.copied(image, user, torch.channels_last)
        return images[image]

    try:
        for node in list(graph.nodes):
            if node.op in ("placeholder", "get_attr"):
                continue
            if node in convolutions:
                image, weight = node.args[:2]
                if weight not in filters:
                    filters[weight] = _filters(change, weight, node)
                change.replace_operand(node, weight, filters[weight])
                change.replace_operand(node, image, in_channels_last(image, node))
                change.visit(node)
            elif node.target is aten.convolution_backward.default and node.args[2] in filters:
                gradient, image, weight = node.args[:3]
                for operand in (gradient, image):
                    change.replace_operand(node, operand, in_channels_last(operand, node))
                change.replace_operand(node, weight, filters[weight])
                change.visit(node)
            elif any(operand in change.before for operand in node.all_input_nodes):
                change.visit(node)
        if not _is_worth_it(convolutions, change.copies):
            raise _Refused("copies would take longer than convolutions gain")
    except _Refused as reason:
        for undo in reversed(change.undo):
            undo()
        log.info("convolutions keep their order of channels: %s", reason)
        if device_type is None and len({node.meta["val"].device.type for node in convolutions}) > 1:
            put_channels_last(constants, report, "cuda")
    else:
        report.num_channels_last = len(convolutions)
    constants.remove_unused()
