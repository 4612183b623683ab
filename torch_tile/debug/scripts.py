"""Runs a user's script in this process, as `python script.py arguments` does."""

from __future__ import annotations

import dataclasses
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


@dataclasses.dataclass(frozen=True)
class End:
    """How a script ended."""

    status: int = 0
    """What Python's exit status is."""
    text: str = ""
    """Its exception, or its status where that is not 0: "ended with {text}"."""


def run(script: str | Path, arguments: Sequence[str] = ()) -> End:
    """Its own exit ends the script alone, and so does an exception, which is shown as Python shows it."""
    before_argv, before_path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as exit_:
        return _of_exit(exit_.code)
    except BaseException as error:
        error.__traceback__ = _of_script(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        text = str(error).strip().partition("\n")[0]
        name = type(error).__name__
        return End(130 if isinstance(error, KeyboardInterrupt) else 1, f"{name}: {text}" if text else name)
    finally:
        sys.argv, sys.path[:] = before_argv, before_path
    return End()


def _of_exit(code: object) -> End:
    if code is None:
        return End()
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    return End(int(code), f"status {code}" if code else "")


def _of_script(frames: TracebackType | None) -> TracebackType | None:
    """Without the frames above the script's first: that of `run`, and runpy's."""
    frames = frames.tb_next if frames else None
    while frames is not None and frames.tb_frame.f_globals.get("__name__") == "runpy":
        frames = frames.tb_next
    return frames
