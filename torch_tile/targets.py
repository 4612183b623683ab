"""What the compiler, and scripts, are told about the device that kernels run on."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import torch

from torch_tile.errors import UnsupportedError

# Architectures that the compiler knows, by (major, minor); csrc/compiler/codegen/Targets.def has the same.
_KNOWN = ((8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))


@functools.cache
def _capability(device: str) -> tuple[int, int]:
    if torch.version.cuda is None:
        raise UnsupportedError("import", f"device {device} needs a torch with CUDA, this is {torch.__version__}")
    return torch.cuda.get_device_capability(device)


def compiler_options(device: str) -> dict[str, str]:
    """The compiler's `target`: for a GPU the newest architecture it knows whose code runs there.

    Raises:
        UnsupportedError: kernels for this device cannot be made.
    """
    if not device.startswith("cuda"):
        return {}
    wanted = _capability(device)
    fitting = [known for known in _KNOWN if known[0] == wanted[0] and known <= wanted]
    if not fitting:
        raise UnsupportedError(
            "import", f"device {device} has compute capability {wanted[0]}.{wanted[1]}, 8.0 or later expected"
        )
    major, minor = max(fitting)
    return {"target": f"sm_{major}{minor}"}


def architecture(device: str) -> str:
    """What PTX is assembled for; empty on the CPU."""
    if not device.startswith("cuda"):
        return ""
    major, minor = _capability(device)
    return f"sm_{major}{minor}"


def target_of(device: torch.device | None) -> Any:
    """Target of kernels on a device, in Triton's terms."""
    if device is None or device.type != "cuda":
        return SimpleNamespace(backend="cpu", arch="cpu", warp_size=1)
    major, minor = torch.cuda.get_device_capability(device)
    return SimpleNamespace(backend="cuda", arch=10 * major + minor, warp_size=32)
