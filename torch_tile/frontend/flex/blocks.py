"""Which blocks the kernels of `flex_attention` compute, with how many warps and loads ahead."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from torch_tile.frontend.launches.launch import NotNative
from torch_tile.language.launch_options import LaunchOptions

# How often blocks are halved when a device has no room for kernels, before operators of the graph take their place.
MOST_HALVINGS = 3
# Products take at least 16 rows, columns and terms.
LEAST = 16


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Rows and keys of a block, and options of the launch."""

    rows: int
    keys: int
    num_warps: int
    num_stages: int

    def options(self) -> LaunchOptions:
        return LaunchOptions(num_warps=self.num_warps, num_stages=self.num_stages)


def padded(size: int) -> int:
    return max(LEAST, 1 << (size - 1).bit_length())


def _fitting(wanted: int, block: Any, length: Any) -> int:
    """At most as many as wanted, so that the mask's blocks consist of whole ones."""
    if isinstance(length, int):
        wanted = min(wanted, padded(length))
    if isinstance(length, int) and block >= length:
        return wanted
    fitting = math.gcd(wanted, block)
    if fitting < LEAST:
        raise NotNative(f"blocks of a mask of {block} rows or keys, expected a multiple of {LEAST}")
    return fitting


def choose(
    kind: str,
    width: int,
    dtype: torch.dtype,
    given: dict[str, Any],
    mask: tuple[Any, Any],
    lengths: Any,
    shared_bytes: int | None,
    smaller: int = 0,
    is_long: bool = False,
) -> Blocks:
    """Blocks of a kernel.

    Args:
        kind: "forward", "queries" or "keys".
        width: of queries, keys and values, the largest.
        given: options of the user's call, with Inductor's names.
        mask: rows and keys of a block of the mask.
        lengths: of queries and keys.
        shared_bytes: that a block of the device may have; None for processors. Smaller blocks are chosen where
            operands need more.
        smaller: how often to halve what was chosen: the device had no room for it.
        is_long: whether the score function takes as long as an exponential, or reads tensors.
    """
    found = _default(kind, padded(width), dtype, is_long) if shared_bytes is not None else _on_cpu(kind, padded(width))
    prefix = "fwd_" if kind == "forward" else "bwd_"

    def option(name: str, otherwise: int) -> int:
        value = given.get(prefix + name, given.get(name))
        return int(value) if isinstance(value, int) else otherwise

    names = {"forward": ("BLOCK_M", "BLOCK_N"), "queries": ("BLOCK_M2", "BLOCK_N2"), "keys": ("BLOCK_M1", "BLOCK_N1")}
    rows, keys = option(names[kind][0], found.rows), option(names[kind][1], found.keys)
    rows, keys = _fitting(rows, mask[0], lengths[0]), _fitting(keys, mask[1], lengths[1])
    num_warps, num_stages = option("num_warps", found.num_warps), option("num_stages", found.num_stages)
    halvings = 0
    limit = math.inf if shared_bytes is None else shared_bytes
    while halvings < smaller or _needed_bytes(kind, rows, keys, padded(width), dtype) > limit:
        if rows == keys == LEAST:
            break
        rows, keys = (rows // 2, keys) if rows >= keys else (rows, keys // 2)
        halvings += 1
    if halvings > 0:
        num_warps, num_stages = min(num_warps, 4), min(num_stages, 2 if smaller == 0 else 1)
    return Blocks(rows, keys, num_warps, num_stages)


def _needed_bytes(kind: str, rows: int, keys: int, width: int, dtype: torch.dtype) -> int:
    """Shared memory that operands of matrix products take, without loads ahead, which use what is left."""
    if dtype.itemsize > 2:  # operands are cut into pieces that fit
        return 0
    of_rows, of_keys = (1, 2) if kind == "forward" else (2, 2)
    return (of_rows * rows + of_keys * keys) * width * dtype.itemsize


# Fewer steps than these are not worth the memory that results for parts of the keys pass through.
_LEAST_STEPS, _MOST_SPLITS = 4, 64


def number_of_splits(programs: int, steps: int | None, multiprocessors: int) -> int:
    """How many programs share the keys of a block of rows: as many as fill the device twice.

    Args:
        programs: that there are without splits.
        steps: blocks of keys; None if their number is not known.
    """
    if programs == 0 or programs >= multiprocessors:
        return 1
    wanted = min(2 * multiprocessors // programs, _MOST_SPLITS)
    return max(1, wanted if steps is None else min(wanted, steps // _LEAST_STEPS))


def _default(kind: str, width: int, dtype: torch.dtype, is_long: bool = False) -> Blocks:
    """The fastest of six to nine for each kind and width, measured on one H200 with 4x16x2048 rows in bfloat16.

    A long score function wants several blocks on a multiprocessor, so that one computes scores during the products of
    another, and few scores in a thread: one that reads a tensor for each took 643 us with 32 of them, 3112 with 64.
    """
    if dtype.itemsize > 2:  # products without tensor cores: operands in 48 KB of shared memory
        side = 32 if width <= 64 else 16
        return Blocks(side, side, 4, 1)
    if kind == "forward":
        if width <= 128 and is_long:
            return Blocks(64, 64, 4, 2)
        if width <= 64:
            return Blocks(64, 128, 4, 2)
        return Blocks(128, 64, 8, 2) if width <= 128 else Blocks(64, 32, 4, 2)
    if width <= 64:
        return Blocks(64, 64, 4, 2) if kind == "queries" else Blocks(128, 64, 4, 2)
    return Blocks(64, 64, 4, 2) if width <= 128 else Blocks(32, 32, 4, 1)


# Bytes of a tile of rows or keys on CPU. A program uses about eight at a time, in float32: operands, one of them also
# transposed, sums (twice, since loops carry them) and scores. They share 256 KB, half of a usual second-level cache.
_TILE_BYTES = 32 << 10


def _on_cpu(kind: str, width: int) -> Blocks:
    """Rows of the result amortise what is done with an operand first: copying, widening, transposing."""
    size = max(LEAST, min(128, _TILE_BYTES // (4 * width)))
    if kind == "keys":  # the transposed operands belong to the rows
        return Blocks(min(64, size), size, 1, 1)
    return Blocks(size, min(64, size), 1, 1)
