"""Adaptive pooling of constant sizes: window i of m over n elements is [floor(i*n/m), ceil((i+1)*n/m))."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tile.frontend.decompositions.pooling import MOST_TAPS, laid_out, pooling, wide_dtype

aten = torch.ops.aten

# By the number of dimensions.
_AVERAGES = {2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}
_MAXIMA = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}


class _Windows:
    def __init__(self, sizes: Sequence[int], counts: Sequence[int], device: torch.device) -> None:
        self.sizes, self.counts, self.device = list(sizes), list(counts), device
        self.rank = len(self.sizes)
        # By dimension and offset: taps share them, so few operators are traced.
        self.of_tap: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.of_element: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    @staticmethod
    def of(x: torch.Tensor, output_size: Any) -> _Windows | None:
        """None unless all sizes are constants, and some."""
        counts = list(output_size)
        sizes = list(x.shape[x.dim() - len(counts) :])
        if not all(isinstance(n, int) and n > 0 for n in (*sizes, *counts)):
            return None
        return _Windows(sizes, counts, x.device)

    def equal_length(self) -> list[int] | None:
        """The length of all windows along each dimension, if they have one and lie side by side."""
        if any(n % m for n, m in zip(self.sizes, self.counts, strict=True)):
            return None
        return [n // m for n, m in zip(self.sizes, self.counts, strict=True)]

    def along(self, dim: int, vector: torch.Tensor) -> torch.Tensor:
        return vector.view([-1 if k == dim else 1 for k in range(self.rank)])

    def start(self, dim: int, window: Any) -> Any:
        return torch.div(window * self.sizes[dim], self.counts[dim], rounding_mode="floor")

    def end(self, dim: int, window: Any) -> Any:
        return torch.div((window + 1) * self.sizes[dim] + self.counts[dim] - 1, self.counts[dim], rounding_mode="floor")

    def taps(self) -> list[tuple[int, ...]]:
        """Offsets into a window; the longest has them all."""
        each = [
            range(max(-((-(i + 1) * n) // m) - (i * n) // m for i in range(m)))
            for n, m in zip(self.sizes, self.counts, strict=True)
        ]
        return list(itertools.product(*each))

    def tap(self, x: torch.Tensor, at: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The element of each window at an offset, whether the window has it, and its place in the operand."""
        indices: list[Any] = [None] * (x.dim() - self.rank)
        valid: Any = None
        place: Any = 0
        for dim in range(self.rank):
            inside, position = self._tap_along(dim, at[dim])
            valid = inside if valid is None else valid & inside
            place = place * self.sizes[dim] + position
            indices.append(position)
        return aten._unsafe_index.Tensor(x, indices), valid, place

    def _tap_along(self, dim: int, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
        if (dim, offset) not in self.of_tap:
            window = torch.arange(self.counts[dim], device=self.device)
            position = self.start(dim, window) + offset
            inside = self.along(dim, position < self.end(dim, window))
            self.of_tap[dim, offset] = inside, self.along(dim, position.clamp(max=self.sizes[dim] - 1))
        return self.of_tap[dim, offset]

    def lengths(self) -> Any:
        total: Any = 1
        for dim in range(self.rank):
            window = torch.arange(self.counts[dim], device=self.device)
            total = total * self.along(dim, self.end(dim, window) - self.start(dim, window))
        return total

    def covering(self) -> list[tuple[int, ...]]:
        """Windows that may hold an element, counted on from the first that does."""
        each = [
            range(max(-((-(i + 1) * m) // n) - (i * m) // n for i in range(n)))
            for n, m in zip(self.sizes, self.counts, strict=True)
        ]
        return list(itertools.product(*each))

    def window(self, values: Sequence[torch.Tensor], on: Sequence[int]) -> tuple[list[torch.Tensor], torch.Tensor]:
        """For each element of the operand the values of its `on`-next window, and whether that holds it."""
        indices: list[Any] = [None] * (values[0].dim() - self.rank)
        valid: Any = None
        for dim in range(self.rank):
            holds, place = self._window_along(dim, on[dim])
            valid = holds if valid is None else valid & holds
            indices.append(place)
        return [aten._unsafe_index.Tensor(value, indices) for value in values], valid

    def _window_along(self, dim: int, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
        if (dim, offset) not in self.of_element:
            n, m = self.sizes[dim], self.counts[dim]
            position = torch.arange(n, device=self.device)
            window = torch.div(position * m, n, rounding_mode="floor") + offset
            holds = self.along(dim, window < torch.div((position + 1) * m + n - 1, n, rounding_mode="floor"))
            self.of_element[dim, offset] = holds, self.along(dim, window.clamp(max=m - 1))
        return self.of_element[dim, offset]


def _average(x: torch.Tensor, output_size: Any) -> Any:
    windows = _Windows.of(x, output_size)
    if windows is None or not x.dtype.is_floating_point:
        return NotImplemented
    taps = windows.taps()
    if len(taps) > MOST_TAPS:
        if any(n % m for n, m in zip(windows.sizes, windows.counts, strict=True)):
            return NotImplemented
        # Long windows of one length are reduced along dimensions of their own.
        split = list(x.shape[: x.dim() - windows.rank])
        for n, m in zip(windows.sizes, windows.counts, strict=True):
            split += [m, n // m]
        dims = [len(split) - 1 - 2 * k for k in range(windows.rank)]
        return laid_out(x.contiguous().view(split).mean(dims), x, windows.rank)
    if (kernel := windows.equal_length()) is not None:
        return pooling()[_AVERAGES[windows.rank]](x, kernel)
    total: Any = None
    wide = x.to(wide_dtype(x.dtype))
    for at in taps:
        value, valid, _ = windows.tap(wide, at)
        value = value if not any(at) else torch.where(valid, value, 0.0)
        total = value if total is None else total + value
    return laid_out((total / windows.lengths()).to(x.dtype), x, windows.rank)


def _average_backward(rank: int) -> Callable[..., Any]:
    def adaptive_avg_pool_backward(grad: torch.Tensor, x: torch.Tensor) -> Any:
        windows = _Windows.of(x, grad.shape[grad.dim() - rank :])
        if windows is None:
            return NotImplemented
        if (kernel := windows.equal_length()) is not None:
            # Each element of a window has its share.
            share = grad.to(wide_dtype(grad.dtype)) / math.prod(kernel)
            lead, spread = x.dim() - rank, list(x.shape[: x.dim() - rank])
            for dim in range(rank):
                share = share.unsqueeze(lead + 2 * dim + 1)
                spread += [windows.counts[dim], kernel[dim]]
            return laid_out(share.expand(spread).reshape(x.shape).to(grad.dtype), x, rank)
        if len(windows.covering()) > MOST_TAPS:
            return NotImplemented
        divided = grad.to(wide_dtype(grad.dtype)) / windows.lengths()
        total: Any = None
        for on in windows.covering():
            (value,), valid = windows.window([divided], on)
            value = torch.where(valid, value, 0.0)
            total = value if total is None else total + value
        return laid_out(total.to(grad.dtype), x, rank)

    return adaptive_avg_pool_backward


def _maximum(x: torch.Tensor, output_size: Any) -> Any:
    windows = _Windows.of(x, output_size)
    if windows is None or not x.dtype.is_floating_point:
        return NotImplemented
    taps = windows.taps()
    if len(taps) > MOST_TAPS:
        return NotImplemented
    if (kernel := windows.equal_length()) is not None:
        return tuple(laid_out(each, x, windows.rank) for each in pooling()[_MAXIMA[windows.rank]](x, kernel))
    best: Any = None
    index: Any = None
    for at in taps:
        value, valid, place = windows.tap(x, at)
        if best is None:
            best, index = value, place
            continue
        takes = valid & ((value > best) | torch.isnan(value))
        best, index = torch.where(takes, value, best), torch.where(takes, place, index)
    return laid_out(best, x, windows.rank), laid_out(index.expand(best.shape), x, windows.rank)


def _maximum_backward(rank: int) -> Callable[..., Any]:
    def adaptive_max_pool_backward(grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> Any:
        windows = _Windows.of(x, grad.shape[grad.dim() - rank :])
        if windows is None or len(windows.covering()) > MOST_TAPS:
            return NotImplemented
        place: Any = 0
        for dim in range(rank):
            place = place * windows.sizes[dim] + windows.along(dim, torch.arange(windows.sizes[dim], device=x.device))
        total: Any = None
        for on in windows.covering():
            (value, index), valid = windows.window([grad.to(wide_dtype(grad.dtype)), indices], on)
            value = torch.where(valid & (index == place), value, 0.0)
            total = value if total is None else total + value
        return laid_out(total.to(grad.dtype), x, rank)

    return adaptive_max_pool_backward


def adaptive_pooling() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten._adaptive_avg_pool2d.default: _average,
        aten._adaptive_avg_pool2d_backward.default: _average_backward(2),
        aten._adaptive_avg_pool3d.default: _average,
        aten._adaptive_avg_pool3d_backward.default: _average_backward(3),
        aten.adaptive_max_pool2d.default: _maximum,
        aten.adaptive_max_pool2d_backward.default: _maximum_backward(2),
        aten.adaptive_max_pool3d.default: _maximum,
        aten.adaptive_max_pool3d_backward.default: _maximum_backward(3),
    }
