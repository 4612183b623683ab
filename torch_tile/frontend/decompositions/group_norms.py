"""Group norms of few channels in a group, on the CPU, where channels lie side by side.

A group is a short run of memory in each pixel, so that sums over it take a few lanes of a vector. Here each channel is
summed first, along all channels at once, and each gets the sums of its group. Sums of squares are float64: their
difference to the square of the mean loses no digit that float32 has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

# Channels of a group that are so many fill vectors by themselves: from 32 float32 on both ways were as fast (AVX-512).
_FEW_CHANNELS = 32
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def by_channels(function: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition `function` of `native_group_norm`, or that by channels where it is faster."""

    def native_group_norm(
        x: torch.Tensor, weight: Any, bias: Any, batch: Any, channels: Any, pixels: Any, groups: int, eps: float
    ) -> Any:
        if not _is_for_channels(x, channels, pixels, groups):
            return function(x, weight, bias, batch, channels, pixels, groups, eps)
        width = channels // groups
        wide = x.double()
        pixel_dims = [*range(2, x.dim())]

        def of_group(sums: torch.Tensor) -> torch.Tensor:
            """For each channel the mean of its group."""
            members = sums.view(batch, groups, 1, width).expand(batch, groups, width, width)
            mean: torch.Tensor = members.sum(-1).view(batch, channels) / (width * pixels)
            return mean

        mean, square = of_group(wide.sum(pixel_dims)), of_group((wide * wide).sum(pixel_dims))
        rstd = torch.rsqrt((square - mean * mean).clamp(min=0) + eps)

        def of_pixels(values: torch.Tensor) -> torch.Tensor:
            return values.float().view(-1, channels, *[1] * len(pixel_dims))

        result = (x.float() - of_pixels(mean)) * of_pixels(rstd)
        result = result if weight is None else result * of_pixels(weight)
        result = result if bias is None else result + of_pixels(bias)
        statistics = (each.view(batch, groups, width)[:, :, 0].to(x.dtype) for each in (mean, rstd))
        return result.to(x.dtype), *statistics

    return native_group_norm


def _is_for_channels(x: torch.Tensor, channels: Any, pixels: Any, groups: int) -> bool:
    if x.device.type != "cpu" or x.dtype not in _DTYPES or x.dim() < 4 or not isinstance(channels, int):
        return False
    if channels % groups != 0 or not 1 < channels // groups < _FEW_CHANNELS or not statically_known_true(pixels > 1):
        return False
    if torch._prims_common.suggest_memory_format(x) is torch.contiguous_format:
        return False
    return all(statically_known_true(size > 0) for size in x.shape)
