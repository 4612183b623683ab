"""Sizes of arguments that have to be multiples: of a size which no argument has, as `2 * torch.export.Dim("half")`, or
of a number that the program was traced with, as a `torch.export.Dim.AUTO` that is divided by 2.

A program reads its symbols from sizes of its inputs. So `half` becomes `s0 // 2`, where `s0` is the size of the
argument, and the argument is an input twice: one has the size `2*(s0 // 2)`, the other one the size `s0`. A call in
which these differ is refused, for its size is no multiple of 2.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.sym_node import SymNode
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv, Mod
from torch.utils._sympy.value_ranges import ValueRanges

from torch_tile.errors import UnsupportedError
from torch_tile.frontend.sizes import hint_of

Step = tuple[int, int, int, int]
"""Of a size of an argument: the argument's number, the dimension, what the size is a multiple of, and the remainder."""


@dataclasses.dataclass
class Derived:
    """A size of an argument that is factor * symbol + offset, where `symbol` is a multiple of a number."""

    argument: Node
    dim: int
    symbol: Any
    factor: int
    offset: int
    multiple: int

    @property
    def step(self) -> int:
        return self.factor * self.multiple

    def symbol_of(self, size: Any) -> Any:
        """The symbol, told from the size."""
        return self.multiple * FloorDiv(size - self.offset, self.step)


def derived_sizes(arguments: list[Node], written: set[str]) -> list[Derived]:
    """For each symbol that no argument has as a size, or that has to be a multiple, what it can be told from.

    Raises:
        UnsupportedError: a size that cannot be told from others; names the argument.
    """
    sizes = [(node, dim, size) for node in arguments for dim, size in _sizes_of(node)]
    known = {expr for _, _, size in sizes if (expr := size.node.expr).is_Symbol}
    multiples = _multiples(sizes[0][2].node.shape_env) if sizes else {}
    chosen: dict[Any, Derived] = {}
    for node, dim, size in sizes:
        if (found := _linear(size.node.expr)) is None:
            continue
        each = Derived(node, dim, *found, multiples.get(found[0], 1))
        # An argument that is written cannot be two inputs.
        is_better = each.symbol not in chosen or (each.factor, node.name in written) < (
            chosen[each.symbol].factor,
            chosen[each.symbol].argument.name in written,
        )
        is_wanted = size.node.expr.is_Symbol and each.multiple > 1 if each.symbol in known else True
        if is_wanted and is_better:
            chosen[each.symbol] = each
    for node, dim, size in sizes:
        if not size.node.expr.free_symbols <= known | chosen.keys():
            raise UnsupportedError(
                "package",
                f"argument `{node.name}`: size {size.node.expr} of dimension {dim} expected to be a torch.export.Dim, "
                "or a multiple of one and a number",
            )
    # An integer argument is not compared with sizes.
    numbers = {size.node.expr for node, _, size in sizes if not isinstance(node.meta["val"], torch.Tensor)}
    return [each for each in chosen.values() if each.symbol not in numbers]


def _multiples(env: Any) -> dict[Any, int]:
    """Symbols that a guard of the trace says to be multiples of a number: Eq(Mod(6*s0, 12), 0)."""
    found: dict[Any, int] = {}
    for guard in (guard.expr for guard in env.guards):
        if not isinstance(guard, sympy.Eq) or not isinstance(guard.lhs, Mod) or guard.rhs != 0:
            continue
        value, divisor = guard.lhs.args
        linear = _linear(value)
        if linear is not None and linear[2] == 0 and divisor.is_Integer:
            number = int(divisor) // math.gcd(linear[1], int(divisor))
            found[linear[0]] = math.lcm(found.get(linear[0], 1), number)
    return found


def _sizes_of(node: Node) -> Iterator[tuple[int, torch.SymInt]]:
    value = node.meta["val"]
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    return ((dim, size) for dim, size in enumerate(sizes) if isinstance(size, torch.SymInt))


def _linear(expr: Any) -> tuple[Any, int, int] | None:
    """The symbol, its factor, and what is added, if the expression is of that form."""
    if len(expr.free_symbols) != 1:
        return None
    (symbol,) = expr.free_symbols
    try:
        offset = expr.subs(symbol, 0)
        factor = expr.subs(symbol, 1) - offset
    except ZeroDivisionError:  # a quotient by the symbol
        return None
    if not (offset.is_Integer and factor.is_Integer and factor > 0):
        return None
    return (symbol, int(factor), int(offset)) if sympy.expand(factor * symbol + offset - expr) == 0 else None


