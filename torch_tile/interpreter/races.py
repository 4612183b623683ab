"""Which program wrote what: finds stores that collide and reads of what another program of the launch stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.errors import RaceError
from torch_tile.interpreter.memory import Region

_ATOMIC = -1


class AccessLog:
    """Per byte of each storage, the program that stored there last (its number + 1), and one that read it."""

    def __init__(self) -> None:
        self.number = 0
        self.programs: list[Any] = []
        self.writers: dict[int, Any] = {}
        self.readers: dict[int, Any] = {}

    def begin(self, program: Any) -> None:
        self.programs.append(program)
        self.number = len(self.programs)

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
        foreign = (writers > 0) & (writers != self.number)
        if foreign.any():
            at = int(np.flatnonzero(foreign)[0])
            other = self.programs[writers[at] - 1]
            self._fail(
                region,
                int(places[at]),
                size,
                f"program {program} reads `{{name}}` at element {{index}}, which program {other} stored in the "
                "same launch; use two launches, or atomics",
            )
        readers = self._table(self.readers, region)
        for k in range(size):
            readers[places + k] = self.number

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
        foreign = (seen > 0) & (seen != self.number)
        if foreign.any():
            at = int(np.flatnonzero(foreign)[0])
            self._fail(
                region,
                int(places[at]),
                size,
                f"programs {self.programs[seen[at] - 1]} and {program} both store to `{{name}}` at element "
                "{index}; the last to run wins",
            )
        readers = self._table(self.readers, region)[places]
        foreign = (readers > 0) & (readers != self.number)
        if foreign.any():
            at = int(np.flatnonzero(foreign)[0])
            self._fail(
                region,
                int(places[at]),
                size,
                f"program {program} stores to `{{name}}` at element {{index}}, which program "
                f"{self.programs[readers[at] - 1]} reads in the same launch; use another output",
            )
        for k in range(size):
            writers[places + k] = self.number

    def atomic(self, region: Region, address: Any, size: int, mask: Any) -> None:
        places = self._active(region, address, mask)
        writers = self._table(self.writers, region)
        for k in range(size):
            writers[places + k] = _ATOMIC
