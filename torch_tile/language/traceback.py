"""Errors in kernels as tracebacks that end at the user's expression."""

from __future__ import annotations

import os
import types
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE)


def at_user_line(error: Any, function: types.FunctionType) -> Any:
    """The error with the user's frames only, and with the kernel's name and line."""
    frames = []
    step = error.__traceback__
    while step is not None:
        if not is_ours(step.tb_frame.f_code.co_filename):
            frames.append(step)
        step = step.tb_next
    # Above the kernel are the frames that launch it; those of the kernel come last.
    chain: types.TracebackType | None = None
    for frame in reversed(frames):
        chain = types.TracebackType(chain, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    if error.stage == "kernel":
        error.stage = f"kernel {function.__name__}"
    if frames and not error.line:
        error.line = frames[-1].tb_lineno
    return error.with_traceback(chain)
