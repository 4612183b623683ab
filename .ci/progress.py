#!/usr/bin/env python3
"""Runs ninja and shows how far it is in one line, with an estimate of the time left; what compilers print stays.

progress.py COMMAND...    the command's exit status is this program's
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

# What ninja writes before each step when NINJA_STATUS says so: steps done, steps in all, seconds.
_STEP = re.compile(r"^@(\d+) (\d+) ([\d.]+) ")
_EVERY_S = 30.0  # between lines where the output is no terminal


def main(command: list[str]) -> int:
    is_terminal = sys.stdout.isatty()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, errors="replace", env={**os.environ, "NINJA_STATUS": "@%f %t %e "}
    )
    assert process.stdout is not None
    shown = time.monotonic()
    is_line_open = False
    for line in process.stdout:
        step = _STEP.match(line)
        if step is None:
            if is_line_open:
                print("\r\033[K", end="")
                is_line_open = False
            if line.strip() and not line.startswith(("ninja: Entering", "ninja: no work")):
                print(line, end="", flush=True)
            continue
        done, total, seconds = int(step[1]), int(step[2]), float(step[3])
        left = seconds / max(done, 1) * (total - done)
        text = f"{done} of {total} steps, {seconds:.0f} s, about {left:.0f} s left"
        if is_terminal:
            print(f"\r\033[K{text}", end="", flush=True)
            is_line_open = True
        elif time.monotonic() - shown > _EVERY_S:
            print(text, flush=True)
            shown = time.monotonic()
    if is_line_open:
        print("\r\033[K", end="")
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
