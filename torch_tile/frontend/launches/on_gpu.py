"""Launches of Triton kernels on a GPU whose kernels are compiled here: option `triton_compiler`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_tile.frontend.launches.launch import Launch, NotNative
from torch_tile.language.launch_options import LaunchOptions, options_of

# What else a launch may say, and the values that change nothing.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "num_ctas": (None, 1),
    "enable_fp_fusion": (None, True),
    "launch_cooperative_grid": (None, False),
    "extern_libs": (None,),
    "ir_override": (None,),
    "cluster_dims": (None, (1, 1, 1)),
    "sanitize_overflow": (None, False),
    "instrumentation_mode": (None, ""),
}


def target_of(launch: Launch) -> str | None:
    """The GPU that a launch runs on; None for the CPU.

    Raises:
        NotNative: its tensors are on several devices, or on one without kernels.
    """
    devices = launch.devices
    if all(device.type == "cpu" for device in devices):
        return None
    if len(devices) > 1 or any(device.type != "cuda" for device in devices):
        raise NotNative(f"tensors on {', '.join(sorted(map(str, devices)))}, expected one CPU or CUDA device")
    return str(*devices)


def launch_options(kernel: str, options: Mapping[str, Any]) -> LaunchOptions:
    """What a launch says beside its arguments.

    Raises:
        NotNative: it asks for what is not done here.
    """
    for name, accepted in _WITHOUT_EFFECT.items():
        if options.get(name) not in accepted:
            raise NotNative(f"{name}={options[name]!r}")
    chosen = options_of(dict(options))
    try:
        chosen.check(kernel)
    except AssertionError as error:
        raise NotNative(str(error)) from None
    return chosen


def try_to_compile(kernel: str, text: str, target: str, options: LaunchOptions) -> None:
    """Compiles a kernel alone: an error in the graph's program would be one of the whole graph.

    Raises:
        TileError: the kernel cannot be compiled.
    """
    from torch_tile import targets
    from torch_tile.language import kernel_cache
    from torch_tile.language.places import TracedKernel
    from torch_tile.language.stages import compiler_options

    traced = TracedKernel(text, lambda: text)
    kernel_cache.compile_kernel(kernel, traced, compiler_options(target, options), targets.architecture(target))
