"""Launches of Triton kernels on a GPU whose kernels are compiled here: option `triton_compiler`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_tile.frontend.launches.launch import Launch, NotNative
from torch_tile.language.launch_options import LaunchOptions, options_of

# What a launch may say: choices that are followed here or by Triton's front end, and hints of speed.
_FOLLOWED = frozenset(
    {
        "num_warps",
        "num_stages",
        "maxnreg",
        "debug",
        "launch_pdl",
        "default_dot_input_precision",
        "allowed_dot_input_precisions",
        "max_num_imprecise_acc_default",
        "supported_fp8_dtypes",
        "deprecated_fp8_dot_operand_dtypes",
    }
)
# And other names with the values that change nothing; None never does.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "num_ctas": (1,),
    "warp_size": (32,),
    "enable_fp_fusion": (True,),
    "enable_reflect_ftz": (True,),
    "launch_cooperative_grid": (False,),
    "cluster_dims": ((1, 1, 1),),
    "sanitize_overflow": (False,),
    "instrumentation_mode": ("",),
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
    for name, value in options.items():
        if value is not None and name not in _FOLLOWED and value not in _WITHOUT_EFFECT.get(name, ()):
            raise NotNative(f"{name}={value!r}")
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
