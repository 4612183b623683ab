"""Equal layers: parts of a sequence that follow each other several times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence

_LONGEST_PERIOD = 400


@dataclasses.dataclass(frozen=True)
class Segment:
    """`count` times the `period` items from `start` on; a count of 1 is a part that does not repeat."""

    start: int
    period: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def segments(
    items: Sequence[Hashable], cost: Callable[[int], float] = lambda start: 0, least_period: int = 2
) -> list[Segment]:
    """Cuts a sequence into repeated parts and what stands between them, in order.

    The repeat that hides the most items is taken first, then those before and after it. Where a repeat may as well
    begin at another item, it begins where `cost` is least: a layer begins where little is handed over.
    """
    found: list[Segment] = []
    pending = [(0, len(items))]
    while pending:
        begin, end = pending.pop()
        if begin == end:
            continue
        best = _best_repeat(items, cost, begin, end, least_period)
        if best is None:
            found.append(Segment(begin, end - begin, 1))
            continue
        found.append(best)
        pending += [(begin, best.start), (best.end, end)]
    return sorted(found, key=lambda segment: segment.start)


def _best_repeat(
    items: Sequence[Hashable], cost: Callable[[int], float], begin: int, end: int, least_period: int
) -> Segment | None:
    best, best_rank = None, (1, 0.0, 0)
    for period in range(least_period, min((end - begin) // 2, _LONGEST_PERIOD) + 1):
        run = 0  # how many items from here on equal the ones a period later
        for i in range(end - period - 1, begin - 1, -1):
            run = run + 1 if items[i] == items[i + period] else 0
            hidden = run // period * period
            if hidden >= best_rank[0] and (rank := (hidden, -cost(i), -i)) > best_rank:
                best, best_rank = Segment(i, period, run // period + 1), rank
    return best
