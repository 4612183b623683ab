"""Compares two files of run.py --json; exits with 1 where one is slower by more than the threshold and its spread."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import comparison
from harness import geometric_mean, show_time
from rich.console import Console
from rich.table import Table

Key = tuple[str, str, str]


def load(path: Path) -> tuple[dict[str, Any], dict[Key, dict[str, Any]]]:
    content = json.loads(path.read_text())
    return content["machine"], {(row["suite"], row["case"], row["backend"]): row for row in content["rows"]}


def against_best(rows: list[dict[str, Any]]) -> str:
    """Speed of tile over the best of the other backends of a file, in one line."""
    factors = []
    for times in comparison.medians(rows).values():
        best = comparison.best_alternative(times)
        if best is not None and "tile" in times:
            factors.append(times[best] / times["tile"])
    if not factors:
        return "no case has a time of tile and of another backend"
    return (
        f"tile over the best of {', '.join(comparison.others(rows))}: geometric mean {geometric_mean(factors):.2f}, "
        f"median row {comparison.median(factors):.2f}, worst {min(factors):.2f}, {len(factors)} cases"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--threshold", type=float, default=0.10, help="how much slower counts as a regression (0.10: a tenth)"
    )
    parser.add_argument("--backend", default="tile", help="backends judged, comma-separated; the others are only shown")
    arguments = parser.parse_args()
    old_machine, old = load(arguments.before)
    new_machine, new = load(arguments.after)
    console = Console()
    for key in ("cpu", "cores", "threads", "torch"):
        if old_machine[key] != new_machine[key]:
            console.print(f"[yellow]{key} differs: {old_machine[key]} and {new_machine[key]}[/yellow]", highlight=False)

    judged = arguments.backend.split(",")
    table = Table("case", "backend", "before", "after", "after / before", "")
    ratios, regressions = [], 0
    for key in [*old, *(key for key in new if key not in old)]:
        before, after = old.get(key), new.get(key)
        old_time = before["median"] if before else math.nan
        new_time = after["median"] if after else math.nan
        ratio = new_time / old_time
        verdict = ""
        if key[2] in judged:
            noise = max(
                (row["spread"] for row in (before, after) if row and not math.isnan(row["spread"])), default=0.0
            )
            if not math.isnan(ratio):
                ratios.append(ratio)
            if (
                before
                and not math.isnan(old_time)
                and (math.isnan(new_time) or ratio > 1 + max(arguments.threshold, noise))
            ):
                verdict = "[red]" + (after["note"] or "slower" if after else "missing") + "[/red]"
                regressions += 1
        text = "-" if math.isnan(ratio) else f"{ratio:.2f}"
        table.add_row(f"{key[0]}: {key[1]}", key[2], show_time(old_time), show_time(new_time), text, verdict)
    console.print(table)
    for name, rows in (("before", old), ("after", new)):
        console.print(f"{name}: {against_best(list(rows.values()))}", highlight=False)
    console.print(
        f"geometric mean of after / before: {geometric_mean(ratios):.3f}; regressions: {regressions}", highlight=False
    )
    return 1 if regressions else 0


if __name__ == "__main__":
    sys.exit(main())
