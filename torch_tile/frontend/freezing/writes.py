"""Writes to frozen parameters and buffers that torch does not count."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_tile import _C

# Buffers of up to so many bytes are compared at each call, 1 us or so each. Running statistics of batch norm, which its
# kernels write without counting, have 4 bytes a channel.
_MOST_COMPARED_BYTES = 64 << 10


def state_of(tensor: torch.Tensor) -> _C.TensorState:
    """What tells whether a parameter or buffer is the same in a later call."""
    is_compared = (
        not isinstance(tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and tensor.nbytes <= _MOST_COMPARED_BYTES
    )
    return _C.TensorState(tensor, is_compared)


class FrozenTensors:
    """Addresses of the tensors that a program has frozen, as long as it is there."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self.addresses = frozenset(tensor._cdata for tensor in tensors)
        _all_frozen.add(self)
        _watch_optimizers()


_all_frozen: weakref.WeakSet[FrozenTensors] = weakref.WeakSet()
_watching: list[Any] = []


def _watch_optimizers() -> None:
    if not _watching:
        _watching.append(register_optimizer_step_post_hook(_count_fused_step))


def _count_fused_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Fused optimizers write parameters in kernels that leave the version as it was. Compiled steps count theirs."""
    if torch.compiler.is_compiling():
        return
    fused = [p for group in optimizer.param_groups if group.get("fused") for p in group["params"]]
    if fused:
        addresses = frozenset[int]().union(*(frozen.addresses for frozen in list(_all_frozen)))
        torch.autograd.graph.increment_version([p for p in fused if p._cdata in addresses])
