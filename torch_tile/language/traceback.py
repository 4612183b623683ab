"""Errors in kernels as tracebacks that end at the user's expression."""

from __future__ import annotations

import os
import types
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE)


def trimmed(error: Any) -> Any:
    """Any other error, without our own frames behind the user's last one."""
    step, steps = error.__traceback__, []
    while step is not None:
        steps.append(step)
        step = step.tb_next
    while steps and is_ours(steps[-1].tb_frame.f_code.co_filename):
        steps.pop()
    chain: types.TracebackType | None = None
    for step in reversed(steps):
        chain = types.TracebackType(chain, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return error.with_traceback(chain or error.__traceback__)


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
