"""What kernels ask about their target while they are compiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def current_target() -> Any:
    return SimpleNamespace(backend="cpu", arch="cpu", warp_size=1)


def is_cuda() -> bool:
    return False


def is_hip() -> bool:
    return False


def cuda_capability_geq(major: Any, minor: Any = 0) -> bool:
    return False


is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_hip
