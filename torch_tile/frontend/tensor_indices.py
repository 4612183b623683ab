"""Indices that are integer tensors of no dimension: `cache[position]`, `x[i, :] = 0`.

Indexing takes their numbers, as eager mode does: a view of one slice. Dynamo leaves them tensors in its graph, of which
AOTAutograd then asks numbers that it does not have.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from torch_tile.frontend.dynamo_calls import tensors_in
from torch_tile.frontend.replaced_calls import Call

_BYTES = (torch.bool, torch.uint8)  # masks
_SIMPLE = (int, torch.SymInt, slice, torch.Tensor)


def _is_number(index: Any) -> bool:
    if not isinstance(index, torch.Tensor) or index.dim() > 0:
        return False
    return not (index.is_floating_point() or index.is_complex() or index.dtype in _BYTES)


def _is_batched(x: torch.Tensor) -> bool:
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False


def _consumed(part: Any) -> int:
    """Dimensions that a part of an index is for."""
    if part is None or part is Ellipsis:
        return 0
    return part.dim() if isinstance(part, torch.Tensor) and part.dtype in _BYTES else 1


def _selected(x: torch.Tensor, index: Any) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """What the numbers of an index leave, and the rest of the index: symbolic integers are for `select` alone."""
    parts = index if isinstance(index, tuple) else (index,)
    dim, behind, rest = 0, x.dim() - sum(map(_consumed, parts)), []
    for part in parts:
        if _is_number(part) or isinstance(part, (int, torch.SymInt)):
            x = x.select(dim, part.item() if isinstance(part, torch.Tensor) else part)  # type: ignore[arg-type]
            continue
        rest.append(part)
        dim += behind if part is Ellipsis else _consumed(part)
    return x, tuple(rest) or (Ellipsis,)


def read(x: torch.Tensor, index: Any) -> torch.Tensor:
    """As `x[index]`."""
    x, rest = _selected(x, index)
    return x if rest == (Ellipsis,) else x[rest]


def write(x: torch.Tensor, index: Any, value: Any) -> None:
    """As `x[index] = value`."""
    x, rest = _selected(x, index)
    x[rest] = value


_REPLACEMENTS: dict[Any, Callable[..., Any]] = {operator.getitem: read, operator.setitem: write}


def choose(node: Node) -> Call | None:
    """`read` or `write` where a tensor of no dimension is an index beside slices, numbers and tensors."""
    if node.target not in _REPLACEMENTS:
        return None
    parts = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    if any(map(_is_batched, tensors_in(node.args[1]))):
        return None  # vmap has rules for an index that differs from one sample to the next
    values = [p.meta.get("example_value") if isinstance(p, Node) else p for p in parts]
    is_simple = all((isinstance(v, _SIMPLE) and not isinstance(v, bool)) or v is None or v is Ellipsis for v in values)
    if not is_simple or not any(map(_is_number, values)):
        return None
    return _REPLACEMENTS[node.target], node.args, node.kwargs
