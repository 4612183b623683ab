"""What the tables say of a row: the best alternative, medians, the median row."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Ours under another setting is no alternative to ours, and what compiles nothing is none to a compiler.
_NO_ALTERNATIVES = ("tile", "aot_eager", "interpreter")


def medians(rows: Iterable[Mapping[str, Any]], statistic: str = "median") -> dict[str, dict[str, float]]:
    """Case -> backend -> seconds; without what has no time or a note (a wrong result has no time)."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        seconds = row.get(statistic)
        if isinstance(seconds, float | int) and not math.isnan(seconds) and not row.get("note"):
            found.setdefault(row["case"], {})[row["backend"]] = float(seconds)
    return found


def is_alternative(backend: str, ours: str = "tile") -> bool:
    return backend != ours and not any(backend == name or backend.startswith(name + "-") for name in _NO_ALTERNATIVES)


def best_alternative(times: Mapping[str, float], ours: str = "tile") -> str | None:
    """The fastest of the other backends that ran this case."""
    others = {backend: seconds for backend, seconds in times.items() if is_alternative(backend, ours)}
    return min(others, key=others.__getitem__) if others else None


def others(rows: Iterable[Mapping[str, Any]], ours: str = "tile") -> list[str]:
    """The alternatives of a file, in its order."""
    return list(dict.fromkeys(row["backend"] for row in rows if is_alternative(row["backend"], ours)))


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan
