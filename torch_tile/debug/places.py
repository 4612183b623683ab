"""Where in the user's program an operation comes from."""

from __future__ import annotations

import functools
import linecache
import os
import re
from collections.abc import Callable, Iterable, Mapping
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


def callees_of(graph: Any) -> dict[int, str]:
    """For lines of the graph text that call Python what is called."""
    names = {}
    for node in graph.pycalls:  # of subgraphs, too, whose lines have longer names
        operators = [each for each in (node.target, *node.args) if hasattr(each, "_schema")]
        names[node.name] = str(operators[0] if operators else getattr(node.target, "__name__", node.target))
    return {line: names[name] for line, name in graph.lines if name in names}


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


def note_steps(
    find: Callable[[], Mapping[int, str]], callees: Mapping[int, str] | None = None
) -> Callable[[BaseException, int, Any], None]:
    """What a program calls where a step has raised: a note on the exception says which operator it was, and from which
    line of the user's program.

    Args:
        find: gives what `places_of` gave.
        callees: of `callees_of`.
    """

    def note(error: BaseException, step: int, program: Any) -> None:
        places, lines = find(), program.step_lines[step]
        what = next((callees[line] for line in lines if callees and line in callees), program.step_names[step])
        text = _note(what, list(dict.fromkeys(places[line] for line in lines if line in places)))
        if what and text not in getattr(error, "__notes__", ()):
            if hasattr(error, "add_note"):
                error.add_note(text)
            else:  # before Python 3.11, where nobody shows it who is not asked to
                error.__notes__ = [*getattr(error, "__notes__", ()), text]  # type: ignore[attr-defined]

    return note


def _note(what: str, places: list[str]) -> str:
    if len(places) <= 1:
        return f"raised by {what}" + "".join(f", from {place}" for place in places)
    shown = places[:8] + [f"... and {len(places) - 8} more"] * (len(places) > 8)
    return f"raised by {what}, which is made of" + "".join(f"\n  {place}" for place in shown)
