"""Interpolations to the next point and linear ones, as ATen computes them.

Torch's decompositions read past the end of rows of 2^23 elements, whose float32 positions round up, and give NaN where
neighbours differ by more than the dtype's largest number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true, statically_known_true

aten = torch.ops.aten


def is_copied(new: Any, old: Any, factor: Any) -> bool:
    """Whether ATen's kernels copy a dimension of `old` elements that a factor makes `new` long. A size that
    is known only when the graph runs may be kept. Where sizes are symbols, this adds a guard.
    """
    if isinstance(factor, (int, float)) and factor == 1:
        return True
    # A factor of 2 or more adds an element, one below 1 removes one.
    if not isinstance(factor, torch.SymFloat) and not (isinstance(factor, float) and 1 < factor < 2):
        return False
    return guard_or_true(new == old) and guard_or_true(old > 1)


class Scaled(NamedTuple):
    """A dimension of an image and of the result. `factor`: the one that the caller gave, None for that of the sizes."""

    old: Any
    new: Any
    factor: Any

    def is_kept(self) -> bool:
        if self.factor is None:
            return statically_known_true(self.new == self.old)
        return is_copied(self.new, self.old, self.factor)

    def step(self) -> Any:
        """From a point of the result to the next one, in points of the image."""
        return 1.0 / self.factor if self.factor is not None and self.factor > 0 else self.old / self.new


def each_dimension(x: torch.Tensor, size: Any, scale_factor: Any, recompute_scale_factor: Any) -> list[Scaled]:
    """The dimensions of images by the arguments of `F.interpolate`."""

    def each(value: Any) -> list[Any]:
        return list(value) if isinstance(value, (tuple, list)) else [value] * (x.dim() - 2)

    factors = each(scale_factor)
    if size is None:
        size = [torch.sym_int(n * factor) for n, factor in zip(x.shape[2:], factors, strict=True)]  # type: ignore[no-untyped-call]
        factors = [None] * len(size) if recompute_scale_factor else factors
    return [Scaled(*each) for each in zip(x.shape[2:], each(size), factors, strict=True)]


def _laid_out_as(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """In new memory: a result that copies all points is none of the operand's."""
    return result.clone(memory_format=torch._prims_common.suggest_memory_format(x))


# ===-- to the next point -----------------------------------------------------------------------------------------===#


def _next_points(scaled: Scaled, is_exact: bool, device: torch.device | None) -> torch.Tensor:
    whole = torch.arange(scaled.new, device=device, dtype=torch.float32)
    places: torch.Tensor = (whole + 0.5 if is_exact else whole) * scaled.step()
    return places.to(torch.int64).clamp(0, scaled.old - 1)  # bounds that need no check


