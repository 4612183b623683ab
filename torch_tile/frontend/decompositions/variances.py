"""Variances of float32 on the CPU are computed in float64, as ATen's are. Those within norms stay float32.

Squares of bfloat16 differences may leave float32, where their root is a bfloat16; standard deviations are float64, too.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten


class _Norms(threading.local):
    """How many decompositions of norms are under way."""

    depth = 0


_norms = _Norms()


def of_norm(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition whose variances stay in the dtype of their operand."""

    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        _norms.depth += 1
        try:
            return function(*args, **kwargs)
        finally:
            _norms.depth -= 1

    return decomposition


def of_channels(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of a batch norm that leaves operands without channels to ATen, which refuses them."""

    @functools.wraps(function)
    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return function(x, *args, **kwargs) if x.dim() > 1 else NotImplemented

    return decomposition


def _is_of_nothing(x: torch.Tensor, correction: Any) -> bool:
    """Whether a correction below 0 makes a count of elements above 0 where there are none: ATen's result is NaN."""
    return isinstance(correction, (int, float)) and correction < 0 and statically_known_true(x.numel() == 0)


def _is_wide(x: torch.Tensor, is_root: bool) -> bool:
    dtypes = (torch.float32, torch.bfloat16) if is_root else (torch.float32,)
    return x.dtype in dtypes and x.device.type == "cpu" and _norms.depth == 0


def _spread(op: Any, is_root: bool = False) -> Callable[..., Any]:
    """For (x, dims, *, correction, keepdim) -> one or two results.

    ATen takes a 0-d tensor for one of a single element, of whose dimensions none can be kept.
    """

    def decomposition(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if not x.dim():
            return op(x.unsqueeze(0), [0], correction=correction)
        if _is_of_nothing(x, correction):
            return op(x, dim, correction=0, keepdim=keepdim)
        if not _is_wide(x, is_root):
            return NotImplemented
        result = op(x.to(torch.float64), dim, correction=correction, keepdim=keepdim)
        if isinstance(result, torch.Tensor):
            return result.to(x.dtype)
        return tuple(each.to(x.dtype) for each in result)

    return decomposition


def _std_mean(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """The root is taken before the variance is rounded."""
    if _is_of_nothing(x, correction):
        return aten.std_mean.correction(x, dim, correction=0, keepdim=keepdim)
    if x.is_complex():
        return NotImplemented
    wide = torch.float64 if _is_wide(x, is_root=True) else torch.promote_types(x.dtype, torch.float32)
    if not x.dim():
        x, dim, keepdim = x.unsqueeze(0), [0], False
    var, mean = aten.var_mean.correction(x.to(wide), dim, correction=correction, keepdim=keepdim)
    return var.sqrt().to(x.dtype), mean.to(x.dtype)


def variances() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.std.correction: _spread(aten.std.correction, is_root=True),
        aten.std_mean.correction: _std_mean,
        aten.var.correction: _spread(aten.var.correction),
        aten.var_mean.correction: _spread(aten.var_mean.correction),
    }
