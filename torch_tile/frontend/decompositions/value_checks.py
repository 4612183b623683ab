"""Operators that end with an error where values lie outside a range, which torch's decompositions leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions

aten = torch.ops.aten


def _assert_unit_interval(values: torch.Tensor, name: str) -> None:
    """A NaN is outside, too."""
    is_inside = ((values >= 0) & (values <= 1)).all()
    aten._assert_async.msg(is_inside, f"all elements of {name} should be between 0 and 1")


def _binary_cross_entropy(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, reduction: int = 1
) -> Any:
    _assert_unit_interval(x, "input")
    _assert_unit_interval(target, "target")
    (decomposition,) = get_decompositions([aten.binary_cross_entropy.default]).values()
    return decomposition(x, target, weight, reduction)


def value_checks() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.binary_cross_entropy.default: _binary_cross_entropy}
