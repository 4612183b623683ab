"""Adaptive pooling of constant sizes: window i of m over n elements is [floor(i*n/m), ceil((i+1)*n/m))."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tile.frontend.decompositions.pooling import (
    MOST_TAPS,
    added_at,
    is_channels_last,
    laid_out,
    pooling,
    wide_dtype,
)

aten = torch.ops.aten

# Elements of windows of one length that are written out one by one. Windows of 5 x 5 take as long dimension after
# dimension, larger ones up to 9 times less.
_MOST_UNROLLED = 16
# By the number of dimensions.
_AVERAGES = {2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}
_MAXIMA = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}


class _Spread:
    """A dimension of n elements as one of m windows and one of the longest window's elements."""

    def __init__(self, position: torch.Tensor, inside: torch.Tensor, trailing: int) -> None:
        """`position` and `inside` are of shape [m, longest]; `trailing` dimensions follow."""
        self.position, self.trailing = position, trailing
        self.inside = inside.view([*inside.shape, *[1] * trailing])

    @property
    def dim(self) -> int:
        """The dimension of a window's elements."""
        return -1 - self.trailing

    def of(self, x: torch.Tensor) -> torch.Tensor:
        indices = [None] * (x.dim() - 1 - self.trailing) + [self.position]
        result: torch.Tensor = aten._unsafe_index.Tensor(x, indices)
        return result


