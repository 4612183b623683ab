"""Names that code reads from outside of itself: globals, cells of closures, modules that it imports."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

MISSING: Any = object()


def is_present(value: Any) -> bool:
    return value is not MISSING


def cell_content(cell: types.CellType) -> Any:
    """What a cell of a closure holds; MISSING if nothing was assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


@functools.cache
def names_read(code: types.CodeType) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What code reads by name: ("global", ("torch", "ops", "mylib", "f")), ("cell", ("weight",)), ("import", ("os",)).

    Attributes follow a name as far as they are read at once.
    """
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    chain: tuple[str, tuple[str, ...]] | None = None
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD") and chain is not None:
            chain = (chain[0], (*chain[1], str(instruction.argval)))
            continue
        if name in ("PUSH_NULL", "CACHE", "PRECALL", "EXTENDED_ARG", "NOP"):
            continue
        if chain is not None:
            found[chain] = None
            chain = None
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            chain = ("global", (str(instruction.argval),))
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            chain = ("cell", (str(instruction.argval),))
        elif name == "IMPORT_NAME":
            found[("import", (str(instruction.argval),))] = None
    if chain is not None:
        found[chain] = None
    return tuple(found)
