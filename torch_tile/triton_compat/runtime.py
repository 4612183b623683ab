"""Triton's `runtime`: the device that kernels run on, and the error of kernels that need more than it has."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch

from torch_tile.errors import OutOfResources
from torch_tile.targets import target_of


class _Active:
    """The device that scripts put their tensors on: a CUDA device if there is one, else the CPU."""

    def get_current_target(self) -> Any:
        return target_of(self.get_active_torch_device())

    def get_active_torch_device(self) -> torch.device:
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return self.get_active_torch_device().index or 0

    def set_current_device(self, device: int) -> None:
        if torch.cuda.is_available():
            torch.cuda.set_device(device)

    def get_current_stream(self, device: int = 0) -> int:
        return torch.cuda.current_stream(device).cuda_stream if torch.cuda.is_available() else 0

    @property
    def utils(self) -> Any:
        return SimpleNamespace(get_device_properties=_properties)


def _properties(device: int) -> dict[str, int]:
    """Sizes that scripts divide by to choose a number of programs."""
    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(device)
        return {
            "multiprocessor_count": found.multi_processor_count,
            "max_num_regs": getattr(found, "regs_per_multiprocessor", 1 << 16),
            "max_shared_mem": getattr(found, "shared_memory_per_block_optin", 48 << 10),
            "warpSize": found.warp_size,
        }
    return {
        "multiprocessor_count": os.cpu_count() or 1,
        "max_num_regs": 1 << 16,
        "max_shared_mem": 1 << 20,
        "warpSize": 1,
    }


errors = SimpleNamespace(OutOfResources=OutOfResources)
driver = SimpleNamespace(active=_Active())
