"""Where the stages of a kernel are written when dumps are on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from torch_tile import config


def dump_to(name: str, text: str) -> Callable[[str, str], None] | None:
    """A function that writes stages of a kernel to a folder of its own, or None unless dumps are on."""
    if not config.get("debug"):
        return None
    from torch._dynamo.utils import get_debug_dir

    base = Path(get_debug_dir()) / "torch_tile"
    folder = base / f"triton_{name}"
    number = 0
    while folder.exists():
        number += 1
        folder = base / f"triton_{name}.{number}"
    os.makedirs(folder)

    def write(file: str, data: str) -> None:
        (folder / file).write_text(data)

    return write
