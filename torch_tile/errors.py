"""Exceptions of torch-tile. The extension raises them by name."""

from __future__ import annotations


class TileError(RuntimeError):
    """Base of all errors of torch-tile."""


class OptionError(TileError, ValueError):
    """An unknown mode or option, or a value that it does not take."""


class CompileError(TileError):
    """A stage of the compiler failed: a defect of torch-tile, not of the program.

    Attributes:
        stage: name of the stage ("fusion", "codegen", ...).
        text: what went wrong.
        line: line of the graph text, 0 if unknown.
    """

    def __init__(self, stage: str, text: str, line: int = 0) -> None:
        self.stage, self.text, self.line = stage, text, line
        where = f" at line {line} of the graph" if line else ""
        super().__init__(f"{stage}{where}: {text}")


class UnsupportedError(TileError):
    """The program is valid but something in it is not supported.

    Attributes are those of :class:`CompileError`.
    """

    def __init__(self, stage: str, text: str, line: int = 0) -> None:
        self.stage, self.text, self.line = stage, text, line
        where = f" at line {line} of the graph" if line else ""
        super().__init__(f"{stage}{where}: {text}")


class InvalidKernelError(TileError):
    """The text of a graph or kernel is wrong.

    Attributes are those of :class:`CompileError`.
    """

    def __init__(self, stage: str, text: str, line: int = 0) -> None:
        self.stage, self.text, self.line = stage, text, line
        where = f" at line {line}" if line else ""
        super().__init__(f"{stage}{where}: {text}")
