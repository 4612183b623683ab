"""Samples of an image or a volume at the points of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1


def _reflected(x: torch.Tensor, low: float, high: Any) -> torch.Tensor:
    """Folded back into [low / 2, high / 2] as often as it takes."""
    span = (high - low) / 2
    offset = low / 2
    x = (x - offset).abs()
    extra = torch.fmod(x, span)
    is_even = torch.remainder(torch.floor(x / span), 2) == 0
    return torch.where(is_even, extra + offset, span - extra + offset)


def _settled(x: torch.Tensor) -> torch.Tensor:
    """Positions that no 32-bit integer holds lie outside of everything, as in ATen's kernels of one point at a time."""
    return torch.where((x >= -(2.0**31)) & (x <= 2.0**31 - 2), x, -100.0)


def _position(x: torch.Tensor, size: Any, padding_mode: int, align_corners: bool) -> torch.Tensor:
    """From [-1, 1] to elements. NaN, where elements are found at all, is the last one, on a GPU the first."""
    x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if padding_mode == _ZEROS:
        return _settled(x)
    if padding_mode != _BORDER:
        if size == 1 and align_corners:
            x = torch.zeros_like(x)
        else:
            x = _reflected(x, 0, 2 * (size - 1)) if align_corners else _reflected(x, -1, 2 * size - 1)
    return torch.where(x.isnan(), 0 if x.is_cuda else size - 1, x).clamp(0, size - 1)


def _position_2d(x: torch.Tensor, size: Any, align_corners: bool) -> torch.Tensor:
    """From [-1, 1] to elements, with the roundings of ATen's kernel for images."""
    half: Any = (size - 1) / 2 if align_corners else size / 2
    place: torch.Tensor = (x + 1) * half
    return place if align_corners else place - 0.5


def _inside_2d(x: torch.Tensor, size: Any, padding_mode: int, align_corners: bool) -> torch.Tensor:
    """Where `padding_mode` takes a position in elements to. NaN is the first element there."""
    if padding_mode == _ZEROS:
        return x
    if padding_mode != _BORDER:
        low, span = (0.0, (size - 1) * 2) if align_corners else (-0.5, size * 2)
        if align_corners and size == 1:
            return torch.zeros_like(x)
        distance = (x - low).abs()
        extra = distance - torch.trunc(distance / span) * span
        x = torch.minimum(extra, span - extra) + low
    return torch.where(x.isnan(), 0.0, x).clamp(0, size - 1)


def _is_flat(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether one index tells elements apart: the dimensions lie in each other without gaps."""
    if not all(isinstance(n, int) for n in (*sizes, *strides)):
        return False
    pairs = zip(sizes[1:], strides, strides[1:], strict=False)
    return math.prod(sizes) < 2**31 and all(outer == n * inner for n, outer, inner in pairs)


class _Volume:
    """The elements of the operand at places, zero outside of it."""

    def __init__(self, x: torch.Tensor, wide: torch.dtype) -> None:
        self.wide, self.sizes = wide, x.shape[2:]
        self.is_flat = _is_flat(self.sizes, x.stride()[2:])
        self.x = x.flatten(2) if self.is_flat else x
        ones = [1] * (self.x.dim() - 2)
        self.batch = torch.arange(x.shape[0], device=x.device).view(-1, 1, *ones)
        self.channel = torch.arange(x.shape[1], device=x.device).view(1, -1, *ones)

    def at(self, place: Sequence[torch.Tensor]) -> torch.Tensor:
        inside: Any = None
        indices: list[torch.Tensor] = []
        for position, size in zip(place, self.sizes, strict=True):
            valid = (position >= 0) & (position < size)
            inside = valid if inside is None else inside & valid
            # Processors convert to 32 bits in vectors. What no integer holds becomes the least one.
            integer = torch.int32 if isinstance(size, int) and size < 2**31 else torch.int64
            indices.append(position.to(integer).clamp(0, size - 1))
        if self.is_flat:
            flat = indices[0]
            for size, index in zip(self.sizes[1:], indices[1:], strict=True):
                flat = flat * size + index
            shape = flat.shape
            value = aten._unsafe_index.Tensor(self.x, [self.batch, self.channel, flat.flatten(1).unsqueeze(1)])
            value = value.unflatten(2, shape[1:])
        else:
            value = aten._unsafe_index.Tensor(self.x, [self.batch, self.channel, *(i.unsqueeze(1) for i in indices)])
        # Chosen, not multiplied by 0: the element that is read instead may be infinite.
        return torch.where(inside.unsqueeze(1), value.to(self.wide), 0.0)

    def linear(self, at: Sequence[torch.Tensor]) -> torch.Tensor:
        """Between the corners around a position."""
        low = [torch.floor(p) for p in at]
        total: Any = None
        for corner in itertools.product((0, 1), repeat=len(at)):
            weight: Any = None
            for k, is_high in enumerate(corner):
                part = at[k] - low[k] if is_high else low[k] + 1 - at[k]
                weight = part if weight is None else weight * part
            value = self.at([p + is_high for p, is_high in zip(low, corner, strict=True)]) * weight.unsqueeze(1)
            total = value if total is None else total + value
        result: torch.Tensor = total
        return result


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _has_no_elements(x: torch.Tensor) -> bool:
    return any(isinstance(n, int) and n == 0 for n in x.shape)


def _grid_sampler_3d(
    x: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    if interpolation_mode not in (_BILINEAR, _NEAREST) or _has_no_elements(x):
        return NotImplemented
    volume = _Volume(x, _wide(x.dtype))
    # The grid's last dimension holds x, y, z: from the innermost dimension on.
    at = [
        _position(grid.select(-1, 2 - k).to(volume.wide), size, padding_mode, align_corners)
        for k, size in enumerate(volume.sizes)
    ]
    result = volume.at([torch.round(p) for p in at]) if interpolation_mode == _NEAREST else volume.linear(at)
    return result.to(x.dtype)


def _cubic_weights(t: torch.Tensor) -> list[torch.Tensor]:
    """Of the four elements around a position that lies t behind the second one."""
    a = -0.75

    def near(t: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: torch.Tensor) -> torch.Tensor:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _grid_sampler_2d(
    x: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    if _has_no_elements(x):
        return NotImplemented
    image = _Volume(x, _wide(x.dtype))
    at = [
        _position_2d(grid.select(-1, 1 - k).to(image.wide), size, align_corners) for k, size in enumerate(image.sizes)
    ]

    def inside(place: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        places = [_inside_2d(p, size, padding_mode, align_corners) for p, size in zip(place, image.sizes, strict=True)]
        return [_settled(p) for p in places] if x.is_cuda else places

    if interpolation_mode == _NEAREST:
        return image.at([torch.round(p) for p in inside(at)]).to(x.dtype)
    if interpolation_mode == _BILINEAR:
        return image.linear(inside(at)).to(x.dtype)
    low = [torch.floor(p) for p in at]
    weights = [[w.unsqueeze(1) for w in _cubic_weights(p - q)] for p, q in zip(at, low, strict=True)]
    total: Any = None
    for row in range(4):
        part: Any = None
        for column in range(4):
            value = image.at(inside([low[0] + (row - 1), low[1] + (column - 1)])) * weights[1][column]
            part = value if part is None else part + value
        part = part * weights[0][row]
        total = part if total is None else total + part
    return total.to(x.dtype)


def grid_sample() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.grid_sampler_2d.default: _grid_sampler_2d, aten.grid_sampler_3d.default: _grid_sampler_3d}
