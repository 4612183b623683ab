"""Score and mask functions of `flex_attention`, applied to tiles.

torch traces them for one element: each operator of the FX graph takes and gives tensors without dimensions. Here the
same operators compute tiles of scores, with the types that the values have (scores are float32 in eager mode whatever
the trace says).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile import language
from torch_tile.frontend.tile_operators import CONSTANTS, OPERATORS, SAME, UnsupportedFunctionError
from torch_tile.language.core import tensor

aten = torch.ops.aten
# Its values are of types that Python does not see.
tl: Any = language


class Captured:
    """A tensor that a function captures, or what is left of it after indexing.

    Attributes:
        pointer: to its first element.
        offset: elements from there, a number or tile.
        sizes, strides: of the dimensions that are left, in elements.
        inside: whether all indices so far were in range; None if they are known to be.
    """

    def __init__(self, pointer: Any, sizes: Sequence[Any], strides: Sequence[Any]) -> None:
        self.pointer = pointer
        self.offset: Any = 0
        self.sizes, self.strides = list(sizes), list(strides)
        self.inside: Any = None
        # Whether 32 bits hold all offsets.
        extents = [size * stride for size, stride in zip(sizes, strides, strict=True)]
        self.is_small = sum(extent if isinstance(extent, int) else 1 << 31 for extent in extents) < 1 << 31

    def at(self, indices: Sequence[Any], bounds: dict[int, Any]) -> Captured:
        """Its part at these indices of the leading dimensions.

        Args:
            bounds: by identity of an index that is not negative, a number that it is below.
        """
        found = Captured(self.pointer, self.sizes[len(indices) :], self.strides[len(indices) :])
        found.offset, found.inside, found.is_small = self.offset, self.inside, self.is_small
        for index, size, stride in zip(indices, self.sizes, self.strides, strict=False):
            bound = bounds.get(id(index))
            if isinstance(index, int):
                index = index + size if index < 0 else index
            elif not (isinstance(bound, int) and isinstance(size, int) and bound <= size):
                if bound is None:
                    index = tl.where(index < 0, index + size, index)
                    is_inside = (index >= 0) & (index < size)
                else:
                    is_inside = index < size
                found.inside = is_inside if found.inside is None else found.inside & is_inside
            if not self.is_small and isinstance(index, tensor):
                index = index.to(tl.int64)
            found.offset = found.offset + index * stride
        return found

    def load(self) -> Any:
        if self.sizes:
            raise UnsupportedFunctionError("a captured tensor that is not indexed down to one element")
        if self.inside is None:
            value = tl.load(self.pointer + self.offset)
        else:
            value = tl.load(self.pointer + self.offset, mask=self.inside, other=0)
        return value


# By name, whatever their overload: an instruction or two.
_SHORT = frozenset(
    [
        "add",
        "sub",
        "rsub",
        "mul",
        "neg",
        "abs",
        "minimum",
        "maximum",
        "clamp",
        "where",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "bitwise_and",
        "bitwise_or",
        "logical_and",
        "logical_or",
        "logical_not",
    ]
)
# So many short operators take less than the exponential that follows them.
_FEW_OPERATORS = 8


def _is_short(node: Node) -> bool:
    name = str(getattr(node.target, "overloadpacket", "")).removeprefix("aten.")
    return name in _SHORT or node.target in SAME or node.target in CONSTANTS


class ElementFunction:
    """An FX graph on single elements as a function of tiles.

    Args:
        gm: takes the values first, then what is captured.
        num_values: how many values it takes.
    """

    def __init__(self, gm: GraphModule, num_values: int) -> None:
        self.gm = gm
        self.num_values = num_values
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target is not operator.getitem and node.target not in OPERATORS:
                raise UnsupportedFunctionError(f"the operator {node.target}")
            if node.op in ("call_method", "call_module"):
                raise UnsupportedFunctionError(f"a call of {node.target}")

    def is_short(self) -> bool:
        """Whether it takes few instructions beside products and exponentials of scores, and reads no tensor."""
        placeholders = self.gm.graph.find_nodes(op="placeholder")
        operators = [node for node in self.gm.graph.nodes if node.op == "call_function"]
        has_captured = any(node.users for node in placeholders[self.num_values :])
        return not has_captured and len(operators) <= _FEW_OPERATORS and all(map(_is_short, operators))

    def constant(self) -> Any:
        """The number that it always gives; None if there is none."""
        result = next(iter(self.gm.graph.find_nodes(op="output"))).args[0]
        if isinstance(result, (list, tuple)) and len(result) == 1:
            result = result[0]
        if isinstance(result, Node) and result.target in CONSTANTS:
            return CONSTANTS[result.target](*result.args)
        return None

    def is_identity(self) -> bool:
        """Whether it gives its first value."""
        result = next(iter(self.gm.graph.find_nodes(op="output"))).args[0]
        if isinstance(result, (list, tuple)) and len(result) == 1:
            result = result[0]
        while isinstance(result, Node) and result.target in SAME:
            result = result.args[0]
        return result is next(iter(self.gm.graph.find_nodes(op="placeholder")), None)

    def __call__(self, *values: Any, captured: Sequence[Any] = (), bounds: dict[int, Any] | None = None) -> Any:
        """Its (first) result for tiles and scalars.

        Args:
            captured: a `Captured` for each tensor, or a number.
            bounds: see `Captured.at`.
        """
        given = iter([*values, *captured])
        found: dict[Node, Any] = {}
        run = _Run(bounds or {})
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                found[node] = next(given)
            elif node.op == "get_attr":
                value = getattr(self.gm, str(node.target))
                if not isinstance(value, torch.Tensor) or value.numel() != 1:
                    raise UnsupportedFunctionError("a constant tensor of several elements")
                found[node] = value.item()
            elif node.op == "output":
                result = node.args[0]
                while isinstance(result, (list, tuple)):
                    result = result[0]
                return run.loaded(found[result] if isinstance(result, Node) else result)
            else:
                arguments = torch.fx.map_arg(node.args, found.__getitem__)
                named = torch.fx.map_arg(dict(node.kwargs), found.__getitem__)
                found[node] = run.call(node.target, arguments, named)
        raise AssertionError("a graph without output")


class _Run:
    def __init__(self, bounds: dict[int, Any]) -> None:
        self.bounds = bounds

    def loaded(self, value: Any) -> Any:
        return value.load() if isinstance(value, Captured) else value

    def call(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is aten.index.Tensor:
            source, indices = args
            if not isinstance(source, Captured):
                raise UnsupportedFunctionError("an index into a value that is not captured")
            if any(index is None for index in indices):
                raise UnsupportedFunctionError("an index that skips a dimension")
            return source.at([self.loaded(index) for index in indices], self.bounds)
        if target is aten.select.int:
            source, dim, index = args
            if not isinstance(source, Captured) or dim % len(source.sizes) != 0:
                raise UnsupportedFunctionError("select of a dimension that is not the first")
            return source.at([index], self.bounds)
        if target is operator.getitem:
            raise UnsupportedFunctionError("an operator with several results")
        values = [self.loaded(value) for value in args]
        return OPERATORS[target](*values, **{name: self.loaded(value) for name, value in kwargs.items()})
