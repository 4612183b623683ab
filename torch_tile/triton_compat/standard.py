"""Triton's `language.standard`: the same functions as in `torch_tile.language`."""

from __future__ import annotations

from typing import Any


def _log2(i: Any) -> int:
    """Logarithm of a power of two that is known when the kernel is compiled."""
    return int(i).bit_length() - 1


def _is_power_of_two(i: Any) -> bool:
    return int(i) > 0 and int(i) & (int(i) - 1) == 0


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from torch_tile import language

    return getattr(language, name)
