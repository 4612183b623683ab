"""Guards of an exported program as checks at the start of its graph, for programs that call it without Python."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from torch_tile.aot.size_guards import NAME

aten = torch.ops.aten
Arguments = Callable[[int], Node | None]
"""The placeholder of the argument of a number; None where the graph has none."""

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.Not: torch.sym_not,
}
_FUNCTIONS = {"max": torch.sym_max, "min": torch.sym_min}


def add_checks(gm: GraphModule, guards: list[str], argument_of: Arguments) -> None:
    """Ends calls of sizes that a guard refuses before anything is read or written.

    A guard that is no arithmetic of integers gets none, as of quotients, powers by sizes and alternatives: the loader
    in Python looks at it.

    Args:
        gm: ready to be printed.
        guards: as `guards_of` gives them.
        argument_of: where an argument is.
    """
    first = next(node for node in gm.graph.nodes if node.op != "placeholder")
    for text in guards:
        with gm.graph.inserting_before(first):
            try:
                condition = _Values(gm.graph, argument_of).of(ast.parse(text, mode="eval").body)
            except (ArithmeticError, LookupError, TypeError, ValueError):
                continue
            if isinstance(condition, Node):
                named = NAME.sub(functools.partial(_named, argument_of), text)
                message = f"sizes of arguments expected {named}, as the exported program does"
                gm.graph.call_function(aten._assert_scalar.default, (condition, message))


def _named(argument_of: Arguments, match: Any) -> str:
    number, dim = match.groups()
    argument = argument_of(int(number))
    name = str(argument.target) if argument is not None else match.group()
    return name if dim is None else f"{name}.size({dim})"


def _is_exponent(node: ast.expr) -> bool:
    """Of a size expression: more than these leave 64 bits."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and 0 <= node.value < 64


class _Values:
    """Parts of a guard: nodes of a graph, and what is known already."""

    def __init__(self, graph: Graph, argument_of: Arguments) -> None:
        self._graph = graph
        self._argument_of = argument_of

    def of(self, node: ast.expr) -> Any:
        """
        Raises:
            ArithmeticError, LookupError, TypeError, ValueError: it is no arithmetic of integers that are sizes.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._size(node.id)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return functools.reduce(self._and, map(self.of, node.values))
        if isinstance(node, ast.Compare):
            operands = [self.of(operand) for operand in (node.left, *node.comparators)]
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            return functools.reduce(self._and, (self._call(_OPERATORS[type(op)], a, b) for op, a, b in pairs))
        if isinstance(node, ast.UnaryOp):
            return self._call(_OPERATORS[type(node.op)], self.of(node.operand))
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Pow) and not _is_exponent(node.right):
                raise ValueError("a power of sizes has a small known exponent")
            return self._call(_OPERATORS[type(node.op)], self.of(node.left), self.of(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            join = functools.partial(self._call, _FUNCTIONS[node.func.id])
            return functools.reduce(join, map(self.of, node.args))
        raise ValueError(type(node).__name__)

    def _size(self, name: str) -> Any:
        match = NAME.fullmatch(name)
        argument = self._argument_of(int(match[1])) if match else None
        if match is None or argument is None:
            raise LookupError(name)
        return argument if match[2] is None else self._call(aten.sym_size.int, argument, int(match[2]))

    def _call(self, function: Callable[..., Any], *operands: Any) -> Any:
        value = function(*(each.meta["val"] if isinstance(each, Node) else each for each in operands))
        if not isinstance(value, (torch.SymInt, torch.SymBool)):
            if not isinstance(value, (int, bool)):
                raise TypeError(type(value).__name__)
            return value
        node = self._graph.call_function(function, operands)
        node.meta["val"] = value
        return node

    def _and(self, left: Any, right: Any) -> Any:
        if isinstance(left, bool):
            return right if left else False
        if isinstance(right, bool):
            return left if right else False
        return self._call(operator.and_, left, right)
