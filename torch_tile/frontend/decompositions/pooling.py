"""Pooling as sums and maxima of shifted views, its gradients as sums over the windows that hold an element."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

# Views of one kernel; more and the operator is called outside.
MOST_TAPS = 81
# Views that going along one dimension after the other saves, from which on that is faster: what it passes through
# memory takes a GPU as long as loading about as many neighbours, but is in a processor's cache.
WORTH_A_PASS = 16
WORTH_A_PASS_ON_CPU = 3
WORTH_A_PASS_OF_VECTORS = 8
# Windows that an element looks at for its gradient faster than a processor adds to elements one by one.
MOST_LOOKED_AT = 9
# Elements as far apart are loaded as vectors and shuffled; beyond, one by one.
LONGEST_SHUFFLED = 4


def _listed(value: Any, rank: int, default: Any = None) -> list[int]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not items:
        items = list(default)
    return items * rank if len(items) == 1 else items


def _output_size(size: Any, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Any:
    reach = size + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil_mode else 0)
    count = reach // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count = count - 1  # the last window would start in the padding
    return count


class _Windows:
    """Where the windows of a pooling lie along each of the last `rank` dimensions."""

    def __init__(
        self, x: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, rank: int
    ) -> None:
        self.rank = rank
        self.kernel = _listed(kernel, rank)
        self.stride = _listed(stride, rank, self.kernel)
        self.padding = _listed(padding, rank)
        self.dilation = _listed(dilation, rank)
        self.sizes = list(x.shape[-rank:])
        self.counts = [
            _output_size(*each, ceil_mode)
            for each in zip(self.sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        ]
        self.device = x.device
        self.ceil_mode = ceil_mode

    def taps(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*map(range, self.kernel)))

    def is_padded(self, dim: int) -> bool:
        """Some window reaches beyond the operand (in doubt)."""
        if self.padding[dim] or not self.ceil_mode:
            return bool(self.padding[dim])
        reach = (self.counts[dim] - 1) * self.stride[dim] + self.dilation[dim] * (self.kernel[dim] - 1) + 1
        return not statically_known_true(reach <= self.sizes[dim])

    def ends_in_padding(self, dim: int) -> bool:
        """No window reaches beyond the padding."""
        reach = (self.counts[dim] - 1) * self.stride[dim] + self.dilation[dim] * (self.kernel[dim] - 1) + 1
        return not self.ceil_mode or statically_known_true(reach <= self.sizes[dim] + 2 * self.padding[dim])

    def padded(self, x: torch.Tensor, value: float, dims: Sequence[int] | None = None) -> torch.Tensor:
        """x amid `value`, so that every tap of every window has an element, along `dims` (all)."""
        amounts: list[Any] = []
        for dim in reversed(range(self.rank)):
            if not self.is_padded(dim) or (dims is not None and dim not in dims):
                amounts += [0, 0]
                continue
            low = self.padding[dim]
            reach = (self.counts[dim] - 1) * self.stride[dim] + self.dilation[dim] * (self.kernel[dim] - 1) + 1
            amounts += [low, torch.sym_max(reach - self.sizes[dim] - low, 0)]  # type: ignore[no-untyped-call]
        is_padded = any(not isinstance(amount, int) or amount for amount in amounts)
        return aten.constant_pad_nd(x, amounts, value) if is_padded else x

    def tap_along(self, padded: torch.Tensor, dim: int, at: int) -> torch.Tensor:
        start = at * self.dilation[dim]
        end = start + (self.counts[dim] - 1) * self.stride[dim] + 1
        value: torch.Tensor = aten.slice.Tensor(padded, padded.dim() - self.rank + dim, start, end, self.stride[dim])
        return value

    def tap(self, padded: torch.Tensor, at: Sequence[int], dims: Sequence[int] | None = None) -> torch.Tensor:
        """The element of each window at offset `at` along `dims` (all)."""
        for dim, step in zip(range(self.rank) if dims is None else dims, at, strict=True):
            padded = self.tap_along(padded, dim, step)
        return padded

    def apart(self, x: torch.Tensor) -> tuple[torch.Tensor, list[int]] | None:
        """The operand with dimensions for the elements of a window, and which they are: where windows lie side by side
        and are too long for shifted views. Rows of a window are short reductions then, without gathers.
        """
        tiles = all(
            isinstance(n, int) and k == s and p == 0 and d == 1 and m * k == n
            for n, m, k, s, p, d in zip(
                self.sizes, self.counts, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )
        if not tiles or self.kernel[-1] <= LONGEST_SHUFFLED or x.device.type != "cpu":
            return None
        split = list(x.shape[: x.dim() - self.rank])
        dims = [len(split) + 2 * dim + 1 for dim in range(self.rank)]
        for m, k in zip(self.counts, self.kernel, strict=True):
            split += [m, k]
        return x.view(split), dims

    def along(self, dim: int, vector: torch.Tensor) -> torch.Tensor:
        """A vector over dimension `dim` of the windows or the operand, ready to broadcast."""
        return vector.view([-1 if k == dim else 1 for k in range(self.rank)])

    def positions(self, dim: int, at: int) -> torch.Tensor:
        """Of the element that tap `at` of each window reads along `dim`."""
        starts = torch.arange(self.counts[dim], device=self.device) * self.stride[dim]
        return self.along(dim, starts + (at * self.dilation[dim] - self.padding[dim]))

    def place_dtype(self) -> torch.dtype:
        """Of places in an image: half as wide where all are known to fit."""
        return (
            torch.int32
            if all(isinstance(n, int) for n in self.sizes) and math.prod(self.sizes) < 2**31
            else torch.int64
        )

    def largest(
        self, x: torch.Tensor, places: torch.Tensor | None, dims: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The largest element of each window along some dimensions and its place in the image, as in ATen: of equal
        ones the first, of NaNs the last.

        Args:
            places: of the elements of `x` along the dimensions behind `dims`; None stands for zeros.
        """
        lowest = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
        padded = self.padded(x, lowest, dims)
        padded_places = None if places is None else self.padded(places, 0, dims)
        # The values are a chain of their own: where the places are unused, only the chain is computed.
        best: Any = None
        best_place: Any = None
        for at in itertools.product(*(range(self.kernel[dim]) for dim in dims)):
            value = self.tap(padded, at, dims)
            place: Any = 0
            for dim, step in zip(dims, at, strict=True):
                place = place + self.positions(dim, step) * math.prod(self.sizes[dim + 1 :])
            place = place.to(self.place_dtype())
            if padded_places is not None:
                place = place + self.tap(padded_places, at, dims)
            if best is None:
                best, best_place = value, self.first_places(place, dims)
                continue
            takes = value > best
            if x.dtype.is_floating_point:
                takes = takes | torch.isnan(value)
            best = torch.maximum(best, value)  # what is padded is no greater than what every window holds
            best_place = torch.where(takes, place, best_place)
        return best, best_place.expand(best.shape)

    def first_places(self, places: Any, dims: Sequence[int]) -> Any:
        """Of the elements at the first offset along `dims`; where these are padding, of each window's first element in
        the image, which stands for windows of nothing but the lowest number."""
        reaches_out = [dim for dim in dims if self.is_padded(dim)]
        if not reaches_out:
            return places
        first: Any = 0
        for dim in range(dims[0], self.rank):
            position = self.positions(dim, 0)
            if self.is_padded(dim):
                position = torch.where(position < 0, torch.remainder(position, self.dilation[dim]), position)
            first = first * self.sizes[dim] + position
        first = first.to(self.place_dtype())
        if dims[-1] == self.rank - 1:
            return first
        is_inside = functools.reduce(torch.logical_and, [self.positions(dim, 0) >= 0 for dim in reaches_out])
        return torch.where(is_inside, places, first)

    def lengths(self, dim: int, include_padding: bool) -> torch.Tensor:
        """Elements of each window along `dim`, without what lies beyond the padding, or beyond the operand."""
        start = torch.arange(self.counts[dim], device=self.device) * self.stride[dim] - self.padding[dim]
        size, padding = self.sizes[dim], self.padding[dim]
        end = torch.clamp(start + self.kernel[dim], max=size + padding)
        if not include_padding:
            start, end = torch.clamp(start, min=0), torch.clamp(end, max=size)
        return self.along(dim, end - start)

    def divisor(self, include_padding: bool, override: int | None) -> Any:
        if override is not None:
            return override
        if not any(map(self.is_padded, range(self.rank))):
            return math.prod(self.kernel)
        if include_padding and all(map(self.ends_in_padding, range(self.rank))):
            return math.prod(self.kernel)
        total: Any = 1
        for dim in range(self.rank):
            total = total * self.lengths(dim, include_padding)
        return total

    def covering_along(self, dim: int) -> range:
        """Windows that may hold an element along `dim`, counted back from the last that does."""
        return range(-(-(self.dilation[dim] * (self.kernel[dim] - 1) + 1) // self.stride[dim]))

    def covering(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*map(self.covering_along, range(self.rank))))

    def adds_faster(self, x: torch.Tensor) -> bool:
        """Whether a processor adds to the elements that windows chose in less time than each element takes to look at
        its windows: if these are many, or their neighbours are no neighbours in memory."""
        looked_at = len(self.covering())
        if is_channels_last(x, self.rank):
            return looked_at > MOST_LOOKED_AT
        return looked_at > 1 or self.stride[-1] > LONGEST_SHUFFLED

    def window(self, dim: int, back: int) -> tuple[torch.Tensor, torch.Tensor]:
        """For each element along `dim` the `back`-last window that starts at or before it, and whether it exists."""
        position = torch.arange(self.sizes[dim], device=self.device) + self.padding[dim]
        window = torch.div(position, self.stride[dim], rounding_mode="floor") - back
        exists = (window >= 0) & (window < self.counts[dim])
        return window, exists


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def laid_out(value: torch.Tensor, like: torch.Tensor, rank: int = 2) -> torch.Tensor:
    """In the memory format that ATen's pooling over `rank` dimensions chooses for the operand: over three dimensions,
    ATen's pooling is contiguous, but for max_pool3d."""
    if rank < 3 and like.dim() in (4, 5):
        memory_format = torch._prims_common.suggest_memory_format(like)
        return value.contiguous(memory_format=memory_format)
    return value.contiguous()


def is_channels_last(x: torch.Tensor, rank: int) -> bool:
    """Whether images of `rank` dimensions have channels that lie side by side."""
    return x.dim() == rank + 2 and torch._prims_common.suggest_memory_format(x) is not torch.contiguous_format


def added_at(grad: torch.Tensor, indices: torch.Tensor, x: torch.Tensor, rank: int) -> torch.Tensor:
    """Zeros like `x`, plus each element of `grad` at the place in its image that `indices` has for it, as ATen does on
    the CPU: there are fewer windows than elements, or most elements are in many windows. 16-bit dtypes are added in
    float32.
    """
    wide = wide_dtype(grad.dtype)
    lead, points = list(x.shape[: x.dim() - rank]), math.prod(x.shape[x.dim() - rank :])
    at, values = indices.flatten(-rank), grad.to(wide).flatten(-rank)
    if is_channels_last(x, rank):  # channels are the last dimension of what is made on the way
        zeros = x.new_zeros([lead[0], points, lead[1]], dtype=wide)
        added = zeros.scatter_add(1, at.movedim(1, -1), values.movedim(1, -1)).movedim(-1, 1)
    else:
        added = x.new_zeros([*lead, points], dtype=wide).scatter_add(-1, at, values)
    return added.to(grad.dtype).view(x.shape)


def goes_by_dimensions(counts: Sequence[int], x: torch.Tensor, has_channels_last: bool = False) -> bool:
    """Whether windows are gone through along one dimension after the other, given the views along each.

    Args:
        has_channels_last: every view is read in whole vectors, whatever its dimension.
    """
    if x.device.type != "cpu":
        worth_a_pass = WORTH_A_PASS
    else:
        worth_a_pass = WORTH_A_PASS_OF_VECTORS if has_channels_last else WORTH_A_PASS_ON_CPU
    return math.prod(counts) - sum(counts) >= worth_a_pass


def _summed_over_windows(windows: _Windows, grad: torch.Tensor, dim: int) -> torch.Tensor:
    """For each element along `dim` of the operand the sum of what `grad` has for the windows that hold it."""
    axis = grad.dim() - windows.rank + dim
    kernel, size, padding, count = (
        part[dim] for part in (windows.kernel, windows.sizes, windows.padding, windows.counts)
    )
    if windows.stride[dim] == 1:
        low = max(kernel - 1 - padding, 0)
        amounts = [0, 0] * (windows.rank - 1 - dim) + [low, max(size + padding - count, 0)]
        padded = aten.constant_pad_nd(grad, amounts, 0)
        firsts = [padding + low - back for back in windows.covering_along(dim)]
        taps: list[torch.Tensor] = [aten.slice.Tensor(padded, axis, at, at + size) for at in firsts]
        return functools.reduce(torch.add, taps)
    total: Any = None
    for back in windows.covering_along(dim):
        window, exists = windows.window(dim, back)
        position = torch.arange(size, device=grad.device) + padding
        exists = windows.along(dim, exists & (position - window * windows.stride[dim] < kernel))
        index = [*[None] * axis, window.clamp(0, count - 1)]
        value = torch.where(exists, aten._unsafe_index.Tensor(grad, index), 0.0)
        total = value if total is None else total + value
    return total  # type: ignore[no-any-return]


def _average(rank: int) -> Callable[..., Any]:
    def avg_pool(
        x: torch.Tensor,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if rank == 3 and x.dtype in (torch.float16, torch.bfloat16) and x.device.type == "cpu":
            return NotImplemented  # ATen has no such kernel
        windows = _Windows(x, kernel_size, stride, padding, 1, ceil_mode, rank)
        if sum(windows.kernel) > MOST_TAPS or divisor_override == 0:
            return NotImplemented
        total = windows.padded(x.to(wide_dtype(x.dtype)), 0)
        if (apart := windows.apart(total)) is not None:
            total = apart[0].sum(apart[1], dtype=total.dtype)
        elif not goes_by_dimensions(windows.kernel, x, is_channels_last(x, rank)):
            taps = [windows.tap(total, at) for at in windows.taps()]
            total = functools.reduce(torch.add, taps)
        else:  # along one dimension after the other
            for dim in range(rank):
                taps = [windows.tap_along(total, dim, at) for at in range(windows.kernel[dim])]
                total = functools.reduce(torch.add, taps)
        divisor = windows.divisor(count_include_pad, divisor_override)
        is_float = x.dtype.is_floating_point
        result = total / divisor if is_float else torch.div(total, divisor, rounding_mode="trunc")
        return laid_out(result.to(x.dtype), x, rank)

    return avg_pool


def _average_backward(rank: int) -> Callable[..., Any]:
    def avg_pool_backward(
        grad: torch.Tensor,
        x: torch.Tensor,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Any:
        windows = _Windows(x, kernel_size, stride, padding, 1, ceil_mode, rank)
        each = [len(windows.covering_along(dim)) for dim in range(rank)]
        if sum(each) > MOST_TAPS or not x.dtype.is_floating_point:
            return NotImplemented
        divided = grad.to(wide_dtype(grad.dtype)) / windows.divisor(count_include_pad, divisor_override)
        total: Any = None
        # Windows apart have elements whose neighbours look at the same ones: rows of a few are gathered once.
        is_gathered = x.device.type == "cpu" and windows.stride[-1] > 1 and not is_channels_last(x, rank)
        if goes_by_dimensions(each, x) or (
            is_gathered and (math.prod(each) > 1 or windows.stride[-1] > LONGEST_SHUFFLED)
        ):
            total = divided
            for dim in reversed(range(rank)):  # the last and largest step goes along whole rows
                total = _summed_over_windows(windows, total, dim)
            return laid_out(total.to(grad.dtype), x, rank)
        for back in windows.covering():
            indices: list[Any] = [None] * (x.dim() - rank)
            holds: Any = None
            for dim in range(rank):
                window, exists = windows.window(dim, back[dim])
                position = torch.arange(windows.sizes[dim], device=x.device) + windows.padding[dim]
                exists = exists & (position - window * windows.stride[dim] < windows.kernel[dim])
                indices.append(windows.along(dim, window.clamp(0, windows.counts[dim] - 1)))
                along = windows.along(dim, exists)
                holds = along if holds is None else holds & along
            value = torch.where(holds, aten._unsafe_index.Tensor(divided, indices), 0.0)
            total = value if total is None else total + value
        return laid_out(total.to(grad.dtype), x, rank)

    return avg_pool_backward


def _maximum(rank: int) -> Callable[..., Any]:
    def max_pool_with_indices(
        x: torch.Tensor,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        windows = _Windows(x, kernel_size, stride, padding, dilation, ceil_mode, rank)
        by_dimensions = goes_by_dimensions(windows.kernel, x, is_channels_last(x, rank))
        # Of large windows that share no elements, each element is looked at once in any case.
        overlaps = any(s < k for s, k in zip(windows.stride, windows.kernel, strict=True))
        if (sum if by_dimensions and overlaps else math.prod)(windows.kernel) > MOST_TAPS:
            return NotImplemented
        if by_dimensions:
            # The first element of a window's first row that has its maximum: rows first, then what they gave.
            best, best_index = windows.largest(x, None, [rank - 1])
            for dim in reversed(range(rank - 1)):
                best, best_index = windows.largest(best, best_index, [dim])
        else:
            best, best_index = windows.largest(x, None, range(rank))
        if (apart := windows.apart(x)) is not None:
            best = aten.amax(*apart)
        return laid_out(best, x), laid_out(best_index.to(torch.int64), x)

    return max_pool_with_indices


def _maximum_backward(rank: int) -> Callable[..., Any]:
    def max_pool_with_indices_backward(
        grad: torch.Tensor,
        x: torch.Tensor,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: torch.Tensor,
    ) -> Any:
        windows = _Windows(x, kernel_size, stride, padding, dilation, ceil_mode, rank)
        if x.device.type == "cpu" and windows.adds_faster(x):
            return laid_out(added_at(grad, indices, x, rank), x)
        if len(windows.covering()) > MOST_TAPS:
            return NotImplemented
        place: Any = 0
        for dim in range(rank):
            own = torch.arange(windows.sizes[dim], device=x.device)
            place = place * windows.sizes[dim] + windows.along(dim, own)
        total: Any = None
        wide = grad.to(wide_dtype(grad.dtype))
        for back in windows.covering():
            at: list[Any] = [None] * (x.dim() - rank)
            exists: Any = None
            for dim in range(rank):
                window, is_there = windows.window(dim, back[dim])
                at.append(windows.along(dim, window.clamp(0, windows.counts[dim] - 1)))
                along = windows.along(dim, is_there)
                exists = along if exists is None else exists & along
            chosen = exists & (aten._unsafe_index.Tensor(indices, at) == place)
            value = torch.where(chosen, aten._unsafe_index.Tensor(wide, at), 0.0)
            total = value if total is None else total + value
        return laid_out(total.to(grad.dtype), x)

    return max_pool_with_indices_backward


def pooling() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.avg_pool2d.default: _average(2),
        aten.avg_pool3d.default: _average(3),
        aten.avg_pool2d_backward.default: _average_backward(2),
        aten.avg_pool3d_backward.default: _average_backward(3),
        aten.max_pool2d_with_indices.default: _maximum(2),
        aten.max_pool3d_with_indices.default: _maximum(3),
        aten.max_pool2d_with_indices_backward.default: _maximum_backward(2),
        aten.max_pool3d_with_indices_backward.default: _maximum_backward(3),
    }
