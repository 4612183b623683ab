"""What a simulation cannot see: wgmma gives results to registers at some time before it is waited for. The simulator
has them at once, so uses without a wait are looked for in the text of LLVM's IR."""

from __future__ import annotations

import re

_VALUE = re.compile(r"%[\w.]+")


def uses_under_way(ir: str) -> list[str]:
    """Instructions, other than products and waits, that use what a product gives before it is waited for."""
    if "wgmma.mma_async" not in ir:
        return []
    return [use for function in re.split(r"^(?=define )", ir, flags=re.M) for use in _uses_in(function)]


def _uses_in(function: str) -> list[str]:
    under_way: set[str] = set()
    moves: list[tuple[str, set[str]]] = []  # to other names: elements of results, and what blocks before give
    others: list[str] = []
    for line in function.splitlines():
        name, is_value, operation = line.strip().partition(" = ")
        if not is_value:
            name, operation = "", line.strip()
        if "wgmma.mma_async" in operation:
            under_way.add(name)
        elif operation.startswith(("extractvalue", "phi")):
            moves.append((name, set(_VALUE.findall(operation))))
        elif "wgmma.wait_group" not in operation:  # which gives them new names
            others.append(operation)
    count = -1
    while count != len(under_way):
        count = len(under_way)
        under_way.update(name for name, found in moves if found & under_way)
    return [use for use in others if not under_way.isdisjoint(_VALUE.findall(use))]
