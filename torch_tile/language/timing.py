"""Time of one call, for autotuning and for scripts that develop kernels."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch


def _measure(fn: Callable[[], Any], warmup: float, rep: float, grad_to_none: Any) -> list[float]:
    fn()
    start = time.perf_counter()
    for _ in range(3):
        fn()
    estimate = max((time.perf_counter() - start) / 3 * 1e3, 1e-4)
    for _ in range(min(10_000, int(warmup / estimate))):
        fn()
    times = []
    for _ in range(max(3, min(10_000, int(rep / estimate)))):
        for tensor in grad_to_none:
            tensor.grad = None
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def _measure_on_device(fn: Callable[[], Any], warmup: float, rep: float, grad_to_none: Any) -> list[float]:
    """By events in the current stream. What a call reads is not left in the device's cache by the one before."""
    fn()
    cache = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def event() -> Any:
        return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    start, end = event(), event()
    start.record()
    for _ in range(5):
        cache.zero_()
        fn()
    end.record()
    end.synchronize()
    estimate = max(start.elapsed_time(end) / 5, 1e-3)
    for _ in range(max(1, min(10_000, int(warmup / estimate)))):
        fn()
    pairs = [(event(), event()) for _ in range(max(3, min(10_000, int(rep / estimate))))]
    for start, end in pairs:
        for tensor in grad_to_none:
            tensor.grad = None
        cache.zero_()
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: list[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time of one call in ms, by the clock; in a process that uses a CUDA device by its events, with cold caches.

    Args:
        fn: what to time.
        warmup, rep: about how many ms to warm up and to measure.
        grad_to_none: tensors whose gradients are dropped before each call.
        quantiles: return these quantiles, a list, instead of one number.
        return_mode: "mean", "median", "min", "max" or "all".
    """
    if return_mode not in ("mean", "median", "min", "max", "all"):
        raise ValueError(f"return_mode expected mean, median, min, max or all, got {return_mode!r}")
    uses_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    measure = _measure_on_device if uses_cuda else _measure
    times = measure(fn, warmup, rep, grad_to_none or ())
    if quantiles is not None:
        found = torch.quantile(torch.tensor(times), torch.tensor(quantiles)).tolist()
        return found if len(found) > 1 else found[0]
    if return_mode == "all":
        return times
    summaries: dict[str, Callable[[list[float]], float]]
    summaries = {"mean": statistics.fmean, "median": statistics.median, "min": min, "max": max}
    return summaries[return_mode](times)
