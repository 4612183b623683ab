"""A launch of a graph to text of the tile dialect, with the arguments that its kernel takes."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from torch_tile.config import Settings
from torch_tile.frontend.launches import on_gpu
from torch_tile.frontend.launches.launch import Launch, NotNative, run
from torch_tile.frontend.sizes import hint_of


def _fits_in_32_bits(value: int | torch.SymInt) -> bool:
    """Whether all values that a size or a number may take do."""
    if not isinstance(value, torch.SymInt):
        return -(1 << 31) <= value < 1 << 31
    try:
        bounds = value.node.shape_env.bound_sympy(value.node.expr)
        return int(bounds.lower) >= -(1 << 31) and int(bounds.upper) < 1 << 31
    except (AttributeError, TypeError, OverflowError, ValueError):
        return False


def _type_of(name: str, value: Any) -> str:
    from torch_tile.triton import tracing

    kind: str | None = None
    if isinstance(value, Node):
        meta = value.meta.get("val")
        if isinstance(meta, torch.Tensor):
            kind = tracing.pointer_to(meta.dtype)
        elif isinstance(meta, (int, torch.SymInt)) and not isinstance(meta, bool):
            kind = "i32" if _fits_in_32_bits(meta) else "i64"
    elif isinstance(value, bool):
        kind = tracing.boolean_type()
    elif isinstance(value, int):
        kind = tracing.integer_type(value)
    elif isinstance(value, float):
        kind = "fp32"
    if kind is None:
        raise NotNative(f"argument {name} is neither a tensor nor a number")
    return kind


def _describe(function: Any, values: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any], list[Any]]:
    """Signature, constants, and what the kernel takes, in its order."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    arguments: list[Any] = []
    for parameter in function.params:
        name = parameter.name
        if name not in values and not parameter.has_default:
            raise NotNative(f"argument {name} is missing")
        value = values.get(name, parameter.default if parameter.has_default else None)
        if isinstance(value, Node) and isinstance(value.meta.get("val"), int):
            value = value.meta["val"]
        is_one = type(value) is int and value == 1 and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or is_one:
            if isinstance(value, Node):
                raise NotNative(f"constant {name} depends on sizes")
            signature[name] = "constexpr"
            constants[name] = value
            continue
        kind = _type_of(name, value)
        wanted = str(parameter.annotation_type or "")
        if wanted and not kind.startswith("*") and not wanted.startswith("*"):
            kind = wanted
        if kind.startswith(("fp", "bf")):
            if isinstance(value, Node):
                raise NotNative(f"argument {name} is a float that depends on sizes")
            value = float(value)
        elif isinstance(value, float):
            raise NotNative(f"argument {name} is a float, and an integer is expected")
        signature[name] = kind
        arguments.append(value)
    return signature, constants, arguments


def _hint(value: Any) -> Any:
    """A value of the sizes that the graph was traced with."""
    if isinstance(value, Node):
        return _hint(value.meta["val"])
    if isinstance(value, torch.SymInt):
        return hint_of(value)
    if isinstance(value, torch.Tensor):
        shape, strides = [_hint(s) for s in value.shape], [_hint(s) for s in value.stride()]
        return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device).zero_()
    if isinstance(value, (list, tuple)):
        return tuple(_hint(v) for v in value)
    return value


def _tune(launch: Launch) -> int:
    """The number of the fastest configuration, which Triton finds on zeros of the sizes at hand."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.utils._python_dispatch import _disable_current_modes

    with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
        arguments = {name: _hint(value) for name, value in launch.arguments.items()}
        run(launch.kernel, {**arguments, **launch.constants}, _hint(launch.grids))
    return int(launch.kernel.configs.index(launch.kernel.best_config))


def _specialise(launch: Launch) -> tuple[Any, dict[str, Any], Any]:
    """The function, all values by name, and the grid, once a configuration is chosen."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    values = {**launch.constants, **launch.arguments}
    function, grid = launch.kernel, launch.grids[0]
    if isinstance(function, Autotuner):
        if not isinstance(function.fn, JITFunction):
            raise NotNative("heuristics under autotuning")
        index = 0 if len(function.configs) == 1 else _tune(launch)
        config = function.configs[index]
        if config.pre_hook is not None:
            raise NotNative("a hook before the launch")
        values.update(config.all_kwargs())
        grid = launch.grids[index if len(launch.grids) > 1 else 0]
        function = function.fn
    if not isinstance(function, JITFunction) or getattr(function, "pre_run_hooks", None):
        raise NotNative("a kernel with hooks or heuristics")
    return function, values, grid


def trace(launch: Launch, settings: Settings) -> tuple[str, list[Any], list[Any], list[str]]:
    """Text of the kernel, its arguments, the grid, and the names of the arguments; for a GPU with pointers first."""
    from torch_tile.triton import tracing

    if launch.has_descriptors:
        raise NotNative("tensor descriptors")
    gpu = on_gpu.target_of(launch)
    if gpu is not None and settings["triton_compiler"] != "tile":
        raise NotNative("triton_compiler is triton")
    function, values, grid = _specialise(launch)
    signature, constants, arguments = _describe(function, values)
    options = {name: value for name, value in values.items() if name not in signature}
    options["debug"] = tracing.is_debugged(function, options)
    names = [name for name, kind in signature.items() if kind != "constexpr"]
    if gpu is not None:
        launch.options = on_gpu.launch_options(launch.function_name, options)
        order = sorted(range(len(names)), key=lambda k: not signature[names[k]].startswith("*"))
        names, arguments = [names[k] for k in order], [arguments[k] for k in order]
    text = tracing.trace(function, signature, constants, options, on_gpu=gpu is not None)
    if gpu is not None:
        on_gpu.try_to_compile(launch.function_name, text, gpu, launch.options)
    sizes = [*grid, 1, 1][:3] if isinstance(grid, (list, tuple)) else [grid, 1, 1]
    return text, arguments, sizes, names
