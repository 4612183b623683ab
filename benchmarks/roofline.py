"""Shares of the memory's bandwidth in a results file of the suite kernels, as a table and a picture.

    python benchmarks/roofline.py benchmarks/results/kernels-cpu.json --svg benchmarks/results/kernels-cpu.svg

A share is the least number of bytes that the case has to move (its arguments once, its results once) over the time it
took, divided by the bandwidth of a copy of 256 MB measured here and now. Above 1 is what a cache holds; far below 1 is
arithmetic, or something to improve.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

BACKENDS = ("tile", "inductor", "eager")
COLOURS = {"tile": "#1b6ca8", "inductor": "#e08e2b", "eager": "#9a9a9a"}


def copy_bandwidth(num_bytes: int = 256 << 20, rounds: int = 7) -> float:
    """Bytes per second, read and written, of the best of several copies between two tensors."""
    source, target = torch.ones(num_bytes // 4), torch.zeros(num_bytes // 4)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - start)
    return 2 * num_bytes / best


def shares(rows: list[dict[str, Any]], bandwidth: float, statistic: str) -> dict[str, dict[str, float]]:
    """Case -> backend -> share, in the order of the file."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.get("least_bytes") and row[statistic] == row[statistic]:
            found.setdefault(row["case"], {})[row["backend"]] = row["least_bytes"] / row[statistic] / bandwidth
    return found


def draw(found: dict[str, dict[str, float]], path: Path, bandwidth: float) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.34 * len(found) + 1.5))
    for k, backend in enumerate(BACKENDS):
        heights = [shares.get(backend, 0) for shares in found.values()]
        places = [i + (k - 1) * 0.27 for i in range(len(found))]
        axes.barh(places, heights, height=0.25, label=backend, color=COLOURS[backend])
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(found)), list(found), fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"share of the bandwidth of a copy ({bandwidth / 1e9:.0f} GB/s); above 1: out of a cache")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="JSON file of benchmarks/run.py --suite kernels")
    parser.add_argument("--svg", type=Path, help="where to draw the picture (needs matplotlib)")
    parser.add_argument("--statistic", default="median", choices=("median", "best"))
    options = parser.parse_args()
    recorded = json.loads(options.results.read_text())
    torch.set_num_threads(recorded["machine"]["threads"])
    bandwidth = copy_bandwidth()
    found = shares(recorded["rows"], bandwidth, options.statistic)
    print(f"a copy moves {bandwidth / 1e9:.1f} GB/s\n")
    print("| kernel | " + " | ".join(BACKENDS) + " |\n|---|" + "---|" * len(BACKENDS))
    for case, by_backend in found.items():
        print(f"| {case} | " + " | ".join(f"{by_backend.get(b, float('nan')):.2f}" for b in BACKENDS) + " |")
    if options.svg:
        draw(found, options.svg, bandwidth)


if __name__ == "__main__":
    main()
