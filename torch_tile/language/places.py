"""Where in the user's source each line of a traced kernel comes from.

While a kernel is traced, lines end with a mark, a control character and a number. The plain text, without marks, is
what compiled kernels are kept by, so that moving a file compiles nothing; the located text is what the compiler and
people read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch_tile.language import traceback

_MARK = re.compile("\x01[0-9]+")
_MARKED_LINE = re.compile("^( *(%[0-9]+)?[^\x01\n]*)\x01([0-9]+)$", re.MULTILINE)
_is_ours: dict[str, bool] = {}


class Places:
    """The positions of one trace."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], str] = {}
        self._positions: list[tuple[Any, int]] = []

    def mark(self) -> str:
        """The end of a line that the user's innermost frame causes."""
        frame: Any = sys._getframe(3)  # below it are this, what writes lines, and an operation
        while frame is not None:
            code = frame.f_code
            file = code.co_filename
            ours = _is_ours.get(file)
            if ours is None:
                ours = _is_ours[file] = traceback.is_ours(file)
            if not ours:
                break
            frame = frame.f_back
        else:
            return ""
        key = id(code), frame.f_lasti
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = f"\x01{len(self._positions)}"
            self._positions.append((code, frame.f_lasti))
        return found

    def located(self, text: str, names: Mapping[str, str]) -> str:
        """Text with a location in place of each mark; `names` are variables by the value they hold."""

        def locate(match: re.Match[str]) -> str:
            line, value, number = match.groups()
            name = names.get(value) if value else None
            return f'{line} loc("{name}"(#l{number}))' if name else f"{line} loc(#l{number})"

        made = []
        for number, (code, lasti) in enumerate(self._positions):
            line, _, column, _ = list(code.co_positions())[lasti // 2]
            file = code.co_filename.replace("\\", "/").replace('"', "'")
            made.append(f'#l{number} = loc("{file}":{line or code.co_firstlineno}:{(column or 0) + 1})\n')
        return "".join(made) + _MARKED_LINE.sub(locate, text)


def plain(text: str) -> str:
    """Text without marks."""
    return _MARK.sub("", text)


class TracedKernel:
    """Text of the tile dialect, with and without locations."""

    def __init__(self, text: str, locate: Callable[[], str]) -> None:
        self.text = text
        self._locate = locate
        self._located: str | None = None

    @property
    def located(self) -> str:
        if self._located is None:
            self._located = self._locate()
        return self._located
