"""Backends by name: those of torch.compile, eager mode, and variants of the two that are compared."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Backend:
    """How a name is compiled, and what of the process it needs."""

    backend: str
    mode: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    keeps_buffers: bool = True
    """Whether freed CPU buffers of ours are kept for later calls (`buffer_limit_bytes`)."""


VARIANTS = {
    "inductor-max-autotune": Backend("inductor", mode="max-autotune"),
    "inductor-max-autotune-no-cudagraphs": Backend("inductor", mode="max-autotune-no-cudagraphs"),
    "tile-max-autotune-no-cudagraphs": Backend("tile", mode="max-autotune-no-cudagraphs"),
    "tile-no-pool": Backend("tile", keeps_buffers=False),
    "tile-aten": Backend("tile", options={"matmul_library": "aten"}),
}


def find(name: str) -> Backend:
    return VARIANTS.get(name, Backend(name))


def with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy with its own code object: Dynamo's cache is there, so backends do not search each other's entries."""
    if not isinstance(function, types.FunctionType):
        return function
    copy = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def compiled(function: Any, name: str, freezing: bool = False, **arguments: Any) -> Any:
    """`function` under a backend; `eager` is the function itself, uncompiled.

    Args:
        function: what is compiled.
        name: of the backend or variant.
        freezing: parameters are constants, in tile and in Inductor.
        arguments: of torch.compile.
    """
    if name == "eager":
        return function
    backend = find(name)
    if freezing and backend.backend == "inductor":
        return _frozen_by_inductor(function, backend, arguments)
    options = dict(backend.options)
    if freezing and backend.backend == "tile":
        options["freezing"] = True
    if backend.mode is not None:
        arguments["mode"] = backend.mode
    if options:
        arguments["options"] = options
    return torch.compile(with_own_code(function), backend=backend.backend, **arguments)


def _frozen_by_inductor(function: Any, backend: Backend, arguments: dict[str, Any]) -> Callable[..., Any]:
    if backend.mode is not None:
        arguments["mode"] = backend.mode
    call, is_compiled = torch.compile(with_own_code(function), backend="inductor", **arguments), False

    def first_with_freezing(*args: Any, **kwargs: Any) -> Any:
        # Dynamo asks for the setting too, before the options of a call are known to anybody.
        nonlocal is_compiled
        if is_compiled:
            return call(*args, **kwargs)
        from torch._inductor import config

        is_compiled = True
        with config.patch(freezing=True):
            return call(*args, **kwargs)

    return first_with_freezing


def enter(name: str) -> None:
    """What belongs to the process is set as this backend has it; called before it compiles, and before each round."""
    backend = find(name)
    if backend.backend == "tile":
        import torch_tile

        default = torch_tile.config.KNOBS["buffer_limit_bytes"].default
        torch_tile.config.set("buffer_limit_bytes", default if backend.keeps_buffers else 0)
