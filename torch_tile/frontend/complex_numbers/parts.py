"""Values of complex numbers as pairs of real tensors, and what is made of such pairs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.emit import emit_before, emit_traced

aten = torch.ops.aten

PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}

Pair = tuple[Any, Any]
"""Real and imaginary part: nodes, or numbers."""


def value_of(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else node


def is_complex(node: Any) -> bool:
    value = value_of(node)
    return isinstance(value, torch.Tensor) and value.dtype.is_complex


def is_plain(node: Node) -> bool:
    """Whether parts can be made of the value, and the value of parts."""
    value = value_of(node)
    return bool(value.dtype in PARTS and value.device.type == "cpu" and value.layout is torch.strided)


class Parts:
    """Emits the parts of one node before it. `of` gives the pair of an operand."""

    def __init__(self, gm: GraphModule, node: Node, of: Callable[[Node], Pair]) -> None:
        self.node, self._of = node, of
        self.emit: Callable[..., Any] = functools.partial(emit_before, gm, node)
        self.trace: Callable[..., Any] = functools.partial(emit_traced, gm, node)
        self.target: Any = node.target
        value = value_of(node)
        self.dtype: Any = PARTS.get(value.dtype) if isinstance(value, torch.Tensor) else None

    def pair(self, operand: Any, dtype: torch.dtype | None = None) -> Pair:
        """Of any operand; real ones have 0 as their imaginary part."""
        dtype = dtype or self.dtype
        if not isinstance(operand, Node):
            return (operand.real, operand.imag) if isinstance(operand, complex) else (operand, 0.0)
        if not isinstance(value_of(operand), torch.Tensor):  # a size, or a float that changes
            return self.number(operand), 0.0
        parts = self._of(operand) if is_complex(operand) else (operand, 0.0)
        return self.cast(parts[0], dtype), self.cast(parts[1], dtype)

    def number(self, value: Any) -> Any:
        """A 0-d tensor of a number, or of a node that is one."""
        return self.emit(aten.scalar_tensor.default, value, dtype=self.dtype, device=value_of(self.node).device)

    def cast(self, part: Any, dtype: torch.dtype | None) -> Any:
        is_other = isinstance(part, Node) and dtype is not None and value_of(part).dtype is not dtype
        return self.emit(aten._to_copy.default, part, dtype=dtype) if is_other else part

    def times(self, a: Pair, b: Pair) -> Pair:
        product = self._product
        real = self._sum(aten.sub.Tensor, product(a[0], b[0]), product(a[1], b[1]))
        return real, self._sum(aten.add.Tensor, product(a[0], b[1]), product(a[1], b[0]))

    def plus(self, a: Pair, b: Pair) -> Pair:
        return self._sum(aten.add.Tensor, a[0], b[0]), self._sum(aten.add.Tensor, a[1], b[1])

    def _product(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Node) and not isinstance(b, Node):
            return a * b
        return self.emit(aten.mul.Tensor, *((a, b) if isinstance(a, Node) else (b, a)))

    def _sum(self, target: Any, a: Any, b: Any) -> Any:
        if isinstance(a, Node):
            return self.emit(target, a, b)
        if not isinstance(b, Node):
            return a + b if target is aten.add.Tensor else a - b
        if target is aten.add.Tensor:
            return self.emit(target, b, a)
        return self.emit(aten.rsub.Scalar, b, a)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        args = self.node.args
        return args[position] if len(args) > position else self.node.kwargs.get(name, default)


def of_shape(p: Parts, part: Any) -> Any:
    """The part as a tensor of the shape of the node's value."""
    part = part if isinstance(part, Node) else p.number(part)
    if str(value_of(part).shape) == str(value_of(p.node).shape):
        return part
    sizes = list(value_of(p.node).shape)
    for operand in p.node.all_input_nodes:  # sizes that are symbols are read from an operand
        value = value_of(operand)
        for k in range(1, value.dim() + 1) if isinstance(value, torch.Tensor) else ():
            if k <= len(sizes) and isinstance(sizes[-k], torch.SymInt) and str(value.shape[-k]) == str(sizes[-k]):
                sizes[-k] = p.emit(aten.sym_size.int, operand, value.dim() - k)
    return p.emit(aten.expand.default, part, sizes)


def stack_of(emit: Callable[..., Any], real: Any, imag: Any) -> Any:
    return emit(aten.cat.default, [emit(aten.unsqueeze.default, part, -1) for part in (real, imag)], -1)
