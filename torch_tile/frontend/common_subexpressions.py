"""Merges equal calls of a joint graph before partitioning, so that the backward saves a value once.

The partitioner can do this itself, but its version imports Inductor's lowerings, half a second of every training
process (torch 2.13).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.multiprocessing.reductions import StorageWeakRef

_UNINITIALISED = frozenset({torch.ops.aten.empty, torch.ops.aten.empty_strided, torch.ops.aten.empty_like})


def storage_of(value: torch.Tensor) -> StorageWeakRef | None:
    """What tells tensors of one storage from others; None for tensors without one."""
    if value.layout is not torch.strided:
        return None
    try:
        return StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]
    except (NotImplementedError, RuntimeError):  # a subclass without storage
        return None


def _storage(node: Node) -> StorageWeakRef | None:
    value = node.meta.get("val")
    return storage_of(value) if isinstance(value, torch.Tensor) else None


def _is_pure(node: Node) -> bool:
    target = node.target
    if node.op != "call_function" or isinstance(target, torch._ops.HigherOrderOperator):
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__module__", None) in ("_operator", "operator", "math")
    if target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    # Equal calls that return sizes return different symbols; what is not initialised is not equal.
    if node.meta.get("unbacked_bindings") or target.overloadpacket in _UNINITIALISED:
        return False
    return target.namespace in ("aten", "prims") and not node.is_impure()


def _token(value: Any) -> Any:
    """Hashable, and different for values that compare equal but mean something else (1, 1.0, True)."""
    if isinstance(value, Node):
        return value
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(_token(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _token(v)) for k, v in sorted(value.items()))
    if isinstance(value, slice):
        return "slice", _token(value.start), _token(value.stop), _token(value.step)
    return type(value), repr(value) if isinstance(value, float) else value  # repr: 0.0 and -0.0


def merge_common_subexpressions(graph: Graph) -> int:
    """Replaces calls by equal earlier ones; what leaves the graph keeps storage of its own.

    Args:
        graph: functional ATen ops but for input mutations at its end, with `meta["val"]`.

    Returns:
        How many calls are gone.
    """
    leaving = {s for node in graph.output_node().all_input_nodes if (s := _storage(node)) is not None}
    # A read before and one after a mutation differ: only what lies before the first one is merged.
    seen: dict[Any, Node] = {}
    merged = 0
    for node in list(graph.nodes):
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            break
        if not _is_pure(node) or _storage(node) in leaving:
            continue
        try:  # what is to be recomputed must not stand for what need not be
            key = node.target, _token(node.args), _token(node.kwargs), node.meta.get("recompute")
            first = seen.setdefault(key, node)
        except TypeError:  # an argument that cannot be hashed
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            merged += 1
    return merged
