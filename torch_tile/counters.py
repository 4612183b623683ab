"""Counters of the process: compiles, fallbacks, cache hits."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping


class Counters(Mapping[str, float]):
    """Named counts, thread-safe; a name nothing was counted under is 0. Iteration is over a copy of the names.

    graphs: compiled or loaded; graphs_from_disk: of these, by the disk cache. kernels, launches, externs, pycalls: sums
    over graphs of what one call of each runs. fallbacks: graphs that run in eager mode. compile_ms: from graph text to
    loaded program. triton_refusals: launches that the option `triton_compiler="tile"` left to Triton.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A thread that a forked child does not have may have held it.
        os.register_at_fork(after_in_child=self._unlock)
        self._counts: Counter[str] = Counter()

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def add(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._counts[name] += amount  # type: ignore[assignment]

    def __getitem__(self, name: str) -> float:
        return self._counts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.snapshot())

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def snapshot(self) -> dict[str, float]:
        """A copy of all counts."""
        with self._lock:
            return dict(self._counts)

    def clear(self) -> None:
        with self._lock:
            self._counts.clear()


counters = Counters()
