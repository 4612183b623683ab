"""Adaptive pools of windows of any length, with gradients, beside eager mode."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh

# Windows of one length, ragged ones, of one element, of all elements, windows that overlap, more windows than elements.
SIZES = [
    ((20, 20), 2),
    ((23, 30), 7),
    ((31, 5), (3, 4)),
    ((33, 34), 32),
    ((5, 4), (11, 9)),
    ((40, 1), (1, 1)),
    ((9, 25), 2),
]


def _operand(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """With equal elements in most windows."""
    return torch.randint(-4, 5, shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_windows_of_images(sizes: Any, dtype: torch.dtype) -> None:
    shape, output = sizes

    def pooled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.adaptive_avg_pool2d(x, output), *F.adaptive_max_pool2d(x, output, return_indices=True)

    fresh()
    function = compiled(pooled)
    for layout in (torch.contiguous_format, torch.channels_last):
        x = _operand((2, 3, *shape), dtype).to(memory_format=layout)
        operands = x.clone().requires_grad_(), x.clone().requires_grad_()
        (mean, value, place), expected = function(operands[0]), pooled(operands[1])
        assert_same((mean, value, place), expected)
        weight = torch.randn(value.shape).to(dtype)
        for results in ((mean, value), expected[:2]):
            ((results[0] * weight).sum() + (results[1] * weight).sum()).backward()
        if dtype is torch.bfloat16:  # eager mode rounds after each window
            torch.testing.assert_close(operands[0].grad, operands[1].grad, atol=0.1, rtol=0.02)
        else:
            torch.testing.assert_close(operands[0].grad, operands[1].grad)


@pytest.mark.parametrize("sizes", SIZES[:5], ids=str)
def test_index_of_values_that_do_not_compare(sizes: Any) -> None:
    """Of infinities the first place counts, of NaNs the last."""
    shape, output = sizes

    def pooled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.adaptive_max_pool2d(x, output, return_indices=True)

    x = _operand((4, 2, *shape), torch.float32)
    x[0], x[1] = -math.inf, math.inf
    x[2:][torch.rand(2, 2, *shape) < 0.3] = math.nan
    fresh()
    assert_same(compiled(pooled)(x), pooled(x))


def test_long_windows_of_volumes_and_rows_are_kernels() -> None:
    def pooled(x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, ...]:
        averages = F.adaptive_avg_pool3d(x, (2, 3, 4)), F.adaptive_avg_pool1d(row, 6)
        return *averages, *F.adaptive_max_pool3d(x, (2, 3, 4), return_indices=True), F.adaptive_max_pool1d(row, 6)

    fresh()
    operands = [[torch.randn(2, 13, 16, 21), torch.randn(3, 1000)] for _ in range(2)]
    operands[1] = [each.clone() for each in operands[0]]
    for each in (*operands[0], *operands[1]):
        each.requires_grad_()
    results, expected = compiled(pooled)(*operands[0]), pooled(*operands[1])
    assert_same(results, expected)
    for values in (results, expected):
        sum(each.sum() for each in values if each.is_floating_point()).backward()
    if IS_TILE:
        assert count("externs") == 0
    torch.testing.assert_close([each.grad for each in operands[0]], [each.grad for each in operands[1]])
