"""Which program wrote what: finds stores that collide and reads of what another program of the launch stores.

Accesses of two programs are a race unless atomic operations order them: one program stores a value by an operation that
releases, and the other reads it by one that acquires. This is the happens-before relation of C11, kept in vector clocks
(Flanagan and Freund 2009, FastTrack).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.errors import RaceError
from torch_tile.interpreter.memory import Region

_ATOMIC = -1
# Of more readers that nothing orders, the first ones and the last are remembered.
_MOST_READERS = 64


class AccessLog:
    """Per byte of each storage, who stored there last and who read it.

    A stamp stands for the accesses that a program makes between two releases. Stamps count up over all programs.
    """

    def __init__(self) -> None:
        self.number = 0
        self.programs: list[Any] = []
        self.stamp = 0
        self.owners = np.zeros(64, np.int32)  # number of the program, per stamp
        self.known = np.zeros(1, np.int32)  # per program, its last stamp that is ordered before this one
        self.released: dict[int, dict[int, Any]] = {}  # by storage and byte: what a reader that acquires comes to know
        self.writers: dict[int, Any] = {}
        self.readers: dict[int, Any] = {}  # per byte, an index into `reader_sets`
        self.reader_sets: list[tuple[int, ...]] = [()]  # stamps, none of which is ordered before another
        self.reader_set_indices: dict[tuple[int, ...], int] = {(): 0}

    def begin(self, program: Any) -> None:
        self.programs.append(program)
        self.number = len(self.programs)
        self.known = np.zeros(self.number + 1, np.int32)
        self._next_stamp()

    def _next_stamp(self) -> None:
        self.stamp += 1
        if self.stamp == len(self.owners):
            self.owners = np.concatenate([self.owners, np.zeros_like(self.owners)])
        self.owners[self.stamp] = self.number

    def _unordered(self, stamps: Any) -> Any:
        """Whether accesses are another program's, with nothing that orders them before what this one does next."""
        owners = self.owners[stamps]
        return (stamps > 0) & (owners != self.number) & (stamps > self.known[owners])

    def _program(self, stamp: Any) -> Any:
        return self.programs[self.owners[stamp] - 1]

    def _table(self, tables: dict[int, Any], region: Region) -> Any:
        # Arguments may share a storage, so the address is the key.
        table = tables.get(region.start)
        if table is None:
            table = tables[region.start] = np.zeros(region.end - region.start, np.int32)
        return table

    def _active(self, region: Region, address: Any, mask: Any) -> Any:
        flat = np.atleast_1d(np.asarray(address))
        if mask is not None:
            flat = flat[np.broadcast_to(mask, flat.shape)]
        return flat.reshape(-1) - region.start

    def _fail(self, region: Region, offset: int, size: int, text: str) -> None:
        index = (region.start + offset - region.address) // size
        raise RaceError("kernel", text.format(name=region.name, index=int(index)))

    def read(self, region: Region, address: Any, size: int, mask: Any, program: Any) -> None:
        places = self._active(region, address, mask)
        if not places.size:
            return
        writers = self._table(self.writers, region)[places]
        foreign = self._unordered(writers)
        if foreign.any():
            at = int(np.flatnonzero(foreign)[0])
            self._fail(
                region,
                int(places[at]),
                size,
                f"program {program} reads `{{name}}` at element {{index}}, which program {self._program(writers[at])} "
                "stored in the same launch; use two launches, or atomics",
            )
        readers = self._table(self.readers, region)
        sets, which = np.unique(readers[places], return_inverse=True)
        mine = np.array([self._with_this(each) for each in sets], np.int32)[which]
        for k in range(size):
            readers[places + k] = mine

    def _with_this(self, readers: int) -> int:
        """The set of readers, this program's stamp added. Those that are ordered before it say no more than it does."""
        stamps = self.reader_sets[readers]
        kept = [stamp for stamp in stamps if stamp != self.stamp and self._is_unordered(stamp)]
        found = (*kept[: _MOST_READERS - 1], self.stamp)
        index = self.reader_set_indices.get(found)
        if index is None:
            index = self.reader_set_indices[found] = len(self.reader_sets)
            self.reader_sets.append(found)
        return index

    def _is_unordered(self, stamp: int) -> bool:
        return self.owners[stamp] != self.number and bool(stamp > self.known[self.owners[stamp]])

    def write(self, region: Region, address: Any, raw: Any, size: int, mask: Any, program: Any) -> None:
        places = self._active(region, address, mask)
        if not places.size:
            return
        values = np.broadcast_to(np.asarray(raw), np.shape(np.atleast_1d(address)))
        if mask is not None:
            values = values[np.broadcast_to(mask, values.shape)]
        values = values.reshape(-1)
        order = np.argsort(places, kind="stable")
        same = (places[order][1:] == places[order][:-1]) & (values[order][1:] != values[order][:-1])
        if same.any():
            at = int(places[order][1:][np.flatnonzero(same)[0]])
            self._fail(
                region,
                at,
                size,
                f"two elements of one tl.store go to `{{name}}` at element {{index}} with different values, in "
                f"program {program}; use tl.atomic_add, or a mask that lets one through",
            )
        writers = self._table(self.writers, region)
        seen = writers[places]
        foreign = self._unordered(seen)
        if foreign.any():
            at = int(np.flatnonzero(foreign)[0])
            self._fail(
                region,
                int(places[at]),
                size,
                f"programs {self._program(seen[at])} and {program} both store to `{{name}}` at element "
                "{index}; the last to run wins",
            )
        readers = self._table(self.readers, region)[places]
        for each in np.unique(readers):
            foreign = [stamp for stamp in self.reader_sets[each] if self._is_unordered(stamp)]
            if foreign:
                at = int(np.flatnonzero(readers == each)[0])
                self._fail(
                    region,
                    int(places[at]),
                    size,
                    f"program {program} stores to `{{name}}` at element {{index}}, which program "
                    f"{self._program(foreign[0])} reads in the same launch; use another output",
                )
        for k in range(size):
            writers[places + k] = self.stamp
        # Who acquires reads a value that this store left, and learns nothing.
        released = self.released.get(region.start)
        if released:
            for place in places.tolist():
                for k in range(size):
                    released.pop(place + k, None)

    def atomic(self, region: Region, address: Any, size: int, mask: Any, written: Any, order: str) -> None:
        """An atomic update, which stores in lanes of `written`. `order` is acquire, release, acq_rel or relaxed."""
        places = self._active(region, address, mask).tolist()
        stored = self._active(region, address, written)
        writers = self._table(self.writers, region)
        for k in range(size):
            writers[stored + k] = _ATOMIC
        released = self.released.setdefault(region.start, {})
        if order in ("acquire", "acq_rel"):
            clocks = [released[place] for place in places if place in released]
            for clock in {id(clock): clock for clock in clocks}.values():
                np.maximum(self.known[: len(clock)], clock, out=self.known[: len(clock)])
        if order in ("release", "acq_rel") and stored.size:
            mine = self.known.copy()
            mine[self.number] = self.stamp
            for place in stored.tolist():
                # An update keeps what earlier releases told: it continues their release sequence.
                released[place] = _joined(released.get(place), mine) if order == "release" else mine
            self._next_stamp()


def _joined(earlier: Any, mine: Any) -> Any:
    if earlier is None:
        return mine
    both = mine.copy()
    np.maximum(both[: len(earlier)], earlier, out=both[: len(earlier)])
    return both
