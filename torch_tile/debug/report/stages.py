"""What each stage made of one kernel: its part of the texts of the whole graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TITLED = [("tile_llvm_dialect", "LLVM dialect"), ("tile_llvm_ir", "LLVM IR"), ("tile_assembly", "assembly")]


def _titled(text: str) -> dict[str, str]:
    """Parts that begin with a comment `name = symbol`."""
    parts = re.split(r"^(?://|;|#) (\S+) = ([\w$.]+)$", text, flags=re.MULTILINE)
    return {parts[k]: parts[k + 2].strip("\n") for k in range(1, len(parts) - 2, 3)}


def _operations(text: str, start: str) -> list[str]:
    """Operations of a module that begin with `start`, each up to the brace that closes it at its own depth."""
    found: list[str] = []
    current: list[str] = []
    depth = ""
    for line in text.splitlines():
        if not current and re.match(rf"\s*(%\S+ = )?{start}", line):
            depth = line[: len(line) - len(line.lstrip())]
            current = [line]
        elif current:
            current.append(line)
            if line.startswith(depth + "}"):
                found.append("\n".join(part.removeprefix(depth) for part in current))
                current = []
    return found


def _kernels(text: str) -> dict[str, str]:
    found = {}
    for operation in _operations(text, r"tile\.kernel"):
        if name := re.search(r"@([^\s(]+)", operation):
            found[name[1]] = operation
    return found


def _prepared(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Texts cut once for all kernels of the graph."""
    texts = graph["texts"]
    if "prepared" not in texts:
        groups = _operations(texts.get("tile_fusion", ""), r"graph\.fusion")
        launched = re.findall(r"graph\.launch @([^\s(]+)", texts.get("tile_kernel_ir", ""))
        # Groups become launches in their order; kernels of the tile language have none.
        texts["prepared"] = {
            "groups": dict(zip(launched, groups, strict=True)) if len(launched) == len(groups) else {},
            "kernels": _kernels(texts.get("tile_kernel_ir", "")),
            **{name: _titled(texts.get(name, "")) for name, _ in _TITLED},
        }
    prepared: dict[str, Any] = texts["prepared"]
    return prepared


def texts_of_kernel(graph: Mapping[str, Any], kernel: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and text of each stage, in the order of the compile; stages that are not on record are left out."""
    prepared, texts, name = _prepared(graph), graph["texts"], kernel["name"]
    lines = texts.get("tile_graph", "").splitlines()
    nodes = set(kernel.get("nodes", []))
    found = [
        (
            "FX graph",
            "\n".join(line.strip() for line in texts.get("tile_fx", "").splitlines() if _defines(line, nodes)),
        ),
        ("graph dialect", "\n".join(lines[n - 1].strip() for n in kernel["lines"] if 0 < n <= len(lines))),
        ("fusion group", prepared["groups"].get(name, "")),
        ("tile dialect", prepared["kernels"].get(name, "")),
        *((title, prepared[entry].get(name, "")) for entry, title in _TITLED),
    ]
    return [(title, text) for title, text in found if text]


def _defines(line: str, nodes: set[str]) -> bool:
    return line.strip().partition(":")[0].partition(" ")[0] in nodes
