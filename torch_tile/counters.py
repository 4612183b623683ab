"""What happened in this process: numbers for tests, ``explain`` and the demo."""

from __future__ import annotations

import collections
import threading


class Counters:
    """Named counts; thread-safe.

    ``graphs`` compiled or loaded, of these ``graphs_from_disk``; ``kernels`` distinct per graph, summed; ``launches``, ``externs`` and ``pycalls`` per call of each
    graph, summed; ``fallbacks``: whole graphs that run in eager mode after a compile error; ``compile_ms``: time in the compiler.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()

    def add(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._counts[name] += amount  # type: ignore[assignment]

    def __getitem__(self, name: str) -> float:
        return self._counts[name]

    def snapshot(self) -> dict[str, float]:
        """A copy of all counts."""
        with self._lock:
            return dict(self._counts)

    def clear(self) -> None:
        with self._lock:
            self._counts.clear()


counters = Counters()
