"""What a report shows, read from structured entries: of this process, or of files that TORCH_TRACE wrote."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch_tile.debug.scripts import End
from torch_tile.errors import TileError

Entry = tuple[dict[str, Any], str]


@dataclasses.dataclass
class Span:
    """Something that took time, in microseconds from the first."""

    name: str
    begin: float
    end: float
    depth: int = 0
    lane: str = ""


@dataclasses.dataclass
class Trace:
    """All that a report is made of."""

    title: str = ""
    graphs: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """As `trace.describe` says it, with `texts` by name of the entry."""
    phases: list[Span] = dataclasses.field(default_factory=list)
    call: list[Span] = dataclasses.field(default_factory=list)
    caches: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    end: End = dataclasses.field(default_factory=End)
    """Of the script that was run."""
    is_cut: bool = False
    """Whether the file ends within an entry."""

    def times(self) -> list[dict[int, float]]:
        """Of each graph the measured nanoseconds of its steps, by number; nothing where no call was profiled.

        Steps of one name are told apart by their order. Where another number of them ran than the graphs have, each
        has the mean. Equal kernels may run as the first of them.
        """
        kernels = [kernel for graph in self.graphs for kernel in graph["kernels"]]
        names_of: dict[str, list[str]] = {}
        for kernel in kernels:
            names_of.setdefault(kernel["hash"], []).append(kernel["name"])
        ran: dict[str, list[float]] = {}
        for span in sorted(self.call, key=lambda span: span.begin):
            if span.lane:
                ran.setdefault(span.name, []).append((span.end - span.begin) * 1e3)
        equal = {
            kernel["name"]: next((n for n in names_of[kernel["hash"]] if n in ran), "")
            for kernel in kernels if kernel["name"] not in ran
        }  # fmt: skip
        steps = [(g, i, equal.get(step["name"]) or _ran_as(step["name"], ran)) for g, graph in enumerate(self.graphs)
                 for i, step in enumerate(graph["program"]["steps"])]  # fmt: skip
        count = Counter(name for _, _, name in steps)
        taken: Counter[str] = Counter()
        found: list[dict[int, float]] = [{} for _ in self.graphs]
        for g, i, name in steps:
            if ns := ran.get(name):
                found[g][i] = ns[taken[name]] if len(ns) == count[name] else sum(ns) / len(ns)
                taken[name] += 1
        return found


def _ran_as(name: str, ran: dict[str, list[float]]) -> str:
    """The name of a step among events, which leave overloads out."""
    return name if name in ran else name.partition(".")[0]


def newest(folder: Path) -> Path:
    """The last trace in a folder, or in what TORCH_COMPILE_DEBUG=1 leaves there.

    Raises:
        TileError: there is none.
    """
    files = [file for place in (folder, folder / "tlparse", folder / "torch_compile_debug" / "tlparse")
             for file in place.glob("dedicated_log_torch_trace_*.log")]  # fmt: skip
    if not files:
        raise TileError(
            "report",
            f"no trace in {folder}: run the program with TORCH_TRACE={folder}, or give the program itself to `report`",
        )
    return max(files, key=os.path.getmtime)


def read_file(path: Path) -> Trace:
    """What a file of TORCH_TRACE holds.

    Raises:
        TileError: it has no entry.
        OSError: it cannot be read.
    """
    entries = list(_entries_of(path))
    if not any(metadata for metadata, _ in entries):
        raise TileError(
            "report",
            f"{path} is no trace: it has no entry of TORCH_TRACE; run the program with TORCH_TRACE=FOLDER, "
            "or give the program itself (a .py file) to `report`",
        )
    trace = read(entries, path.name)
    trace.is_cut = _is_cut(*entries[-1])
    return trace


def _entries_of(path: Path) -> Iterator[Entry]:
    """The entries of a file; lines that are none come with empty metadata."""
    metadata: dict[str, Any] | None = None
    payload: list[str] = []
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            if line.startswith("\t"):
                payload.append(line[1:])
                continue
            if metadata is not None:
                yield metadata, "".join(payload)
            payload = []
            metadata = _json(line.partition("] ")[2])
    if metadata is not None:
        yield metadata, "".join(payload)


def _is_cut(metadata: dict[str, Any], payload: str) -> bool:
    """Whether the rest of an entry is missing: metadata have the MD5 sum of the payload."""
    digest = hashlib.md5(payload.removesuffix("\n").encode(), usedforsecurity=False).hexdigest()
    return not metadata or metadata.get("has_payload", digest) != digest


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read(entries: Iterable[Entry], title: str = "") -> Trace:
    trace = Trace(title)
    events = []
    for metadata, payload in entries:
        name = str(metadata.get("artifact", {}).get("name", ""))
        if "chromium_event" in metadata:
            events.append(_json(payload))
        elif name == "torch_version":
            trace.versions["torch"] = str(_json(payload).get("pytorch_version", ""))
        elif name == "tile_kernels":
            graph = _json(payload)
            if {"graph", "kernels", "program"} <= graph.keys():
                trace.graphs.append({**graph, "texts": {}})
        elif "_cache_" in name and name.startswith("tile_"):
            cache, _, state = name.removeprefix("tile_").partition("_cache_")
            trace.caches.append({"cache": cache, "state": state, **_json(payload)})
        elif name.startswith("tile_") and trace.graphs:
            trace.graphs[-1]["texts"][name] = payload
    trace.phases = _spans(events)
    return trace


def _spans(events: list[dict[str, Any]]) -> list[Span]:
    """Pairs of begin and end; those of one name are nested."""
    open_: list[tuple[str, float]] = []
    found: list[Span] = []
    for event in sorted((e for e in events if "ts" in e and e.get("ph") in ("B", "E")), key=lambda e: e["ts"]):
        name = str(event["name"])
        if event["ph"] == "B":
            open_.append((name, event["ts"]))
            continue
        for k in range(len(open_) - 1, -1, -1):
            if open_[k][0] == name:
                found.append(Span(name, open_[k][1], event["ts"], k))
                del open_[k]
                break
    first = min((span.begin for span in found), default=0.0)
    for span in found:
        span.begin -= first
        span.end -= first
    return sorted(found, key=lambda span: (span.begin, span.depth))