def times_repeated(scaled: Scaled, is_exact: bool) -> int | None:
    """How many points of the result each point gives, where all give as many, and sizes are known."""
    if not all(isinstance(n, int) and n > 0 for n in scaled[:2]) or scaled.new % scaled.old != 0:
        return None
    if not isinstance(scaled.factor, (int, float, type(None))):
        return None
    times = int(scaled.new // scaled.old)
    # A step is rounded to float32.
    step = torch.tensor(scaled.step(), dtype=torch.float32).item()
    found = _next_points(Scaled(scaled.old, scaled.new, 1 / step), is_exact, None)
    return times if torch.equal(found, torch.arange(scaled.new) // times) else None


def nearest(
    x: torch.Tensor, dimensions: Sequence[Scaled], repeated: Sequence[int | None], is_exact: bool
) -> torch.Tensor:
    """`repeated`: `times_repeated` of each dimension, None where that is not known. Indices of those are quotients by
    whole numbers, which nothing reads from memory."""
    # Of what a factor leaves as long as it was, ATen's kernels copy images of two dimensions and sample others.
    is_sampled = (is_exact and x.device.type == "cpu") or x.dim() != 4
    kept = [(not is_sampled or each.factor in (None, 1)) and each.is_kept() for each in dimensions]
    if not any(kept) and all(times is None for times in repeated):
        places = [_next_points(each, is_exact, x.device) for each in dimensions]
        trailing = [place.reshape(-1, *[1] * (len(places) - 1 - k)) for k, place in enumerate(places)]
        return _laid_out_as(aten._unsafe_index(x, [None, None, *trailing]), x)
    result = x
    for dim, (each, is_same, times) in enumerate(zip(dimensions, kept, repeated, strict=True), 2):
        if is_same:
            continue
        if times is None:
            result = aten._unsafe_index(result, [*[None] * dim, _next_points(each, is_exact, x.device)])
        else:
            result = result.unsqueeze(dim + 1).expand(*[-1] * (dim + 1), times, *[-1] * (x.dim() - dim - 1))
            result = result.flatten(dim, dim + 1)
    return _laid_out_as(result, x)


# ===-- linear ----------------------------------------------------------------------------------------------------===#


class _Neighbours(NamedTuple):
    """Of each point of a result along a dimension: the indices of two points of the image, and their weights."""

    first: torch.Tensor
    second: torch.Tensor
    of_first: torch.Tensor
    of_second: torch.Tensor

    def trailed_by(self, dims: int) -> _Neighbours:
        return _Neighbours(*(each.reshape(-1, *[1] * dims) for each in self))


def _neighbours(scaled: Scaled, align_corners: bool, dtype: torch.dtype, device: torch.device) -> _Neighbours:
    old, new = scaled.old, scaled.new
    places = torch.arange(new, device=device).to(dtype)
    if align_corners:
        places = places * ((old - 1) / (new - 1) if new > 1 else 0)
    else:
        places = (places + 0.5) * scaled.step() - 0.5
    places = places.clamp(min=0.0)
    first = places.to(torch.int64).clamp(0, old - 1)
    share = (places - first).clamp(0.0, 1.0).to(dtype)
    return _Neighbours(first, (first + 1).clamp(0, old - 1), 1 - share, share)


def _sum_of_itself(x: torch.Tensor) -> torch.Tensor:
    """ATen's copy of a dimension has the weights 1 and 0: of infinities it is NaN."""
    return x + x * 0


def by_dimension(x: torch.Tensor, neighbours: Sequence[_Neighbours | None], before: int, behind: int) -> torch.Tensor:
    """The last dimension first, then the others on what it gave: neighbours along the last one are read once, and whole
    rows for the others.

    Args:
        before, behind: dimensions of `x` before and behind those of the image.
    """
    for k in range(len(neighbours) - 1, -1, -1):
        each = neighbours[k]
        if each is None:
            x = _sum_of_itself(x)
            continue
        dim = before + k
        each_side = [aten._unsafe_index(x, [*[None] * dim, side]) for side in (each.first, each.second)]
        each = each.trailed_by(len(neighbours) - 1 - k + behind)
        x = each_side[0] * each.of_first + each_side[1] * each.of_second
    return x


def at_once(x: torch.Tensor, neighbours: Sequence[_Neighbours | None], before: int, behind: int) -> torch.Tensor:
    """All 4 or 8 neighbours of each result from memory, where there are fewer results than points. Likewise."""

    def sum_from(k: int, chosen: list[torch.Tensor]) -> torch.Tensor:
        if k == len(neighbours):
            return aten._unsafe_index(x, [*[None] * before, *chosen])  # type: ignore[no-any-return]
        trailing = len(neighbours) - 1 - k
        each = neighbours[k]
        if each is None:
            same = torch.arange(x.shape[before + k], device=x.device).reshape(-1, *[1] * trailing)
            return _sum_of_itself(sum_from(k + 1, [*chosen, same]))
        sides = each.trailed_by(trailing)
        first, second = (sum_from(k + 1, [*chosen, side]) for side in (sides.first, sides.second))
        each = each.trailed_by(trailing + behind)
        return first * each.of_first + second * each.of_second

    return sum_from(0, [])


def linear(x: torch.Tensor, dimensions: Sequence[Scaled], align_corners: bool) -> torch.Tensor:
    """Of one, two or three dimensions."""
    is_on_cpu = x.device.type == "cpu"
    if not is_on_cpu and all(guard_or_false(each.new == each.old) for each in dimensions):
        return _laid_out_as(x, x)
    wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    neighbours = [
        # Kernels for GPUs copy images of equal sizes alone.
        None if is_on_cpu and each.is_kept() else _neighbours(each, align_corners, wide.dtype, x.device)
        for each in dimensions
    ]
    # Rows that no result reads would be computed otherwise. What passes through memory is in a processor's cache.
    is_enlarged = len(dimensions) > 1 and all(statically_known_true(each.new >= each.old) for each in dimensions[:-1])
    way: Callable[..., torch.Tensor] = by_dimension if is_on_cpu and is_enlarged else at_once
    if torch._prims_common.suggest_memory_format(x) is torch.contiguous_format:
        return _laid_out_as(way(wide, neighbours, 2, 0).to(x.dtype), x)
    # Channels last in memory are the last dimension of all that is made on the way.
    result = way(wide.movedim(1, -1), neighbours, 1, 1).to(x.dtype)
    return _laid_out_as(result.movedim(-1, 1), x)