class _Windows:
    """`behind`: how many dimensions follow those of the image."""

    def __init__(self, sizes: Sequence[int], counts: Sequence[int], device: torch.device) -> None:
        self.sizes, self.counts, self.device = list(sizes), list(counts), device
        self.behind = 0
        self.rank = len(self.sizes)
        self.of_dim: dict[int, _Spread] = {}
        # By dimension and offset: windows share them, so few operators are traced.
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
        return vector.view([-1 if k == dim else 1 for k in range(self.rank)] + [1] * self.behind)

    def start(self, dim: int, window: Any) -> Any:
        return torch.div(window * self.sizes[dim], self.counts[dim], rounding_mode="floor")

    def end(self, dim: int, window: Any) -> Any:
        return torch.div((window + 1) * self.sizes[dim] + self.counts[dim] - 1, self.counts[dim], rounding_mode="floor")

    def tap_count(self) -> int:
        """Elements of the longest window."""
        return math.prod(self.longest(dim) for dim in range(self.rank))

    def longest(self, dim: int) -> int:
        n, m = self.sizes[dim], self.counts[dim]
        return max(-((-(i + 1) * n) // m) - (i * n) // m for i in range(m))

    def spread(self, dim: int) -> _Spread:
        if dim not in self.of_dim:
            window = torch.arange(self.counts[dim], device=self.device).unsqueeze(-1)
            position = self.start(dim, window) + torch.arange(self.longest(dim), device=self.device)
            inside = position < self.end(dim, window)
            self.of_dim[dim] = _Spread(
                position.clamp(max=self.sizes[dim] - 1), inside, self.rank - dim - 1 + self.behind
            )
        return self.of_dim[dim]

    def places(self) -> Any:
        """Of all elements, counted row by row."""
        place: Any = 0
        for dim in range(self.rank):
            place = place * self.sizes[dim] + self.along(dim, torch.arange(self.sizes[dim], device=self.device))
        return place

    def lengths(self) -> Any:
        """Elements of each window."""
        total: Any = 1
        for dim in range(self.rank):
            n, m = self.sizes[dim], self.counts[dim]
            # Beside n // m elements a window holds one for its rest, and another where the rests of the windows so far
            # end within an element.
            rest = n % m
            dtype = torch.int32 if m * m < 2**31 else torch.int64
            window = torch.arange(m, dtype=dtype, device=self.device)
            is_longer = torch.remainder(window * rest, m) + rest > m
            total = total * self.along(dim, is_longer.to(dtype) + (n // m + (1 if rest else 0)))
        return total

    def most_covering(self, dim: int) -> int:
        """Windows that hold one element, at most."""
        n, m = self.sizes[dim], self.counts[dim]
        return max(-((-(i + 1) * m) // n) - (i * m) // n for i in range(n))

    def covering(self) -> list[tuple[int, ...]]:
        """Windows that may hold an element, counted on from the first that does."""
        return list(itertools.product(*(range(self.most_covering(dim)) for dim in range(self.rank))))

    def window(self, values: Sequence[torch.Tensor], on: Sequence[int]) -> tuple[list[torch.Tensor], torch.Tensor]:
        """For each element of the operand the values of its `on`-next window, and whether that holds it."""
        indices: list[Any] = [None] * (values[0].dim() - self.rank)
        valid: Any = None
        for dim in range(self.rank):
            holds, place = self.window_along(dim, on[dim])
            valid = holds if valid is None else valid & holds
            indices.append(place)
        return [aten._unsafe_index.Tensor(value, indices) for value in values], valid

    def window_along(self, dim: int, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Whether the `offset`-next window holds an element, and the window, by the elements along `dim`."""
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
    if (kernel := windows.equal_length()) is not None:
        if windows.tap_count() <= _MOST_UNROLLED:
            return pooling()[_AVERAGES[windows.rank]](x, kernel)
        # Longer windows are reduced along dimensions of their own.
        split = list(x.shape[: x.dim() - windows.rank])
        for n, m in zip(windows.sizes, windows.counts, strict=True):
            split += [m, n // m]
        dims = [len(split) - 1 - 2 * k for k in range(windows.rank)]
        return laid_out(x.contiguous().view(split).mean(dims), x, windows.rank)
    # Dimension after dimension: of a window of a x b elements a + b are read.
    # Channels that lie side by side do so in what is made on the way.
    windows.behind = int(is_channels_last(x, windows.rank))
    total = x.to(wide_dtype(x.dtype))
    if windows.behind:
        total = total.movedim(1, -1)
    for dim in range(windows.rank):
        spread = windows.spread(dim)
        total = torch.where(spread.inside, spread.of(total), 0.0).sum(spread.dim)
    total = (total / windows.lengths()).to(x.dtype)
    return laid_out(total.movedim(-1, 1) if windows.behind else total, x, windows.rank)


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
        if sum(windows.most_covering(dim) for dim in range(rank)) > MOST_TAPS:
            return NotImplemented
        share = grad.to(wide_dtype(grad.dtype)) / windows.lengths()
        # The innermost dimension first, so that the last and largest step goes along whole rows.
        for dim in reversed(range(rank)):
            total: Any = None
            for offset in range(windows.most_covering(dim)):
                holds, window = windows.window_along(dim, offset)
                indices = [None] * (share.dim() - rank + dim) + [window.flatten()]
                value = torch.where(holds, aten._unsafe_index.Tensor(share, indices), 0.0)
                total = value if total is None else total + value
            share = total
        return laid_out(share.to(grad.dtype), x, rank)

    return adaptive_avg_pool_backward


def _maximum(x: torch.Tensor, output_size: Any) -> Any:
    windows = _Windows.of(x, output_size)
    if windows is None or not x.dtype.is_floating_point:
        return NotImplemented
    kernel = windows.equal_length()
    if kernel is not None and windows.tap_count() <= _MOST_UNROLLED:
        return tuple(laid_out(each, x, windows.rank) for each in pooling()[_MAXIMA[windows.rank]](x, kernel))
    windows.behind = int(is_channels_last(x, windows.rank))
    value, place = x.movedim(1, -1) if windows.behind else x, windows.places()
    for dim in range(windows.rank):
        spread = windows.spread(dim)
        each, at = spread.of(value), spread.of(place)
        best = torch.where(spread.inside, each, -math.inf).amax(spread.dim, keepdim=True)
        # As in ATen: of equal elements the first, of NaNs the last.
        first = torch.where(spread.inside & (each == best), at, math.prod(windows.sizes)).amin(spread.dim)
        last = torch.where(spread.inside & torch.isnan(each), at, -1).amax(spread.dim)
        value = best.squeeze(spread.dim)
        place = torch.where(torch.isnan(value), last, first)
    if windows.behind:
        value, place = value.movedim(-1, 1), place.movedim(-1, 1)
    return laid_out(value, x, windows.rank), laid_out(place, x, windows.rank)


def _maximum_backward(rank: int) -> Callable[..., Any]:
    def adaptive_max_pool_backward(grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> Any:
        windows = _Windows.of(x, grad.shape[grad.dim() - rank :])
        if windows is None:
            return NotImplemented
        if x.device.type == "cpu":
            return laid_out(added_at(grad, indices, x, rank), x, rank)
        if len(windows.covering()) > MOST_TAPS:
            return NotImplemented
        place = windows.places()
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
