"""tl.extra: math functions under the names of NVIDIA's library."""

# ruff: noqa: F401

from __future__ import annotations

from torch_tile.language.extra import cuda, libdevice
