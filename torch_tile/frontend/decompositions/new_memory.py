"""Results of functional operators are new memory, also where a decomposition gives back its argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_tile.frontend.common_subexpressions import storage_of

# Their results share memory with the argument, although their schemas do not say so.
_UNDECLARED_VIEWS = frozenset({"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"})


def _makes_new_memory(op: Any) -> bool:
    """Whether eager's results never share memory with an argument.

    Composite operators are what their parts are: `dropout` without training gives its argument back.
    """
    if not isinstance(op, torch._ops.OpOverload) or op._schema.name.split("::")[1] in _UNDECLARED_VIEWS:
        return False
    if op._schema.is_mutable or any(returned.alias_info is not None for returned in op._schema.returns):
        return False
    return not op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


def _copying(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if result is NotImplemented:
            return result
        given = {
            storage
            for leaf in pytree.tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor) and (storage := storage_of(leaf)) is not None
        }
        return pytree.tree_map_only(torch.Tensor, lambda t: t.clone() if storage_of(t) in given else t, result)

    return decomposition


def with_new_results(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The table with a copy in the place of each result that is an argument, or a view of one, and must not be."""
    return {op: _copying(function) if _makes_new_memory(op) else function for op, function in table.items()}
