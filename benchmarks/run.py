"""Runs benchmark suites: python benchmarks/run.py --suite kernels --backend tile,inductor,eager --json out.json."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import comparison  # noqa: E402
import harness  # noqa: E402
import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from suites import GPU_PROGRAMS  # noqa: E402

SUITES = ["kernels", "models", "freezing", "compile_time", "call_overhead", "language", "layouts", "flex"]
GPU_SUITES = ["gpu_kernels", "gpu_rows", "gpu_models", "gpu_products", *GPU_PROGRAMS]
console = Console()


@dataclasses.dataclass
class Options:
    """What a suite is told, and where it reports a case's rows as soon as it has them."""

    backends: list[str]
    rounds: int
    filter: str

    def selects(self, name: str) -> bool:
        return any(part in name for part in self.filter.split("|"))

    def report(self, rows: list[harness.Row]) -> list[harness.Row]:
        times = "  ".join(
            f"{row.backend} {harness.show_time(row.median)}{f' ({row.note_info})' if row.note_info else ''}"
            for row in rows
        )
        console.print(f"[dim]{rows[0].case}:[/dim] {times}", highlight=False)
        for row in rows:
            if row.note:
                console.print(f"  [red]{row.backend}: {row.note}[/red]", highlight=False, markup=True)
        return rows


def table(suite: str, rows: list[harness.Row], statistic: str) -> Table:
    """Times by case; how many times as fast as Inductor and as the best of all alternatives ours is."""
    records = [dataclasses.asdict(row) for row in rows]
    backends = list(dict.fromkeys(row.backend for row in rows))
    ours = next((b for b in backends if b.startswith("tile")), backends[0])
    reference = next((b for b in ("inductor", "eager", "aot_eager") if b in backends and b != ours), None)
    result = Table(
        title=f"{suite}: {statistic} of the rounds, per call",
        caption=f"speed of {ours}; the best is that of {', '.join(comparison.others(records, ours)) or 'nothing'}",
    )
    result.add_column("case")
    for backend in backends:
        result.add_column(backend, justify="right")
    heads = [f"x {reference}"] * (reference is not None) + ["x the best", "the best"]
    for head in heads:
        result.add_column(head, justify="right")
    factors: list[list[float]] = [[], []]
    for case, times in comparison.medians(records, statistic).items():
        best = comparison.best_alternative(times, ours)
        cells = []
        for k, other in enumerate([reference, best]):
            factor = times[other] / times[ours] if other in times and ours in times else math.nan
            if not math.isnan(factor):
                factors[k].append(factor)
            if k == 1 or reference is not None:
                cells.append("-" if math.isnan(factor) else f"{factor:.2f}")
        shown = [harness.show_time(times.get(backend, math.nan)) for backend in backends]
        result.add_row(case, *shown, *cells, best or "-")
    result.add_section()
    blank = [""] * len(backends)
    summaries = {"geometric mean": harness.geometric_mean, "median row": comparison.median, "worst": min}
    for name, summary in summaries.items():
        cells = [f"{summary(values):.2f}" if values else "-" for values in factors]
        result.add_row(name, *blank, *(cells if reference is not None else cells[1:]), "")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="kernels", help=f"comma-separated: {', '.join(SUITES + GPU_SUITES)}; or all")
    parser.add_argument(
        "--backend",
        default="tile,inductor,inductor-max-autotune,eager",
        help="comma-separated names of torch.compile backends; eager; and the variants of backends.py",
    )
    parser.add_argument("--filter", default="", help="only cases whose name holds this text (a|b: one of these)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--statistic", choices=["median", "best"], default="median", help="of the rounds, for the table"
    )
    parser.add_argument("--threads", type=int, help="threads of torch")
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    suites = SUITES if arguments.suite == "all" else arguments.suite.split(",")
    if unknown := set(suites) - set(SUITES + GPU_SUITES):
        parser.error(f"suite expected to be of {', '.join(SUITES + GPU_SUITES)}, got {', '.join(sorted(unknown))}")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    warnings.filterwarnings("ignore")

    options = Options(arguments.backend.split(","), arguments.rounds, arguments.filter)
    machine = harness.machine()
    console.print(", ".join(f"{key} {value}" for key, value in machine.items()), highlight=False)
    rows: list[harness.Row] = []
    for suite in suites:
        found = importlib.import_module(f"suites.{suite}").run(options)
        if found:
            console.print(table(suite, found, arguments.statistic))
        rows += found
        if arguments.json:
            content = {"machine": machine, "rows": [dataclasses.asdict(row) for row in rows]}
            arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if any(row.note for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
