"""Collectives whose fake results have other strides than the real ones.

Results lie row by row, whatever the operand's order. torch's meta functions of these two keep that order, and a result
without the strides that its readers were compiled for is copied: here before `wait_tensor`, while it is still written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def _is_by_rows(x: torch.Tensor) -> bool:
    return torch.empty_like(x).stride() == torch.empty_like(x, memory_format=torch.contiguous_format).stride()


def _by_rows(x: torch.Tensor) -> torch.Tensor:
    return x if _is_by_rows(x) else x.clone(memory_format=torch.contiguous_format)


def collectives() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition; none where torch is built without collectives."""
    ops = torch.ops._c10d_functional
    if not hasattr(ops, "all_reduce_coalesced"):
        return {}
    all_reduce_coalesced, broadcast = ops.all_reduce_coalesced.default, ops.broadcast.default

    def _all_reduce_coalesced(inputs: Sequence[torch.Tensor], *args: Any) -> Any:
        if all(map(_is_by_rows, inputs)):
            return NotImplemented
        return all_reduce_coalesced([_by_rows(x) for x in inputs], *args)

    def _broadcast(x: torch.Tensor, *args: Any) -> Any:
        return NotImplemented if _is_by_rows(x) else broadcast(_by_rows(x), *args)

    return {all_reduce_coalesced: _all_reduce_coalesced, broadcast: _broadcast}
