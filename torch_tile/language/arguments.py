"""What is wrong with an argument of a launch, by the name of its parameter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from torch_tile.errors import TileError

# What a kernel takes as values; other objects are constants of the kernel, which few operations take.
_VALUES = (torch.Tensor, torch.SymInt, bool, int, float, np.generic, np.ndarray)


def unreadable(name: str, value: torch.Tensor) -> str | None:
    """Expectation, what is wrong and the next step for a tensor whose elements do not lie in memory as they are."""
    if value.is_nested or value.layout is not torch.strided:
        kind = "a nested tensor" if value.is_nested else f"one of layout {value.layout}"
        return f"dense tensors, got `{name}`, {kind}; pass `{name}.to_dense()`"
    if value.is_neg() or value.is_conj():
        kind, step = ("negative", "resolve_neg") if value.is_neg() else ("conjugate", "resolve_conj")
        return f"tensors as they lie in memory, got `{name}`, a {kind} view; pass `{name}.{step}()`"
    if isinstance(value, FakeTensor):
        return f"tensors with memory, got `{name}`, a fake tensor"
    if value.device.type != "meta" and value.numel() and not value.untyped_storage().nbytes():
        return f"tensors with memory, got `{name}`, whose storage was resized to 0 bytes"
    return None


def about(error: Exception, parameter: str, kernel: str = "") -> Exception:
    """The error, with the name of the argument that it is about."""
    if isinstance(error, TileError):
        if error.stage == "kernel" and kernel:
            error.stage = f"kernel {kernel}"
        error.text = f"argument `{parameter}`: {error.text}"
    elif f"`{parameter}`" not in str(error) and error.args:
        prefix = f"kernel {kernel}, " if kernel else ""
        error.args = (f"{prefix}argument `{parameter}`: {error.args[0]}", *error.args[1:])
    return error


@contextlib.contextmanager
def named(parameter: str) -> Iterator[None]:
    """Inside the block errors are about this argument."""
    try:
        yield
    except (TileError, TypeError, ValueError) as error:
        raise about(error, parameter) from None


def explain(error: TileError, parameters: Sequence[Any], bound: Mapping[str, Any]) -> None:
    """Adds which arguments may be behind an error: those that are neither tensors nor numbers, and scalars that came
    as tensors."""
    for parameter in parameters:
        value = bound[parameter.name]
        if parameter.is_constexpr or parameter.kind in (parameter.kind.VAR_POSITIONAL, parameter.kind.VAR_KEYWORD):
            continue
        if isinstance(value, torch.Tensor):
            if value.ndim == 0 and value.layout is torch.strided:
                error.text += (
                    f"; argument `{parameter.name}` is a tensor, of which a kernel sees the address: "
                    f"`{parameter.name}.item()` passes its value"
                )
        elif not isinstance(value, _VALUES) and not hasattr(value, "base") and not hasattr(value, "launchers"):
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            shown = "None" if value is None else f"of type {kind}"
            error.text += f"; argument `{parameter.name}` is {shown}, expected a tensor or a number"
