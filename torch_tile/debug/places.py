"""Where in the user's program an operation comes from."""

from __future__ import annotations

import functools
import linecache
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_FRAME = re.compile(r'File "([^"]*)", line (\d+)')


@functools.cache
def _folder_of_torch() -> str:
    import torch

    return os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def is_of_torch(file: str) -> bool:
    """Whether a source file is one of torch's own."""
    return file.startswith(_folder_of_torch())


@functools.lru_cache(maxsize=4096)
def innermost(trace: str) -> str | None:
    """`file:line: code` of the innermost frame outside torch in the text of a traceback; of the innermost one where all
    are torch's."""
    end, last = len(trace), None
    while (start := trace.rfind('File "', 0, end)) >= 0:
        match = _FRAME.match(trace, start)
        if match is not None:
            code = trace[trace.find("\n", start, end) + 1 : end] if trace.find("\n", start, end) >= 0 else ""
            place = f"{match[1]}:{match[2]}: {code.strip().partition(chr(10))[0].strip()}"
            if not is_of_torch(match[1]):
                return place
            last = last or place
        end = start
    return last


def source_line(node: Node) -> str | None:
    """`file:line: code` of the user's line behind a node."""
    trace = node.meta.get("stack_trace") or node.stack_trace
    return innermost(trace) if trace else None


def nodes_by_name(gm: GraphModule) -> dict[str, Node]:
    """Nodes of a graph and its subgraphs, by the names that `_C.print_graph` gives them."""
    nodes: dict[str, Node] = {}
    for path, module in gm.named_modules():
        graph = getattr(module, "graph", None)
        if graph is not None:
            prefix = f"{path}." if path else ""
            nodes.update((prefix + node.name, node) for node in graph.nodes)
    return nodes


def places_of(gm: GraphModule, graph: Any) -> dict[int, str]:
    """For lines of the graph text the user's line, where it is known."""
    nodes = nodes_by_name(gm)
    found = {}
    for line, name in graph.lines:
        node = nodes.get(name)
        place = source_line(node) if node is not None else None
        if place:
            found[line] = place
    return found


def packed(places: Mapping[int, str]) -> dict[str, list[int]]:
    """The same by place, for JSON."""
    lines: dict[str, list[int]] = {}
    for line, place in places.items():
        lines.setdefault(place, []).append(line)
    return lines


def unpacked(lines: Mapping[str, list[int]]) -> dict[int, str]:
    """What `packed` made, as far as the files still say the same: what was kept may be older than they are."""
    return {line: place for place, each in lines.items() if _is_still_true(place) for line in each}


def _is_still_true(place: str) -> bool:
    match = re.match(r"(.*?):(\d+): (.*)", place)
    return match is not None and linecache.getline(match[1], int(match[2])).strip() == match[3]


def shortened(place: str) -> str:
    """The place with its file relative to the current folder, where it lies in that."""
    file, _, rest = place.partition(":")
    folder = os.getcwd() + os.sep
    return f"{file.removeprefix(folder)}:{rest}"


def collapsed(lines: Iterable[str]) -> list[str]:
    """Each line once, in order, with the number of times that it came if that is more than one."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    return [line if count == 1 else f"{count} x {line}" for line, count in counts.items()]
