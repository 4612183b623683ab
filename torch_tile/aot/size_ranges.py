"""Between which numbers sizes of an exported program may lie.

`torch.export` takes sizes that are dynamic to be at least 2 while it traces, and its programs then accept 0 and 1, too.
So do packages, as far as the shapes of the trace hold for them (size_trials.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_tile.aot.size_trials import is_traced_larger, least_given
from torch_tile.package_file import INT64_MAX

_INT64_MIN = -(2**63)


def _accepted(symbol: Any, traced: ValueRanges[Any], least: dict[Any, int]) -> ValueRanges[Any]:
    if not is_traced_larger(traced.lower, traced.upper):
        return traced
    return ValueRanges(max(least_given(traced.lower), least.get(symbol, 0)), traced.upper)


def range_of(size: Any, exported: ExportedProgram, least: dict[Any, int]) -> tuple[int, int]:
    """Least and greatest number that the program accepts for a size of its inputs.

    Args:
        size: a number, or an expression over symbols.
        least: of symbols, as `least_sizes` gives it.
    """
    if not isinstance(size, torch.SymInt):
        return int(size), int(size)
    known = {symbol: _accepted(symbol, limits, least) for symbol, limits in exported.range_constraints.items()}
    limits = bound_sympy(size.node.expr, known)
    lower = int(limits.lower) if limits.lower.is_finite and limits.lower.is_Integer else 0
    if isinstance(size.node.expr, sympy.Expr) and not size.node.expr.is_Symbol:
        # Of a size that is computed of others torch keeps the range that the user gave beside that of the symbol, where
        # a least number of 2 may be that of every trace.
        stated = exported.range_constraints.get(size.node.expr)
        has_lower = stated is not None and stated.lower.is_finite and stated.lower.is_Integer
        lower = max(lower, int(least_given(stated.lower)) if has_lower else 0)
    greatest = int(limits.upper) if limits.upper.is_finite and limits.upper.is_Integer else INT64_MAX
    return max(lower, _INT64_MIN), min(greatest, INT64_MAX)


@contextlib.contextmanager
def as_accepted(gm: GraphModule, least: dict[Any, int]) -> Iterator[None]:
    """While it is open, symbols of the graph's sizes have the ranges that a program accepts."""
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    sizes = [size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else [value])]
    environments = {id(size.node.shape_env): size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)}
    traced = {key: env.var_to_range for key, env in environments.items()}
    try:
        for env in environments.values():
            env.var_to_range = {symbol: _accepted(symbol, limits, least) for symbol, limits in env.var_to_range.items()}
        yield
    finally:
        for key, env in environments.items():
            env.var_to_range = traced[key]