def tell_sizes(gm: GraphModule, sources: dict[str, Any], written: set[str]) -> list[Step]:
    """Put what a call knows in place of symbols that it does not.

    Args:
        gm: ready to be printed; its values are changed, not those that they were copied from. Gets more inputs.
        sources: for each placeholder by name the number of an argument, or a constant. Gets those of the new inputs.
        written: names of placeholders that the graph writes.

    Returns:
        What not every integer in the range of a size fits.

    Raises:
        UnsupportedError: a size that cannot be told from others; names the argument.
    """
    arguments = [n for n in gm.graph.find_nodes(op="placeholder") if isinstance(sources[n.name], int)]
    derived = derived_sizes(arguments, written)
    steps = [(sources[each.argument.name], each.dim, each.step, each.offset % each.step) for each in derived]
    renaming: _Renaming | None = None
    inputs = dict[Node, dict[int, torch.SymInt]]()
    for each in derived:
        if each.step > 1 and each.argument.name in written:
            if each.factor == 1 and each.offset == 0:
                continue  # the symbol is the size, which the loader looks at
            raise UnsupportedError(
                "package",
                f"argument `{each.argument.name}` is written, and its dimension {each.dim} has a size that is a "
                f"multiple of {each.step}; return the new value instead",
            )
        renaming = renaming or _Renaming(each.argument.meta["val"].shape[each.dim].node.shape_env)
        size = renaming.add(each)
        if each.step > 1:
            inputs.setdefault(each.argument, {})[each.dim] = size
    steps = [step for step in steps if step[2] > 1]
    if renaming is None:
        return steps
    for node in (n for module in gm.modules() if isinstance(module, GraphModule) for n in module.graph.nodes):
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(renaming.renamed, node.meta["val"])
    for node, sizes in inputs.items():
        value = node.meta["val"]
        with gm.graph.inserting_after(node):
            added = gm.graph.placeholder(f"{node.name}_sizes")
        added.meta["val"] = _tensor_like(value, [sizes.get(k, n) for k, n in enumerate(value.shape)], value.stride())
        sources[added.name] = sources[node.name]
    return steps


class _Renaming:
    """Values of a graph with other symbols, in a shape environment of their own: an exported program keeps its one."""

    def __init__(self, env: Any) -> None:
        self._env = copy.copy(env)
        self._env.var_to_range = dict(env.var_to_range)
        # The older name for the table is a property in newer versions, and a warning.
        self._hints = "backed_var_to_val" if hasattr(env, "backed_var_to_val") else "var_to_val"
        setattr(self._env, self._hints, dict(getattr(env, self._hints)))
        self._expressions: dict[Any, Any] = {}

    def add(self, derived: Derived) -> torch.SymInt:
        """The size, as a symbol."""
        size, names = derived.argument.meta["val"].shape[derived.dim], {str(s) for s in self._env.var_to_range}
        name = next(name for k in range(len(names) + 1) if (name := f"s{k}") not in names)
        symbol = sympy.Symbol(name, integer=True, positive=True)
        bounds = self._env.var_to_range[derived.symbol]
        self._env.var_to_range[symbol] = ValueRanges(
            derived.factor * bounds.lower + derived.offset, derived.factor * bounds.upper + derived.offset
        )
        getattr(self._env, self._hints)[symbol] = sympy.Integer(hint_of(size))
        self._expressions[derived.symbol] = derived.symbol_of(symbol)
        return torch.SymInt(SymNode(symbol, self._env, int, hint_of(size)))  # type: ignore[no-untyped-call]

    def renamed(self, value: Any) -> Any:
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            node: Any = value.node
            expr = node.expr.xreplace(self._expressions)
            return type(value)(SymNode(expr, self._env, node.pytype, getattr(node, "_hint", None)))
        if isinstance(value, FakeTensor) and value._has_symbolic_sizes_strides:
            return _tensor_like(value, *(tuple(map(self.renamed, n)) for n in (value.shape, value.stride())))
        return value


def _tensor_like(value: FakeTensor, sizes: Any, strides: Any) -> FakeTensor:
    meta = torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    return FakeTensor(value.fake_mode, meta, value.device)
