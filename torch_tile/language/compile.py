"""Launches of compiled kernels."""

from __future__ import annotations

from typing import Any

from torch_tile.errors import UnsupportedError


def launch(kernel: Any, grid: Any, args: Any, kwargs: Any) -> Any:
    raise UnsupportedError("launch", "compiled launches are not supported yet; use kernel.interpret[grid](...)")
