"""Results against float64: the function itself on arguments of double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


def flatten(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from flatten(item)
    elif isinstance(result, dict):
        yield from flatten(list(result.values()))


def in_double(value: Any) -> Any:
    """Floating-point tensors in float64, with their memory order; all else as it is."""
    if isinstance(value, torch.Tensor):
        if not value.is_floating_point():
            return value.clone()
        return value.detach().to(torch.float64, copy=True).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(map(in_double, value))
    return value


def outcome(
    function: Callable[..., Any], arguments: Sequence[Any], written: Sequence[int] | None = None
) -> tuple[list[torch.Tensor], list[int]]:
    """What a call leaves behind: its results and the arguments that it writes.

    Args:
        function: is called once.
        arguments: of the call.
        written: which of the tensors among them it writes. Without it, those whose version changes, which tells of
            eager mode alone: compiled code writes without counting.

    Returns:
        Results with written arguments behind them, and which those are.
    """
    given = list(flatten(arguments))
    versions = [tensor._version for tensor in given]
    returned = list(flatten(function(*arguments)))
    if written is None:
        written = [k for k, version in enumerate(versions) if given[k]._version != version]
    return [tensor.detach() for tensor in [*returned, *(given[k] for k in written)]], list(written)


def differs(result: Any, expected: Any, rtol: float, atol: float | None = None) -> str:
    """Why a result is not the expected one, in one line; empty if it is. Dtypes may differ."""
    try:
        for actual, wanted in zip(flatten(result), flatten(expected), strict=True):
            torch.testing.assert_close(
                actual.double(), wanted.double(), rtol=rtol, atol=rtol if atol is None else atol, equal_nan=True
            )
    except (AssertionError, ValueError) as error:
        return "wrong result: " + " ".join(str(error).split())[:160]
    return ""


def dropout_differs(arguments: Sequence[torch.Tensor], result: Sequence[torch.Tensor], rate: float = 0.1) -> str:
    """Of `dropout(x) + residual`, whose random numbers are each backend's own: every element is dropped or scaled, and
    the share of those that are dropped is the rate."""
    x, residual = (tensor.double() for tensor in arguments[:2])
    actual = result[0].double()
    tolerance = 1e-5 if result[0].dtype is torch.float32 else 5e-2
    kept = residual + x / (1 - rate)
    is_kept = (actual - kept).abs() <= tolerance * (1 + kept.abs())
    is_dropped = (actual - residual).abs() <= tolerance * (1 + residual.abs())
    if not bool((is_kept | is_dropped).all()):
        return "wrong result: an element is neither dropped nor scaled"
    # Elements that are small look like both; five standard deviations of a coin, and those.
    clear = is_kept ^ is_dropped
    count = int(clear.sum())
    share = int((clear & is_dropped).sum()) / max(count, 1)
    if abs(share - rate) > 5 * (rate * (1 - rate) / max(count, 1)) ** 0.5:
        return f"wrong result: {share:.4f} of the elements are dropped, expected {rate}"
    return ""
