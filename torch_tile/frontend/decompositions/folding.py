"""Windows as columns (`im2col`, which is `unfold` of images) and back (`col2im`, `fold`), without tables of indices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tile.frontend.decompositions.pooling import MOST_TAPS, wide_dtype

aten = torch.ops.aten


def _im2col(
    x: torch.Tensor, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Any:
    if x.dim() not in (3, 4) or x.dtype.is_complex:
        return NotImplemented
    if x.dim() == 3:
        columns = _im2col(x.unsqueeze(0), kernel_size, dilation, padding, stride)
        return columns.squeeze(0)
    if any(padding):
        x = aten.constant_pad_nd(x, [padding[1], padding[1], padding[0], padding[0]], 0)
    for k in range(2):
        reach = dilation[k] * (kernel_size[k] - 1) + 1
        x = aten.slice.Tensor(x.unfold(2 + k, reach, stride[k]), -1, 0, reach, dilation[k])
    batch, channels, rows, columns = x.shape[:4]
    windows = x.permute(0, 1, 4, 5, 2, 3)
    # One row of windows is a view: its strides are not those of ATen's result.
    return windows.reshape(batch, channels * kernel_size[0] * kernel_size[1], rows * columns).contiguous()


def _windows_holding(size: int, kernel: int, padding: int, stride: int, count: int, device: torch.device) -> Any:
    """For each element of a dimension: tap and number of each window that may hold it, and whether that does."""
    position = torch.arange(size, device=device) + padding
    for back in range(-(-kernel // stride)):
        window = torch.div(position, stride, rounding_mode="floor") - back
        tap = position - window * stride
        holds = (window >= 0) & (window < count) & (tap < kernel)
        yield tap.clamp(max=kernel - 1), window.clamp(0, count - 1), holds


def _col2im(
    columns: torch.Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    sizes = [*columns.shape, *output_size]
    if columns.dim() not in (2, 3) or not columns.dtype.is_floating_point or not all(type(n) is int for n in sizes):
        return NotImplemented
    if columns.dim() == 2:
        image = _col2im(columns.unsqueeze(0), output_size, kernel_size, dilation, padding, stride)
        return image if image is NotImplemented else image.squeeze(0)
    counts = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, p, d, k, s in zip(output_size, padding, dilation, kernel_size, stride, strict=True)
    ]
    taps = kernel_size[0] * kernel_size[1]
    is_shifted = list(stride) == [1, 1]
    if taps > MOST_TAPS or not (is_shifted or list(dilation) == [1, 1]):
        return NotImplemented
    batch, channels = columns.shape[0], columns.shape[1] // taps
    parts = columns.to(wide_dtype(columns.dtype)).view(batch, channels, *kernel_size, *counts)
    total: Any = None
    if is_shifted:  # each tap is the image, moved
        for at in itertools.product(*map(range, kernel_size)):
            low = [at[k] * dilation[k] - padding[k] for k in range(2)]
            high = [output_size[k] - counts[k] - low[k] for k in range(2)]
            part = aten.constant_pad_nd(parts[:, :, at[0], at[1]], [low[1], high[1], low[0], high[0]], 0)
            total = part if total is None else total + part
        return total.to(columns.dtype).contiguous()  # whatever order the columns have
    holding = [
        list(_windows_holding(output_size[k], kernel_size[k], padding[k], stride[k], counts[k], columns.device))
        for k in range(2)
    ]
    for (row_tap, row, row_holds), (tap, column, holds) in itertools.product(*holding):
        place = [None, None, row_tap.view(-1, 1), tap, row.view(-1, 1), column]
        part = torch.where(row_holds.view(-1, 1) & holds, aten._unsafe_index.Tensor(parts, place), 0.0)
        total = part if total is None else total + part
    return total.to(columns.dtype).contiguous()


def folding() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.im2col.default: _im2col, aten.col2im.default: _col2im}
