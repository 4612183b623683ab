"""What scripts written for Triton ask of `triton.runtime`: which device kernels run on."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch


class _Active:
    """The device of this package: the CPU."""

    def get_current_target(self) -> Any:
        return SimpleNamespace(backend="cpu", arch="cpu", warp_size=1)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    @property
    def utils(self) -> Any:
        # Sizes that scripts divide by to choose a number of programs.
        properties = {
            "multiprocessor_count": os.cpu_count() or 1,
            "max_num_regs": 1 << 16,
            "max_shared_mem": 1 << 20,
            "warpSize": 1,
        }
        return SimpleNamespace(get_device_properties=lambda device: properties)


driver = SimpleNamespace(active=_Active())
