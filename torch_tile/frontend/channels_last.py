"""Convolutions in channels last: images, filters and the ops around them change their memory order.

On the CPU, in inference: oneDNN computes either order in blocks of channels, and with channels last these lie in memory
as they are. Where filters are large and images small, copies of the filters take longer than that gains. On CUDA, in
training too: cuDNN's matrix instructions take channels last alone; of other orders it makes copies, and a filter for
each channel has slow kernels. Results of the graph keep their strides.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from torch_tile.frontend.constant_folding import Constants, Report
from torch_tile.frontend.pointwise_convolutions import has_filters_of_one_point
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
# What the CPU gains by channels last, and what it costs, in units of what a copy of an element to the other order takes
# (0.6 to 1 ns; all of it scales with threads). Measured with AVX-512 on images of 7 to 112 points square. oneDNN saves
# the copies to blocks of channels and back: 0.1 to 0.5 ns for each element of image and result, up to 1.5 where these
# leave the caches. Products in place of filters of one point (pointwise_convolutions.py) gain as much, and 0.001 to
# 0.015 ns for each multiplication. Filters that are copied in each call cost 0.5 to 1.6 ns for each element, since
# oneDNN's own copy of them takes longer, too.
_GAIN_OF_ORDER, _GAIN_OF_PRODUCTS, _COST_OF_FILTERS = 0.3, 0.002, 1.5
_NS_OF_COPY = 0.8


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
    if not is_supported or constants.value(node.args[1]) is not None or _are_last(weight):
        return is_supported
    sizes = [n if isinstance(n, int) else n.node.hint for n in (result.shape[0], *result.shape[2:])]
    return all(n is not None for n in sizes) and math.prod(sizes) >= _LEAST_POINTS


def _are_last(weight: torch.Tensor) -> bool:
    """Whether filters lie in memory as with channels last. The order of filters of one point is the same in both."""
    is_point = all(isinstance(size, int) and size == 1 for size in weight.shape[2:])
    return has_strides_of(weight, torch.channels_last) or (is_point and has_strides_of(weight, torch.contiguous_format))


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


@functools.cache
def _gain_of_multiplication() -> float:
    """What oneDNN gains on this processor for each multiplication of filters of several points: on some it has other
    code for channels last, with 0.01 to 0.03 ns, on others nothing. Measured once in a process, in 5 to 20 ms."""
    options: Any = {"dtype": torch.float32, "device": "cpu"}  # whatever the user's defaults are
    image, filters = torch.zeros(1, 256, 14, 14, **options), torch.zeros(64, 256, 3, 3, **options)
    multiplications = 14 * 14 * filters.numel()
    least = [math.inf, math.inf]
    orders = (torch.contiguous_format, torch.channels_last)
    operands = [[x.contiguous(memory_format=order) for x in (image, filters)] for order in orders]
    with torch.no_grad():
        for _ in range(6):  # the first of them finds oneDNN without its code
            for which, (pixels, weight) in enumerate(operands):
                start = time.perf_counter()
                torch.nn.functional.conv2d(pixels, weight, padding=1)
                least[which] = min(least[which], time.perf_counter() - start)
    gain = (least[0] - least[1]) * 1e9 / multiplications
    # Less than this is the copies of the image, or chance; more is another process at the wrong moment.
    return min(gain, 0.02) / _NS_OF_COPY if gain > 0.004 else 0.0


def _gain(node: Node, are_products: bool, per_multiplication: float = 0.0) -> float | None:
    """Of a convolution on the CPU, in copies of an element; None where its size is not known."""
    image, weight = (operand.meta["val"] for operand in node.args[:2])  # type: ignore[union-attr]
    taken, given, multiplications = _elements(image), _elements(node.meta["val"]), _elements(weight[0])
    if taken is None or given is None or multiplications is None:
        return None
    gain = _GAIN_OF_ORDER * (taken + given)
    if weight.shape[2] == weight.shape[3] == 1:
        is_product = are_products and has_filters_of_one_point(node)
        return gain + _GAIN_OF_PRODUCTS * given * multiplications if is_product else 0
    return gain + per_multiplication * given * multiplications if node.args[8] == 1 else gain


def _is_worth_it(convolutions: list[Node], copies: list[Node], are_products: bool) -> bool:
    """Whether those on the CPU, if there are any, gain more than copies between the two orders of memory take."""
    filters = {node.args[1] for node in convolutions}
    convolutions = [node for node in convolutions if node.meta["val"].device.type == "cpu"]
    gains = [_gain(node, are_products) for node in convolutions]
    copies = [copy for copy in copies if copy.meta["val"].device.type == "cpu"]
    elements = [_elements(copy.meta["val"]) for copy in copies]
    if not gains or any(each is None for each in (*gains, *elements)):
        return True
    factors = [_COST_OF_FILTERS if copy in filters else 1.0 for copy in copies]
    costs = [count * factor for count, factor in zip(elements, factors, strict=True)]  # type: ignore[operator]
    if sum(gains) > sum(costs):  # type: ignore[arg-type]
        return True
    # What takes time to find out is asked for where it may decide.
    per_multiplication = _gain_of_multiplication()
    return sum(_gain(node, are_products, per_multiplication) or 0 for node in convolutions) > sum(costs)


def _filters(change: _Change, weight: Node, before: Node) -> Node:
    """The same with channels last."""
    constants = change.constants
    if (value := constants.value(weight)) is not None:
        # Not contiguous(): strides of filters of one point would be taken for either order.
        moved = torch.empty_like(value, memory_format=torch.channels_last).copy_(value)
        return constants.add(moved, before, weight.meta)
    if _are_last(weight.meta["val"]):
        return weight
    return change.copied(weight, before, torch.channels_last)


def put_channels_last(
    constants: Constants, report: Report, device_type: str | None = None, are_products: bool = False
) -> None:
    """Gives images and filters of convolutions channels last, and the results of the graph the strides they had.

    Args:
        device_type: convolutions on other devices stay as they are.
        are_products: convolutions with filters of one point become products where the images have channels last.
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
        if not _is_worth_it(convolutions, change.copies, are_products):
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
