"""Exception classes. The extension raises these too, one for each kind of outcome."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable


class TileError(Exception):
    """Base of all errors of this package.

    Args:
        stage: the step that failed, as in the names of dump files.
        text: what went wrong, without a final period.
        line: line of the graph text, 0 if unknown.
    """

    def __init__(self, stage: str, text: str, line: int = 0) -> None:
        super().__init__(stage, text, line)
        self.stage = stage
        self.text = text
        self.line = line

    @property
    def error_message(self) -> str:
        """The text, under the name that scripts written for Triton ask for."""
        return self.text

    def __str__(self) -> str:
        where = f"{self.stage}, line {self.line}" if self.line else self.stage
        return f"{where}: {self.text}"


class InvalidKernelError(TileError):
    """The program given to the compiler is wrong."""


class UnsupportedError(TileError):
    """Valid, but not supported here: the graph runs in eager mode unless `strict` is set."""


class OutOfResources(UnsupportedError):
    """A kernel needs more shared memory, registers or threads than the device has.

    In a process that has imported Triton it is one of `triton.runtime.errors.OutOfResources` too.

    Attributes:
        name: of the resource: "shared memory", "registers" or "threads".
        required, limit: how much of it the kernel asks for, and how much there is.
    """

    def __new__(cls, *arguments: object) -> OutOfResources:
        return super().__new__(_with_base_of_triton(cls) if cls is OutOfResources else cls, *arguments)

    def __init__(self, stage: str, text: str, line: int = 0) -> None:
        super().__init__(stage, text, line)
        found = re.search(r"out of resources: ([a-z ]+), required (\d+).*?, limit (\d+)", text)
        self.name = found[1] if found else ""
        self.required, self.limit = (int(found[2]), int(found[3])) if found else (0, 0)

    def __reduce__(self) -> tuple[object, ...]:
        return OutOfResources, (self.stage, self.text, self.line)


_joint_classes: dict[str, type[OutOfResources]] = {}


def _with_base_of_triton(cls: type[OutOfResources]) -> type[OutOfResources]:
    """The class that scripts catch which were written for Triton; nobody can name it without having imported it."""
    theirs = getattr(sys.modules.get("triton.runtime.errors"), "OutOfResources", None)
    if not isinstance(theirs, type):
        return cls
    if "triton" not in _joint_classes:
        members = {"__module__": cls.__module__, "__doc__": cls.__doc__}
        _joint_classes["triton"] = type(cls.__name__, (cls, theirs), members)
    return _joint_classes["triton"]


class CompileError(TileError):
    """A failure of this package."""


class PackageError(TileError):
    """A file of a packaged model cannot be read: it is no package, damaged, cut short, or of another version."""


class OverlappingInputsError(TileError):
    """Arguments share memory in another way than those the graph was compiled for; nothing has been written yet."""


class ArtifactError(TileError):
    """A compiled graph cannot be saved, or a file does not hold one that can be used here."""


class OptionError(ValueError):
    """An unknown mode or option, or a value of the wrong type."""


class MemoryAccessError(InvalidKernelError, IndexError):
    """A kernel reads or writes outside the storage of an argument; the interpreter finds these."""


class RaceError(InvalidKernelError):
    """What a kernel does depends on the order in which its programs run; the interpreter finds these on request."""


def nearest(name: str, known: Iterable[str]) -> str:
    """What ends a message about a name that is not known: the name it may have been meant for, if one is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (the nearest: {found[0]})" if found else ""
