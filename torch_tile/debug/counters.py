"""Counts since the last torch.compiler.reset()."""

from __future__ import annotations

from collections import Counter

counters: Counter[str] = Counter()
"""graphs, kernels, externs, graphs_from_disk, graphs_from_compiled, unsupported_graphs, failed_graphs."""
