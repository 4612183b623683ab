"""Triton's `testing`: comparing results, and tables of measurements."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.language.timing import do_bench as do_bench


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
