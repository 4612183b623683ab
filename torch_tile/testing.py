"""Measuring and comparing, for scripts that develop kernels."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: list[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time of one call on the CPU, in ms.

    Args:
        fn: what to time.
        warmup, rep: about how many ms to warm up and to measure.
        grad_to_none: tensors whose gradients are dropped before each call.
        quantiles: return these quantiles, a list, instead of one number.
        return_mode: "mean", "median", "min", "max" or "all".
    """
    if return_mode not in ("mean", "median", "min", "max", "all"):
        raise ValueError(f"return_mode expected mean, median, min, max or all, got {return_mode!r}")
    fn()
    start = time.perf_counter()
    for _ in range(3):
        fn()
    estimate = max((time.perf_counter() - start) / 3 * 1e3, 1e-4)
    for _ in range(min(10_000, int(warmup / estimate))):
        fn()
    times = []
    for _ in range(max(3, min(10_000, int(rep / estimate)))):
        for tensor in grad_to_none or ():
            tensor.grad = None
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e3)
    if quantiles is not None:
        found = torch.quantile(torch.tensor(times), torch.tensor(quantiles)).tolist()
        return found if len(found) > 1 else found[0]
    if return_mode == "all":
        return times
    summaries: dict[str, Callable[[list[float]], float]]
    summaries = {"mean": statistics.fmean, "median": statistics.median, "min": min, "max": max}
    return summaries[return_mode](times)


def assert_close(x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = "") -> None:
    """Raises AssertionError where two tensors differ by more than the tolerances (1e-2 if not given)."""
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    torch.testing.assert_close(
        x.to(torch.float64),
        y.to(torch.float64),
        atol=1e-2 if atol is None else atol,
        rtol=1e-2 if rtol is None else rtol,
        msg=err_msg or None,
        equal_nan=True,
    )
