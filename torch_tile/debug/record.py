"""What is known about one compiled graph: kept while something listens, written to a folder when dumps are on."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torch_tile.config import Settings
from torch_tile.debug.dump import DumpFolder


@dataclasses.dataclass
class GraphRecord:
    """One graph on its way through the compiler."""

    graph: torch.fx.GraphModule
    inputs: Sequence[Any]
    settings: Settings
    kind: str
    """``forward``, ``backward`` or ``inference``."""
    text: Any = None
    """The import's result (``_C.GraphText``)."""
    program: Any = None
    error: Exception | None = None
    stages: dict[str, str] = dataclasses.field(default_factory=dict)
    """Text of each stage by file name, while dumps are made."""
    folder: DumpFolder | None = None

    @staticmethod
    def begin(graph: torch.fx.GraphModule, inputs: Sequence[Any], settings: Settings, kind: str) -> GraphRecord:
        record = GraphRecord(graph, inputs, settings, kind)
        for listener in list(_listeners):
            listener.append(record)
        if settings.debug:
            record.folder = DumpFolder.create(record)
        return record

    @property
    def dump(self) -> Callable[[str, str | bytes], None] | None:
        """The hook for the compiler; None when nobody reads dumps."""
        return self._receive if self.folder is not None or _listeners else None

    def _receive(self, name: str, data: str | bytes) -> None:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        self.stages[name] = text
        if self.folder is not None:
            self.folder.write(name, text)

    def compiled(self, program: Any) -> None:
        self.program = program
        if self.folder is not None:
            self.folder.finish(self)

    def failed(self, error: Exception) -> str:
        """Notes the failure and says where its dump is."""
        self.error = error
        with contextlib.suppress(OSError):
            if self.folder is None:
                self.folder = DumpFolder.create(self)
                if self.text is not None:
                    self.folder.write("10-graph.mlir", self.text.text)
            self.folder.write("error.txt", f"{error}\n")
            return f"Stages and a script that reproduces it are in {self.folder.path}."
        return ""

    def source_lines(self, lines: Sequence[int]) -> list[str]:
        """User's source, one entry for each distinct statement behind lines of the graph text."""
        names = {name for line, name in self.text.lines if line in set(lines)}
        found: dict[str, None] = {}
        for node in self.graph.graph.nodes:
            if node.name in names and (trace := node.meta.get("stack_trace")):
                found[_last_statement(trace)] = None
        return list(found)


def _last_statement(trace: str) -> str:
    """``model.py:12 in forward: y = x + 1`` from a stack trace."""
    rows = [row.strip() for row in trace.strip().splitlines()]
    for index in range(len(rows) - 1, -1, -1):
        if rows[index].startswith("File "):
            code = rows[index + 1] if index + 1 < len(rows) else ""
            return f"{rows[index][5:]}: {code}"
    return rows[-1] if rows else ""


_listeners: list[list[GraphRecord]] = []
_listeners_lock = threading.Lock()


@contextlib.contextmanager
def listening() -> Iterator[list[GraphRecord]]:
    """Collects a record of every graph compiled inside the block, with the text of all stages."""
    records: list[GraphRecord] = []
    with _listeners_lock:
        _listeners.append(records)
    try:
        yield records
    finally:
        with _listeners_lock:
            _listeners[:] = [listener for listener in _listeners if listener is not records]
