"""What the compiler, and scripts, are told about the device that kernels run on."""

from __future__ import annotations

import difflib
import functools
from types import SimpleNamespace
from typing import Any

import torch

from torch_tile.errors import OptionError, UnsupportedError

# Architectures that the compiler knows, by (major, minor); csrc/compiler/codegen/Targets.def has the same.
_KNOWN = ((8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))


# Whose matrix instructions of four warps no later generation has: code for it runs nowhere else.
_SPECIAL = ((9, 0),)


def _name(major: int, minor: int) -> str:
    return f"sm_{major}{minor}" + ("a" if (major, minor) in _SPECIAL else "")


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
    return {"target": _name(major, minor)}


def architecture(device: str) -> str:
    """What PTX is assembled for; empty on the CPU."""
    if not device.startswith("cuda"):
        return ""
    return _name(*_capability(device))


def target_of(device: torch.device | None) -> Any:
    """Target of kernels on a device, in Triton's terms."""
    if device is None or device.type != "cuda":
        return SimpleNamespace(backend="cpu", arch="cpu", warp_size=1)
    major, minor = torch.cuda.get_device_capability(device)
    return SimpleNamespace(backend="cuda", arch=10 * major + minor, warp_size=32)


@functools.cache
def check_processor(name: str) -> None:
    """Whether kernels for a processor can be made and run here.

    Raises:
        OptionError: LLVM does not know it, or this processor lacks instructions that it has.
    """
    from torch_tile import _C

    known, missing = _C.describe_processor(name)
    if missing:
        raise OptionError(f"option 'target': {name!r} has instructions that this processor lacks: {', '.join(missing)}")
    if name in known:
        return
    levels = [each for each in known if each.startswith("x86-64")]
    nearest = [each for each in difflib.get_close_matches(name, known, n=3, cutoff=0.5) if each not in levels]
    hint = f" (the nearest: {', '.join(nearest)})" if nearest else ""
    raise OptionError(
        f"option 'target' expected {', '.join(['host', *levels])} or another of LLVM's names of processors{hint}, "
        f"got {name!r}"
    )
