"""Measuring and comparing, for scripts that develop kernels."""

from __future__ import annotations

import csv
import os
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


class Benchmark:
    """What `perf_report` measures: one table, a row per value of `x_vals`, a column per value of `line_vals`.

    Args:
        x_names: arguments that get a value of `x_vals`: all the same one, or one each of a tuple.
        line_arg, line_vals, line_names: an argument, its values, and what the columns are called.
        plot_name: title of the table, and name of the file that is saved.
        args: other arguments.
        xlabel, ylabel: what is counted; `ylabel` stands beside the names of columns.
        x_log, y_log, styles: of a plot; without effect.
    """

    def __init__(
        self,
        x_names: list[str],
        x_vals: list[Any],
        line_arg: str,
        line_vals: list[Any],
        line_names: list[str],
        plot_name: str,
        args: dict[str, Any],
        xlabel: str = "",
        ylabel: str = "",
        x_log: bool = False,
        y_log: bool = False,
        styles: Any = None,
    ) -> None:
        self.x_names, self.x_vals = x_names, x_vals
        self.line_arg, self.line_vals, self.line_names = line_arg, line_vals, line_names
        self.plot_name, self.args = plot_name, args
        self.xlabel, self.ylabel = xlabel, ylabel
        self.x_log, self.y_log, self.styles = x_log, y_log, styles


class Mark:
    """A function with benchmarks, made by `perf_report`."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Any) -> None:
        self.fn, self.benchmarks = fn, benchmarks

    def _rows(self, bench: Benchmark, **kwargs: Any) -> list[list[Any]]:
        rows = []
        for x in bench.x_vals:
            values = list(x) if isinstance(x, (list, tuple)) else [x] * len(bench.x_names)
            if len(values) != len(bench.x_names):
                raise ValueError(f"perf_report expected {len(bench.x_names)} values for {bench.x_names}, got {x!r}")
            given = dict(zip(bench.x_names, values, strict=True))
            measured = [self.fn(**given, **{bench.line_arg: line}, **bench.args, **kwargs) for line in bench.line_vals]
            rows.append([*values, *(m[0] if isinstance(m, (list, tuple)) else m for m in measured)])
        return rows

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measures everything. Tables are printed, saved as CSV in `save_path`, or returned as lists of rows."""
        is_single = isinstance(self.benchmarks, Benchmark)
        results = []
        for bench in [self.benchmarks] if is_single else self.benchmarks:
            unit = f" ({bench.ylabel})" if bench.ylabel else ""
            table = [[*bench.x_names, *(f"{name}{unit}" for name in bench.line_names)], *self._rows(bench, **kwargs)]
            if print_data or show_plots:
                cells = [[f"{c:.6f}" if isinstance(c, float) else str(c) for c in row] for row in table]
                widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
                print(f"{bench.plot_name}:")
                for row in cells:
                    print("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)))
            if save_path:
                with open(os.path.join(save_path, f"{bench.plot_name}.csv"), "w", newline="") as file:
                    csv.writer(file).writerows(table)
            results.append(table)
        return (results[0] if is_single else results) if return_df else None


def perf_report(benchmarks: Any) -> Callable[[Callable[..., Any]], Mark]:
    """Marks a function as measuring one Benchmark, or a list of them; `function.run(print_data=True)` runs them."""
    return lambda fn: Mark(fn, benchmarks)
