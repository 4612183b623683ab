"""Triton's module of random numbers: the same functions as in `torch_tile.language`."""

# ruff: noqa: F401

from __future__ import annotations

from torch_tile.language.ops.random import (
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
