"""Packages called with sizes that they were not exported with: what holds for the sizes of the example alone, such as
that windows cover the operand, must not be in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import torch_tile
from tests.aot.test_operators import Applied

IMAGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "max_pool2d, partial windows": lambda x: F.max_pool2d(x, 2, ceil_mode=True),
    "max_pool2d, padded": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d, padded, partial windows": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max_pool2d, gaps, partial windows": lambda x: F.max_pool2d(x, 2, 3, ceil_mode=True),
    "max_pool2d, dilated, partial windows": lambda x: F.max_pool2d(x, 2, 2, 1, 2, ceil_mode=True),
    "max_pool2d, indices, partial windows": lambda x: F.max_pool2d(x, 2, ceil_mode=True, return_indices=True),
    "max_pool3d, partial windows": lambda x: F.max_pool3d(x[None], 2, ceil_mode=True),
    "avg_pool1d, partial windows": lambda x: F.avg_pool1d(x.flatten(0, 1), 2, ceil_mode=True),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "avg_pool2d, partial windows": lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
    "avg_pool2d, padded, partial windows": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool2d, without padding, partial windows": lambda x: F.avg_pool2d(x, 3, 2, 1, True, count_include_pad=False),
    "avg_pool2d, own divisor, partial windows": lambda x: F.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3),
    "avg_pool3d, partial windows": lambda x: F.avg_pool3d(x[None], 2, ceil_mode=True),
    "lp_pool2d, partial windows": lambda x: F.lp_pool2d(x, 2, 2, ceil_mode=True),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 4),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 4),
    "unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, size=(12, 10), mode="bilinear", align_corners=True),
    "area": lambda x: F.interpolate(x, size=(4, 4), mode="area"),
    "antialias": lambda x: F.interpolate(x, size=(4, 4), mode="bilinear", antialias=True),
    "unfold": lambda x: F.unfold(x, 2, stride=2),
    "unfold and fold": lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
    "pixel_unshuffle": lambda x: F.pixel_shuffle(x, 2),
    "circular": lambda x: F.pad(x, (2, 2, 1, 1), mode="circular"),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "convolution": lambda x: F.conv2d(x, torch.ones(4, 4, 3, 3), stride=2, padding=1),
    "transposed convolution": lambda x: F.conv_transpose2d(x, torch.ones(4, 4, 3, 3), stride=2, padding=1),
    "split": lambda x: x.split(3, 2)[0],
    "roll": lambda x: x.roll((3, -2), (2, 3)),
    "last three": lambda x: x[:, :, -3:],
    "diagonal": lambda x: x.diagonal(1, 2, 3),
    "group_norm, channels last": lambda x: F.group_norm(x.contiguous(memory_format=torch.channels_last), 2),
    "cumulative": lambda x: (x.cumsum(2), x.cummax(3), x.logcumsumexp(2)),
    "order": lambda x: (x.sort(2), x.topk(2, 3), x.median(2)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "flattened": lambda x: x.flatten(2).softmax(-1).unflatten(2, (x.shape[2], x.shape[3])),
}


@pytest.mark.parametrize("name", IMAGES)
def test_other_sizes(name: str, tmp_path: Path) -> None:
    model = Applied(IMAGES[name])
    exported = torch.export.export(
        model, (torch.randn(2, 4, 8, 8),), dynamic_shapes=({2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)
    )
    package = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    program, compared = exported.module(), 0
    for rows, columns in ((8, 8), (9, 8), (7, 9), (10, 11), (5, 4), (4, 12)):
        x = torch.randn(2, 4, rows, columns)
        try:
            expected = program(x)
        except (RuntimeError, AssertionError):  # of these sizes the program is not
            continue
        torch.testing.assert_close(package(x), expected, rtol=1e-4, atol=1e-5)
        compared += 1
    assert compared >= 2
