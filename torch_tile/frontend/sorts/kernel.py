"""The kernel that sorts rows: a few of them to a program, all elements of each in registers."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

import torch_tile
import torch_tile.language as tl
from torch_tile.language.ops.sorting import sort_with_places


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a kernel is made for.

    Attributes:
        length: elements of a row.
        width: the next power of two.
        kept: elements of a row of the results.
        rows: rows of a program.
        dtype: of the elements.
        is_descending: the greatest come first.
    """

    length: int
    width: int
    kept: int
    rows: int
    dtype: torch.dtype
    is_descending: bool

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point

    @property
    def is_packed(self) -> bool:
        """Whether an element and its place in the row fit into one integer of 64 bits."""
        return self.dtype.itemsize <= 4


def _keys(x: Any, shape: Shape) -> Any:
    """Integers in the order of the elements: NaN is greater than all others, zeros of both signs are equal."""
    if not shape.is_float:
        return x.to(tl.int32) if shape.is_packed else x
    wide, narrow = (tl.int32, tl.float32) if shape.is_packed else (tl.int64, tl.float64)
    greatest = (1 << 31) - 1 if shape.is_packed else (1 << 63) - 1
    x = x.to(narrow)
    bits = tl.where(x == 0, 0, x.to(wide, bitcast=True))
    # The bits of negative numbers grow with their magnitude.
    ordered = tl.where(bits < 0, bits ^ greatest, bits)
    return tl.where(x == x, ordered, greatest)


def order(x: Any, column: Any, shape: Shape) -> Any:
    """The places of a row's elements in their order; equal ones keep theirs. What is behind the row comes last."""
    keys = _keys(x, shape)
    if shape.is_descending:
        keys = keys ^ -1
    last = (1 << 63) - 1
    if shape.is_packed:
        packed = (keys.to(tl.int64) << 32) | column.to(tl.int64)
        if shape.length < shape.width:
            packed = tl.where(column < shape.length, packed, last)
        return tl.sort(packed) & 0xFFFFFFFF
    if shape.length < shape.width:
        keys = tl.where(column < shape.length, keys, last)
    return sort_with_places(keys, tl.broadcast_to(column, keys.shape))[1].to(tl.int64)


@torch_tile.jit
def sort_rows(x, values, places, rows, S: tl.constexpr):
    """Sorts `S.rows` rows of the tensor `x`; `values` or `places` is None if nothing reads it. `S` is a `Shape`."""
    row = tl.program_id(0).to(tl.int64) * S.rows + tl.arange(0, S.rows)[:, None]
    column = tl.arange(0, S.width)[None, :]
    begin = row * S.length
    is_row = row < rows
    place = order(tl.load(x + begin + column, mask=is_row & (column < S.length), other=0), column, S)
    is_kept = is_row & (column < S.kept)
    result = row * S.kept + column
    if places is not None:
        tl.store(places + result, place, mask=is_kept)
    if values is not None:
        tl.store(values + result, tl.load(x + begin + place, mask=is_kept, other=0), mask=is_kept)
