"""Properties of the target, for kernels at compile time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from torch_tile.targets import capability_of, target_of


class _Current(threading.local):
    """Kernels are traced in several threads at once."""

    device: Any = None


_current = _Current()


@contextlib.contextmanager
def compiling_for(device: Any) -> Iterator[None]:
    """While a kernel is traced: the device that it will run on, or a target like "sm_90"; None for the CPU."""
    outer, _current.device = _current.device, device
    try:
        yield
    finally:
        _current.device = outer


def current_target() -> Any:
    return target_of(_current.device)


def is_cuda() -> bool:
    return _current.device is not None


def is_hip() -> bool:
    return False


def cuda_capability_geq(major: Any, minor: Any = 0) -> bool:
    capability = capability_of(_current.device)
    return capability is not None and capability >= (int(major), int(minor))


is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_hip
