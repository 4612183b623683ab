"""Properties of the target, for kernels at compile time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from torch_tile.targets import target_of

_device: torch.device | None = None


@contextlib.contextmanager
def compiling_for(device: torch.device | None) -> Iterator[None]:
    """While a kernel is traced: the device that it will run on, None for the CPU."""
    global _device
    outer, _device = _device, device
    try:
        yield
    finally:
        _device = outer


def current_target() -> Any:
    return target_of(_device)


def is_cuda() -> bool:
    return _device is not None


def is_hip() -> bool:
    return False


def cuda_capability_geq(major: Any, minor: Any = 0) -> bool:
    return _device is not None and torch.cuda.get_device_capability(_device) >= (int(major), int(minor))


is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_hip
