"""Epilogues of products and convolutions on the CPU: activations and sums as oneDNN post-ops.

An activation behind a linear layer or a convolution, and a sum with another image behind a convolution, need no pass
over memory of their own then. oneDNN computes activations in float32 to a few units in the last place and rounds once,
so low precision comes out closer than eager's, which rounds in between. Inference alone: training saves what is before
an activation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.config import Settings
from torch_tile.frontend.constant_folding import CASTS
from torch_tile.frontend.fused_dtypes import fused_dtypes
from torch_tile.frontend.sizes import has_strides_of

aten = torch.ops.aten

_VIEWS = frozenset(
    (
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.permute.default,
        aten.transpose.int,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
    )
)
# These read their operands from memory in any case.
_STORED = frozenset((aten.convolution.default, aten.mm.default, aten.addmm.default, aten.bmm.default))
_LOW_PRECISION = (torch.bfloat16, torch.float16)
# Below this oneDNN's calls cost more than ATen's and a kernel; where it has yet to find its code, twice as much.
_LEAST_MULTIPLICATIONS = 1 << 20

Activation = tuple[str, list[float], str]
"""oneDNN's name, numbers and algorithm."""


def _is(node: Any, *targets: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target in targets


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _clamped(node: Any) -> tuple[Any, float | None, float | None] | None:
    """What is clamped, and the bounds."""
    if _is(node, aten.clamp.default, aten.hardtanh.default):
        args = [*node.args, *[None] * (3 - len(node.args))]
        low, high = node.kwargs.get("min", args[1]), node.kwargs.get("max", args[2])
        if node.target is aten.hardtanh.default:
            low, high = -1 if low is None else low, 1 if high is None else high
        if any(bound is not None and _number(bound) is None for bound in (low, high)):
            return None
        return args[0], _number(low), _number(high)
    if _is(node, aten.clamp_min.default) and (low := _number(node.args[1])) is not None:
        return node.args[0], low, None
    if _is(node, aten.clamp_max.default) and (high := _number(node.args[1])) is not None:
        return node.args[0], None, high
    return None


def _relu6_of_sum(node: Any, x: Node) -> bool:
    """`clamp(x + 3, 0, 6)`, in one step or two."""
    outer = _clamped(node)
    if outer is None:
        return False
    inner, low, high = outer
    if low is None and (bounds := _clamped(inner)) is not None and bounds[2] is None:
        inner, low = bounds[0], bounds[1]
    is_sum = _is(inner, aten.add.Tensor, aten.add.Scalar) and not inner.kwargs
    return (low, high) == (0, 6) and is_sum and inner.args[0] is x and _number(inner.args[1]) == 3


def _activation(node: Node, x: Node) -> Activation | None:
    """What `node` is, if it is an activation of `x` that oneDNN computes as eager mode does.

    Its relu and clamps make zero of NaN, so these stay with us.
    """
    args = node.args
    first = args[0] if args else None
    if first is x:
        if node.target is aten.tanh.default:
            return "tanh", [], ""
        if node.target is aten.sigmoid.default:
            return "sigmoid", [], ""
        if node.target is aten.gelu.default:
            return "gelu", [], str(node.kwargs.get("approximate", args[1] if len(args) > 1 else "none"))
        if node.target is aten.silu.default:
            return "swish", [1.0], ""
    if _is(node, aten.mul.Tensor) and x in args:
        other = args[1] if first is x else first
        if _is(other, aten.sigmoid.default) and other.args[0] is x:  # type: ignore[union-attr]
            return "swish", [1.0], ""
    if _is(node, aten.div.Tensor) and not node.kwargs and _number(args[1]) == 6 and _is(first, aten.mul.Tensor):
        a, b = first.args  # type: ignore[union-attr]
        if (a is x and _relu6_of_sum(b, x)) or (b is x and _relu6_of_sum(a, x)):
            return "hardswish", [], ""
    if _is(node, aten.where.self) and args[1] is x and _is(args[2], aten.mul.Tensor, aten.mul.Scalar):
        condition, scaled = args[0], args[2]
        slope = _number(scaled.args[1])  # type: ignore[union-attr]
        is_positive = _is(condition, aten.gt.Scalar) and condition.args == (x, 0)  # type: ignore[union-attr]
        # oneDNN's form with slope 0 is that of relu, which takes NaN for 0.
        if is_positive and scaled.args[0] is x and slope:  # type: ignore[union-attr]
            return "leaky_relu", [slope], ""
    return None


def _only_between(first: Node, last: Node) -> list[Node] | None:
    """Nodes from `first` to `last`, in order, if nothing else reads those before `last`."""
    members, pending = {first, last}, [last]
    while pending:
        for operand in pending.pop().all_input_nodes:
            if operand not in members:
                members.add(operand)
                pending.append(operand)
        if len(members) > 12:
            return None
    if any(user not in members for node in members if node is not last for user in node.users):
        return None
    return [node for node in first.graph.nodes if node in members]


@dataclasses.dataclass
class _Epilogue:
    """A product, the views behind it, and what is done to each element."""

    product: Node
    views: Node  # the product or the last view of it
    end: Node  # has the same values as the views once they are activated
    gone: list[Node]
    activation: Activation


def _find_activation(product: Node) -> _Epilogue | None:
    views = product
    while len(views.users) == 1 and _is(next(iter(views.users)), *_VIEWS):
        views = next(iter(views.users))
    x, dtype = views, product.meta["val"].dtype
    if dtype in _LOW_PRECISION and len(x.users) == 1 and _is(next(iter(x.users)), *CASTS):
        x = next(iter(x.users))
        if x.meta["val"].dtype is not torch.float32:
            return None
    end = x
    for _ in range(6):  # the last of an activation's nodes is reached from any of them
        candidates = list(end.users)
        if not candidates:
            return None
        for end in candidates:
            found = _activation(end, x) if end.op == "call_function" else None
            gone = _only_between(x, end) if found is not None else None
            if found is None or gone is None or end.meta["val"].dtype is not x.meta["val"].dtype:
                continue
            gone = gone[1:]
            if x is not views:
                if len(end.users) != 1 or not _is(next(iter(end.users)), *CASTS):
                    return None
                gone = [x, *gone, end := next(iter(end.users))]
                if end.meta["val"].dtype is not dtype or set(end.kwargs) > {"dtype"}:
                    return None
            return _Epilogue(product, views, end, gone, found)
    return None


class _Fuser:
    def __init__(
        self,
        gm: GraphModule,
        settings: Settings,
        constant: Callable[[Any], torch.Tensor | None],
        add_constant: Callable[..., Node] | None,
    ) -> None:
        self.gm = gm
        self.settings = settings
        self.constant = constant
        self.add_constant = add_constant
        self.num_fused = 0
        self.dtypes, self.convolved = fused_dtypes(settings)

    def run(self) -> int:
        for node in list(self.gm.graph.nodes):
            if _is(node, aten.convolution.default):
                self.fuse_convolution(node)
            elif _is(node, aten.mm.default, aten.addmm.default):
                self.fuse_linear(node)
        return self.num_fused

    def replace(self, found: _Epilogue, made: Node) -> None:
        made.meta.update(found.product.meta)
        found.end.replace_all_uses_with(found.views)
        for node in reversed(found.gone):
            self.gm.graph.erase_node(node)
        found.product.replace_all_uses_with(made)
        self.gm.graph.erase_node(found.product)
        self.num_fused += 1

    # ===-- products ----------------------------------------------------------------------------------------------===#

    def transposed(self, weight: Any, before: Node) -> Node | None:
        """The weight as a linear layer has it, without a copy."""
        if (value := self.constant(weight)) is not None and self.add_constant is not None:
            return self.add_constant(value.t(), before, weight.meta)
        if _is(weight, aten.t.default, aten.permute.default, aten.transpose.int):
            source = weight.args[0].meta["val"]
            if (
                source.dim() == 2
                and has_strides_of(source, torch.contiguous_format)
                and weight.meta["val"].stride(0) == 1
            ):
                return weight.args[0]  # type: ignore[no-any-return]
        return None

    def is_worth_it(self, x: torch.Tensor, weight: torch.Tensor, is_constant: bool) -> bool:
        if weight.dtype is not torch.float32:
            return True
        sizes = [size if isinstance(size, int) else size.node.hint for size in (*x.shape, weight.shape[1])]
        if any(size is None for size in sizes):
            return False
        return sizes[0] > 1 and math.prod(sizes) >= _LEAST_MULTIPLICATIONS * (1 if is_constant else 2)

    def fuse_linear(self, node: Node) -> None:
        has_bias = node.target is aten.addmm.default
        bias: Any
        x: Any
        weight: Any
        bias, x, weight = node.args if has_bias else (None, node.args[0], node.args[1])
        values = [n.meta["val"] for n in (x, weight, bias) if isinstance(n, Node)]
        dtype = values[0].dtype
        if dtype not in self.dtypes or any(v.device.type != "cpu" or v.dtype is not dtype for v in values):
            return
        if has_bias and (values[2].dim() != 1 or values[2].shape[0] != values[1].shape[1]):
            return
        if any(node.kwargs.get(name, 1) != 1 for name in ("alpha", "beta")):
            return
        if not self.is_worth_it(values[0], values[1], self.constant(weight) is not None):
            return
        found = _find_activation(node)
        if found is None or (turned := self.transposed(weight, node)) is None:
            return
        name, numbers, algorithm = found.activation
        with self.gm.graph.inserting_before(node):
            made = self.gm.graph.call_function(
                torch.ops.mkldnn._linear_pointwise.default, (x, turned, bias, name, numbers, algorithm)
            )
        self.replace(found, made)

    # ===-- convolutions ------------------------------------------------------------------------------------------===#

    def fuse_convolution(self, node: Node) -> None:
        args: Any = node.args
        x, weight, bias, stride, padding, dilation, transposed, _, groups = args
        value = node.meta["val"]
        operands = [n.meta["val"] for n in (x, weight, bias) if isinstance(n, Node)]
        if transposed or value.dim() != 4 or value.dtype not in self.convolved:
            return
        if any(v.device.type != "cpu" or v.dtype is not value.dtype for v in operands):
            return
        if not has_strides_of(value, torch.channels_last):
            return
        if any(not isinstance(n, int) for n in (*stride, *padding, *dilation)):
            return
        sizes = (padding, stride, dilation, groups)
        if (found := _find_activation(node)) is not None:
            with self.gm.graph.inserting_before(node):
                made = self.gm.graph.call_function(
                    torch.ops.mkldnn._convolution_pointwise.default, (x, weight, bias, *sizes, *found.activation)
                )
            self.replace(found, made)
        elif groups == 1 and (end := self.residual(node)) is not None:
            other = end.args[1] if end.args[0] is node else end.args[0]
            with self.gm.graph.inserting_before(end):
                made = self.gm.graph.call_function(
                    torch.ops.mkldnn._convolution_pointwise.binary,
                    (x, other, weight, bias, *sizes, "add", 1.0, None, [], None),
                )
            self.replace(_Epilogue(node, node, end, [end], ("", [], "")), made)

    def residual(self, node: Node) -> Node | None:
        """A sum with an image of the same kind, which alone reads the convolution."""
        if len(node.users) != 1:
            return None
        (end,) = node.users
        if not _is(end, aten.add.Tensor) or end.kwargs or end.args[0] is end.args[1]:
            return None
        # A kernel of ours that goes on with the sum computes it at no cost.
        if len(end.users) == 1 and not _is(next(iter(end.users)), *_STORED) and next(iter(end.users)).op != "output":
            return None
        other = end.args[1] if end.args[0] is node else end.args[0]
        if not isinstance(other, Node):
            return None
        a, b, result = node.meta["val"], other.meta["val"], end.meta["val"]
        is_alike = b.dtype is a.dtype and b.device == a.device
        is_alike = is_alike and all(
            str(tuple(f(b))) == str(tuple(f(a))) for f in (torch.Tensor.size, torch.Tensor.stride)
        )
        return end if is_alike and result.dtype is a.dtype else None


def fuse_epilogues(
    gm: GraphModule,
    settings: Settings,
    constant: Callable[[Any], torch.Tensor | None] = lambda node: None,
    add_constant: Callable[..., Node] | None = None,
) -> int:
    """Rewrites products and convolutions with what follows them; returns how many.

    Args:
        gm: an inference graph.
        settings: of this torch.compile call.
        constant: the tensor of a node whose value is known.
        add_constant: makes a node of a tensor: (tensor, node to put it before, its meta).
    """
    if not settings["fusion"]:
        return 0
    return _Fuser(gm, settings, constant, add_constant).run()
