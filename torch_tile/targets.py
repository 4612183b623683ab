"""What the compiler, and scripts, are told about the device that kernels run on."""

from __future__ import annotations

import difflib
import functools
from types import SimpleNamespace
from typing import Any

import torch

from torch_tile import config
from torch_tile.errors import OptionError, UnsupportedError

# Architectures that the compiler knows, by (major, minor); csrc/compiler/codegen/Targets.def has the same.
_KNOWN = ((8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))


# Whose matrix instructions of four warps no later generation has: code for it runs nowhere else.
_SPECIAL = ((9, 0),)


def _name(major: int, minor: int) -> str:
    return f"sm_{major}{minor}" + ("a" if (major, minor) in _SPECIAL else "")


def gpu_targets() -> list[str]:
    """Names of the GPUs that the compiler knows."""
    plain = [f"sm_{major}{minor}" for major, minor in _KNOWN]
    return sorted({*plain, *(_name(*each) for each in _SPECIAL)}, key=lambda name: (len(name.rstrip("a")), name))


@functools.cache
def _capability(device: str) -> tuple[int, int]:
    if torch.version.cuda is None:
        raise UnsupportedError("import", f"device {device} needs a torch with CUDA, this is {torch.__version__}")
    return torch.cuda.get_device_capability(device)


def capability_of(device: Any) -> tuple[int, int] | None:
    """Compute capability of a device, or of a target like "sm_90"; None for the CPU.

    Raises:
        OptionError: no such target.
    """
    name = str(device) if device is not None else ""
    if name.startswith("cuda"):
        return _capability(name)
    if not name.startswith("sm_"):
        return None
    digits = name[3:].removesuffix("a")
    found = (int(digits[:-1]), int(digits[-1])) if len(digits) > 1 and digits.isdigit() else (0, 0)
    if found not in _KNOWN:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in _KNOWN)
        raise OptionError(f"target expected one of {known}, got {name!r}")
    return found


# Of a block, in KB, by architecture; csrc/compiler/codegen/Targets.def has one more, of a multiprocessor.
_SHARED_KILOBYTES = {(8, 6): 99, (8, 9): 99, (12, 0): 99, (8, 0): 163, (8, 7): 163}


def shared_bytes(device: str) -> int:
    """How much shared memory code for a device, or a target like "sm_90", may use in a block; no limit on the CPU."""
    options = compiler_options(device)
    if not options:
        return 1 << 62
    known = capability_of(options["target"])
    assert known is not None
    return _SHARED_KILOBYTES.get(known, 227) << 10


def compiler_options(device: str) -> dict[str, str]:
    """The compiler's `target`: for a GPU the newest architecture it knows whose code runs there.

    Args:
        device: like "cuda:0", or a target like "sm_90".

    Raises:
        UnsupportedError: kernels for this device cannot be made.
    """
    wanted = capability_of(device)
    if wanted is None:
        return {}
    if device.startswith("sm_"):
        return {"target": device}
    fitting = [known for known in _KNOWN if known[0] == wanted[0] and known <= wanted]
    if not fitting:
        raise UnsupportedError(
            "import", f"device {device} has compute capability {wanted[0]}.{wanted[1]}, 8.0 or later expected"
        )
    major, minor = max(fitting)
    return {"target": _name(major, minor)}


def architecture(device: str) -> str:
    """What PTX is assembled for; empty on the CPU."""
    found = capability_of(device)
    if found is None:
        return ""
    return device if device.startswith("sm_") else _name(*found)


def target_of(device: Any) -> Any:
    """Target of kernels on a device, or on one of a target like "sm_90", in Triton's terms."""
    found = capability_of(device)
    if found is None:
        return SimpleNamespace(backend="cpu", arch="cpu", warp_size=1)
    major, minor = found
    return SimpleNamespace(backend="cuda", arch=10 * major + minor, warp_size=32)


@functools.cache
def check_processor(name: str) -> None:
    """Whether kernels for a processor can be made and run here.

    Raises:
        OptionError: LLVM does not know it, or this processor lacks instructions that it has.
    """
    from torch_tile import _C

    if name.startswith(("sm_", "cuda")):
        raise OptionError(
            f"{config.given_as('target', name)} expected a processor, got the GPU {name!r}: graphs are compiled for "
            "the GPU that their inputs are on, and torch_tile.aot.package(..., targets=[...]) compiles for other ones"
        )
    known, missing = _C.describe_processor(name)
    if missing:
        where = config.given_as("target", name)
        raise OptionError(f"{where}: {name!r} has instructions that this processor lacks: {', '.join(missing)}")
    if name in known:
        return
    levels = [each for each in known if each.startswith("x86-64")]
    nearest = [each for each in difflib.get_close_matches(name, known, n=3, cutoff=0.5) if each not in levels]
    hint = f" (the nearest: {', '.join(nearest)})" if nearest else ""
    raise OptionError(
        f"{config.given_as('target', name)} expected {', '.join(['host', *levels])} or another of LLVM's names of "
        f"processors{hint}, got {name!r}"
    )
