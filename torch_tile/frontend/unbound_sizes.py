"""Sizes of inputs that are sums of numbers which a graph does not get.

`F.pad(x, (n, k))` with tensors as amounts has a size of `u0 + u1 + 16`. Its gradient gets the numbers once more under
other names, as AOTAutograd reads them again, and only the sum of the first ones, as the size of a tensor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch.fx import GraphModule
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from torch_tile.frontend import stated_sizes


def _numbers(gm: GraphModule) -> Iterator[torch.SymInt]:
    """Inputs that are numbers, and the sizes and strides of those that are tensors."""
    for node in gm.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        is_strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
        numbers = [*value.shape, *value.stride()] if is_strided else [value]
        yield from (number for number in numbers if isinstance(number, torch.SymInt))


def _is_unbacked(symbol: Any) -> bool:
    return bool(symbol_is_type(symbol, SymT.UNBACKED_INT))


def _solutions(gm: GraphModule) -> tuple[dict[Any, Any], list[Any]]:
    """Symbols, or what sizes have of them, by what they are in terms of new ones, and those."""
    expressions = [number.node.expr for number in _numbers(gm)]
    expressions = [e for e in expressions if any(map(_is_unbacked, e.free_symbols))]
    if all(e.is_Symbol for e in expressions):
        return {}, []
    known = {e for e in expressions if e.is_Symbol}
    for node in gm.graph.nodes:
        known.update(node.meta.get("unbacked_bindings") or ())
    solutions: dict[Any, Any] = {}
    new: list[Any] = []
    for expression in expressions:
        rest = expression.subs(solutions)
        for symbol in sorted(filter(_is_unbacked, rest.free_symbols - known - set(new)), key=str):
            parts = [part for part in sympy.Add.make_args(rest) if symbol in part.free_symbols]
            if len(parts) != 1:
                continue
            size = sympy.Symbol(f"u_size{len(new)}", integer=True, nonnegative=True)
            new.append(size)
            others = rest - parts[0]
            if parts[0] == -symbol:
                solutions[symbol] = others - size
            else:  # twice the number, or its maximum with another, is all that the graph may have of it
                solutions[parts[0]] = size - others
            break
    return solutions, new


@contextlib.contextmanager
def solved(gm: GraphModule) -> Iterator[None]:
    """While the graph is read, such sums are sizes of their own, and the numbers are written in terms of them."""
    first = next(_numbers(gm), None)
    solutions, new = _solutions(gm) if first is not None else ({}, [])
    if first is None or not solutions:
        yield
        return
    shape_env = first.node.shape_env
    try:
        shape_env.var_to_range.update({size: ValueRanges(0, int_oo) for size in new})
        with stated_sizes.also(solutions, shape_env):
            yield
    finally:
        for size in new:
            del shape_env.var_to_range[size]
