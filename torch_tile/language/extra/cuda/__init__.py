"""tl.extra.cuda: the same functions as tl.extra."""

# ruff: noqa: F401

from __future__ import annotations

from torch_tile.language.extra import libdevice
