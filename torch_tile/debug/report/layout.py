"""Layered drawing of a directed graph, top to bottom: rows, their order, and places without overlap.

Nodes stand on even rows, labels of their results on odd ones. A label is a node like any other, so no two texts ever
touch. An edge that passes rows has a place in each of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

GAP = 26.0
ROW_GAP = 18.0


@dataclasses.dataclass
class Cell:
    """Something on a row. `node` and `value` say what: a node's number, or the value whose label or passage it is."""

    row: int
    width: float
    height: float
    node: int | None = None
    value: int | None = None
    is_label: bool = False
    x: float = 0.0
    y: float = 0.0
    above: list[int] = dataclasses.field(default_factory=list)
    below: list[int] = dataclasses.field(default_factory=list)

    @property
    def is_passage(self) -> bool:
        return self.node is None and not self.is_label


@dataclasses.dataclass
class Flow:
    """A value on its way from one node to others."""

    producer: int
    consumers: list[int]
    label_width: float


@dataclasses.dataclass
class Drawing:
    cells: list[Cell]
    rows: list[list[int]]
    width: float
    height: float


def ranks(count: int, flows: Sequence[Flow], bands: Sequence[Sequence[int]]) -> list[int]:
    """A row for each node: below all that it reads, and within the band of rows that its part has to itself."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for flow in flows:
        for consumer in flow.consumers:
            before[consumer].append(flow.producer)
            after[flow.producer].append(consumer)
    rank = [0] * count
    first = 0
    for band in bands:
        inside = set(band)
        for node in band:
            rank[node] = max([first, *(rank[p] + 1 for p in before[node] if p in inside)])
        for node in reversed(band):
            if not inside.intersection(before[node]):
                rank[node] = max(rank[node], min((rank[n] for n in after[node] if n in inside), default=1) - 1)
        first = max((rank[node] for node in band), default=first - 1) + 1
    return rank


def draw(
    sizes: Sequence[tuple[float, float]],
    flows: Sequence[Flow],
    bands: Sequence[Sequence[int]],
    label_height: float,
    headers: Iterable[int] = (),
    header_height: float = 36.0,
) -> Drawing:
    """Places of everything.

    Args:
        sizes: width and height of each node; nodes are in an order in which flows go forward.
        flows: what goes from where to where.
        bands: nodes of each part, top to bottom.
        label_height: of labels, whose widths the flows have.
        headers: numbers of bands that have room for a title above them.
    """
    rank = ranks(len(sizes), flows, bands)
    cells = [Cell(2 * rank[i], width, height, node=i) for i, (width, height) in enumerate(sizes)]
    for number, flow in enumerate(flows):
        _add_flow(cells, number, flow, label_height)
    rows: list[list[int]] = [[] for _ in range(max((cell.row for cell in cells), default=-1) + 1)]
    for i, cell in enumerate(cells):
        rows[cell.row].append(i)
    _order(cells, rows)
    _place(cells, rows)
    with_header = {min(2 * rank[node] for node in bands[b]) for b in headers if bands[b]}
    y = 0.0
    for number, row in enumerate(rows):
        y += header_height if number in with_header else 0
        height = max((cells[i].height for i in row), default=0)
        for i in row:
            cells[i].y = y + height / 2
            if cells[i].is_passage:
                cells[i].height = height  # a line bends between rows alone
        y += height + ROW_GAP
    left = min((cell.x - cell.width / 2 for cell in cells), default=0)
    for cell in cells:
        cell.x -= left
    return Drawing(cells, rows, max((cell.x + cell.width / 2 for cell in cells), default=0), max(y - ROW_GAP, 0))


def _add_flow(cells: list[Cell], number: int, flow: Flow, label_height: float) -> None:
    """A label below the producer, one passage a row down to the last consumer; each consumer hangs on the row above."""

    def link(upper: int, lower: int) -> None:
        cells[upper].below.append(lower)
        cells[lower].above.append(upper)

    top = cells[flow.producer].row
    cells.append(Cell(top + 1, flow.label_width, label_height, value=number, is_label=True))
    chain = {top + 1: len(cells) - 1}
    link(flow.producer, chain[top + 1])
    for row in range(top + 2, max(cells[c].row for c in flow.consumers)):
        cells.append(Cell(row, 2.0, 0.0, value=number))
        chain[row] = len(cells) - 1
        link(chain[row - 1], chain[row])
    for consumer in dict.fromkeys(flow.consumers):
        link(chain[cells[consumer].row - 1], consumer)


def _order(cells: list[Cell], rows: list[list[int]]) -> None:
    """Order within rows by the mean place of neighbours, in sweeps down and up."""
    place = {i: float(k) for row in rows for k, i in enumerate(row)}

    def sort(row: list[int], neighbours: str) -> None:
        wanted = {}
        for i in row:
            linked = getattr(cells[i], neighbours)
            wanted[i] = sum(place[j] for j in linked) / len(linked) if linked else place[i]
        row.sort(key=lambda i: wanted[i])
        for k, i in enumerate(row):
            # Rows of different lengths are compared by their middles.
            place[i] = k - (len(row) - 1) / 2

    for row in rows:
        sort(row, "above")
    for _ in range(8):
        for row in reversed(rows):
            sort(row, "below")
        for row in rows:
            sort(row, "above")


def _place(cells: list[Cell], rows: list[list[int]]) -> None:
    for row in rows:
        x = 0.0
        for i in row:
            cells[i].x = x + cells[i].width / 2
            x += cells[i].width + GAP
        for i in row:
            cells[i].x -= x / 2
    chains: dict[int | None, list[Cell]] = {}
    for cell in cells:
        if cell.is_passage:
            chains.setdefault(cell.value, []).append(cell)
    for sweep in range(40):
        middles = {value: sum(cell.x for cell in chain) / len(chain) for value, chain in chains.items()}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted, weights = [], []
            for i in row:
                cell = cells[i]
                linked = cell.above if sweep % 2 == 0 else cell.below
                if sweep >= 16:
                    linked = cell.above + cell.below
                mean = sum(cells[j].x for j in linked) / len(linked) if linked else cell.x
                # Long edges are to be straight.
                wanted.append(middles[cell.value] if cell.is_passage and sweep >= 16 else mean)
                weights.append((8.0 if cell.is_passage else 1.0) * (len(linked) or 0.1))
            for i, x in zip(row, _separate([cells[i] for i in row], wanted, weights), strict=True):
                cells[i].x = x


def _separate(row: Sequence[Cell], wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Places nearest to the wanted ones (weighted squares) that keep the order and the gaps: pooled neighbours."""
    if not row:
        return []
    offsets = [0.0]
    for left, right in itertools.pairwise(row):
        gap = GAP / 2 if left.is_passage or right.is_passage else GAP
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + gap)
    # Where two neighbours want to be nearer than the gap, they move as one.
    blocks: list[tuple[float, float, int]] = []  # weighted mean, weight, length
    for target, weight, offset in zip(wanted, weights, offsets, strict=True):
        blocks.append((target - offset, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, v, n), (b, w, m) = blocks[-2:]
            blocks[-2:] = [((a * v + b * w) / (v + w), v + w, n + m)]
    starts = [mean for mean, _, length in blocks for _ in range(length)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]
