"""Sizes of tensors as numbers or nodes of a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.launches.launch import NotNative

aten = torch.ops.aten


class Numbers:
    """Finds or makes nodes for sizes before a node of the graph."""

    def __init__(self, gm: GraphModule, before: Node) -> None:
        self.graph, self.before = gm.graph, before
        self.known: dict[Any, Node] = {}
        for node in gm.graph.nodes:
            if node is before:
                break
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self.known.setdefault(value.node.expr, node)

    def of(self, value: Any) -> Any:
        """A number, or the node of a size that is not constant."""
        if isinstance(value, int):
            return value
        return self._of_expression(value.node.expr, value.node.shape_env)

    def call(self, function: Callable[..., Any], *operands: Any) -> Any:
        """The result of an operator of Python on numbers and nodes."""
        if not any(isinstance(operand, Node) for operand in operands):
            return function(*operands)
        with self.graph.inserting_before(self.before):
            node = self.graph.call_function(function, operands)
        node.meta["val"] = function(*(each.meta["val"] if isinstance(each, Node) else each for each in operands))
        return node

    def product(self, *operands: Any) -> Any:
        result: Any = 1
        for operand in operands:
            if isinstance(operand, int) and operand == 1:
                continue
            result = operand if isinstance(result, int) and result == 1 else self.call(operator.mul, result, operand)
        return result

    def _of_expression(self, expression: Any, shape_env: Any) -> Any:
        if expression in self.known:
            return self.known[expression]
        if expression.is_Integer:
            return int(expression)
        if expression.is_Symbol:
            found = self._size_that_is(expression)
        elif isinstance(expression, (sympy.Mul, sympy.Add)):
            function = operator.mul if isinstance(expression, sympy.Mul) else operator.add
            found, *rest = [self._of_expression(part, shape_env) for part in expression.args]
            for part in rest:
                found = self.call(function, found, part)
        else:
            raise NotNative(f"a size {expression}")
        self.known[expression] = found
        return found

    def _size_that_is(self, symbol: Any) -> Node:
        for node in self.graph.nodes:
            if node is self.before:
                break
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            sizes: Any = value.shape
            for dim, size in enumerate(sizes):
                if isinstance(size, torch.SymInt) and size.node.expr == symbol:
                    with self.graph.inserting_before(self.before):
                        found: Node = self.graph.call_function(aten.sym_size.int, (node, dim))
                    found.meta["val"] = size
                    return found
        raise NotNative(f"no tensor has the size {symbol}")
