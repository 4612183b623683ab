"""Which operators of a graph are replaced, and how their values are read and written."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.complex_numbers.formulas import BETWEEN, KEPT_VIEWS, REAL_RESULTS, RULES, SLOW, has_operands
from torch_tile.frontend.complex_numbers.parts import Pair, Parts, is_complex, is_plain, of_shape, stack_of, value_of
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.sizes import hint_of

aten = torch.ops.aten


def complex_operands(node: Node) -> Iterable[Node]:
    return (operand for operand in node.all_input_nodes if is_complex(operand))


def has_rule(node: Node) -> bool:
    if node.op != "call_function":
        return False
    operands = list(complex_operands(node))
    if is_complex(node):
        is_known = node.target in RULES and is_plain(node) and has_operands(node)
    else:
        is_known = bool(operands) and node.target in (*REAL_RESULTS, aten.view_as_real.default)
    return is_known and all(map(is_plain, operands))


class _Chains:
    """Sets of nodes with rules that read one another's complex values."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._parents = {node: node for node in nodes}
        for node in self._parents:
            for operand in complex_operands(node):
                if operand in self._parents:
                    self._parents[self._root(operand)] = self._root(node)

    def _root(self, node: Node) -> Node:
        while self._parents[node] is not node:
            self._parents[node] = self._parents[self._parents[node]]
            node = self._parents[node]
        return node

    def worth_it(self) -> set[Node]:
        """Nodes of chains that save a library call or a value in memory."""
        work: dict[Node, int] = {}
        borders: dict[Node, int] = {}
        for node in self._parents:
            root = self._root(node)
            is_between = node.target in BETWEEN
            is_work = not is_between and node.target not in KEPT_VIEWS
            work[root] = work.get(root, 0) + is_work + (node.target in SLOW)
            borders[root] = borders.get(root, 0) + is_between
        return {n for n in self._parents if work[r := self._root(n)] >= 2 or (work[r] and borders[r])}


def _shows_strides(user: Node) -> bool:
    """Whether a node hands on its operand, or a view of it."""
    if not isinstance(user.target, torch._ops.OpOverload):
        return True
    return any(result.alias_info is not None for result in user.target._schema.returns)


def _is_of_caller(value: Node) -> bool:
    """Whether it is a caller's tensor, or a view of one, which may be the conjugate of its memory in another call than
    the traced one. Gradients of conjugates are traced as conjugates, too, and come as other tensors."""
    while value.op == "call_function" and value.all_input_nodes and _shows_strides(value):
        value = value.all_input_nodes[0]
    return value.op == "placeholder"


class _Replacement:
    def __init__(self, gm: GraphModule, chosen: set[Node]) -> None:
        self.gm, self.chosen = gm, chosen
        self.pairs: dict[Node, Pair] = {}
        self.stacks: dict[Node, Node] = {}

    def run(self) -> None:
        for node in list(self.gm.graph.nodes):
            if node not in self.chosen:
                continue
            parts = Parts(self.gm, node, functools.partial(self._of, node))
            if is_complex(node):
                real, imag = (of_shape(parts, part) for part in RULES[node.target](parts))
                self.pairs[node] = real, imag
                self._write(node)
            elif node.target is aten.view_as_real.default:
                self._replace_view(node, parts)
            else:
                node.replace_all_uses_with(REAL_RESULTS[node.target](parts))
        self.gm.graph.eliminate_dead_code()
        self.gm.recompile()

    def _of(self, user: Node, operand: Node) -> Pair:
        """Parts of an operand, read before `user` if there are none."""
        if operand not in self.pairs:
            emit = functools.partial(emit_before, self.gm, user)
            value = emit(aten.resolve_conj.default, operand) if _is_of_caller(operand) else operand
            real = emit(aten.view_as_real.default, value)
            last = value_of(real).dim() - 1
            self.pairs[operand] = emit(aten.select.int, real, last, 0), emit(aten.select.int, real, last, 1)
        return self.pairs[operand]

    def _wants_complex(self, user: Node) -> bool:
        if user not in self.chosen or user.target in KEPT_VIEWS:
            return True
        return user.target is aten.view_as_real.default and bool(self._left(user)) and not self._is_stacked(user)

    def _left(self, view: Node) -> list[Node]:
        """Users of a `view_as_real` that are no parts, or parts of which the caller sees that they are views."""
        last = value_of(view).dim() - 1
        places = [[last, 0], [last, 1], [-1, 0], [-1, 1]]
        return [
            user
            for user in view.users
            if user.target is not aten.select.int
            or list(user.args[1:]) not in places
            or any(map(_shows_strides, user.users))
        ]

    def _is_stacked(self, view: Node) -> bool:
        """Whether a stack of the parts serves as the view: nobody has the complex value, and its elements lie in order,
        as the stack's do."""
        node: Any = view.args[0]
        if node not in self.chosen or node.target in KEPT_VIEWS or not value_of(node).is_contiguous():
            return False
        return all(user in self.chosen and user.target not in KEPT_VIEWS for user in node.users)

    def _write(self, node: Node) -> None:
        """The value as a complex tensor for those who want one."""
        if node.target in KEPT_VIEWS or not any(map(self._wants_complex, node.users)):
            return
        emit = functools.partial(emit_before, self.gm, node)
        value, parts = value_of(node), list(self.pairs[node])
        order = sorted(range(value.dim()), key=lambda dim: hint_of(value.stride(dim)), reverse=True)
        if order != sorted(order):
            parts = [emit(aten.permute.default, part, order) for part in parts]
        made = emit(aten.view_as_complex.default, stack_of(emit, *parts))
        if order != sorted(order):
            made = emit(aten.permute.default, made, [order.index(dim) for dim in range(value.dim())])
        if str(value_of(made).stride()) != str(value.stride()):
            return  # the operator itself stays
        self.pairs[made] = self.pairs[node]
        self.chosen.add(made)
        node.replace_all_uses_with(made)

    def _replace_view(self, view: Node, parts: Parts) -> None:
        left = self._left(view)
        pair = parts.pair(view.args[0], value_of(view).dtype)
        for user in list(view.users):
            if user not in left:
                user.replace_all_uses_with(pair[user.args[2]])  # type: ignore[index]
                self.gm.graph.erase_node(user)
        if left and self._is_stacked(view):
            operand: Any = view.args[0]
            if operand not in self.stacks:
                self.stacks[operand] = stack_of(parts.emit, *pair)
            view.replace_all_uses_with(self.stacks[operand])


def replace_complex(gm: GraphModule) -> int:
    """Rewrites chains of complex operators on the CPU; returns of how many operators."""
    nodes = [node for node in gm.graph.nodes if has_rule(node)]
    while True:
        # What is read from memory has no conjugate bit: parts are those of the memory.
        chosen = _Chains(nodes).worth_it()
        refused = {n for n in chosen if any(o not in chosen and value_of(o).is_conj() for o in complex_operands(n))}
        if not refused:
            break
        nodes = [node for node in nodes if node not in refused]
    if chosen:
        _Replacement(gm, chosen).run()
    return len(chosen)
