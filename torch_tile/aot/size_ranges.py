"""Between which numbers sizes of an exported program may lie.

`torch.export` takes sizes that are dynamic to be at least 2 while it traces, and its programs then accept 0 and 1, too.
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

from torch_tile.package_file import INT64_MAX

_INT64_MIN = -(2**63)
# A bound up to here is that of tracing, not one that the program was given.
_LEAST_TRACED = 2


def _accepted(traced: ValueRanges[Any]) -> ValueRanges[Any]:
    return ValueRanges(0, traced.upper) if 0 < traced.lower <= _LEAST_TRACED <= traced.upper else traced


def range_of(size: Any, exported: ExportedProgram) -> tuple[int, int]:
    """Least and greatest number that the program accepts for a size of its inputs."""
    if not isinstance(size, torch.SymInt):
        return int(size), int(size)
    known = {symbol: _accepted(limits) for symbol, limits in exported.range_constraints.items()}
    limits = bound_sympy(size.node.expr, known)
    least = int(limits.lower) if limits.lower.is_finite and limits.lower.is_Integer else 0
    if isinstance(size.node.expr, sympy.Expr) and not size.node.expr.is_Symbol:
        least = max(least, 0)  # of a size that is computed of others
    greatest = int(limits.upper) if limits.upper.is_finite and limits.upper.is_Integer else INT64_MAX
    return max(least, _INT64_MIN), min(greatest, INT64_MAX)


@contextlib.contextmanager
def as_accepted(gm: GraphModule) -> Iterator[None]:
    """While it is open, symbols of the graph's sizes have the ranges that a program accepts."""
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    sizes = [size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else [value])]
    environments = {id(size.node.shape_env): size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)}
    traced = {key: env.var_to_range for key, env in environments.items()}
    try:
        for env in environments.values():
            env.var_to_range = {symbol: _accepted(limits) for symbol, limits in env.var_to_range.items()}
        yield
    finally:
        for key, env in environments.items():
            env.var_to_range = traced[key]
