"""Shares of the memory's bandwidth in a results file of the suite kernels, as a table.

    python benchmarks/roofline.py benchmarks/results/kernels-cpu.json

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="JSON file of benchmarks/run.py --suite kernels")
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


if __name__ == "__main__":
    main()
