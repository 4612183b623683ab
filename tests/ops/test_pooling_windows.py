"""Pooling of windows of all kinds on the CPU: which way values, places and gradients are computed depends on the
window's length and step, and on the memory format."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

# (length, step, padding) along rows; columns have the second of each pair.
WINDOWS = [
    ((2, 2), (2, 2), (0, 0)),
    ((3, 3), (1, 1), (1, 1)),
    ((3, 3), (2, 2), (1, 1)),
    ((5, 5), (1, 1), (2, 2)),
    ((5, 5), (4, 4), (0, 0)),
    ((7, 7), (6, 6), (3, 0)),
    ((7, 7), (7, 7), (0, 0)),
    ((9, 9), (1, 1), (4, 4)),
    ((9, 4), (2, 3), (1, 2)),
    ((13, 13), (1, 1), (6, 6)),
]
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def with_gradient(f: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    operand = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    results = f(operand)
    results = list(results) if isinstance(results, tuple) else [results]
    weights = (torch.arange(results[0].numel()) % 61 - 20).to(x.dtype).view(results[0].shape)
    (gradient,) = torch.autograd.grad((results[0].nan_to_num(0, 0, 0) * weights).sum(), operand)
    return [*results, gradient]


def compared(f: Callable[..., Any], x: torch.Tensor, tolerance: float = 0.0) -> None:
    """Results and gradients of both, and how they lie in memory."""
    eager, tile = with_gradient(f, x), with_gradient(torch.compile(f, backend="tile", fullgraph=True), x)
    for one, other in zip(eager, tile, strict=True):
        assert one.stride() == other.stride() and one.dtype == other.dtype
    if x.dtype.itemsize == 2:  # eager mode adds up to 81 gradients in the operand's dtype
        eager[-1] = with_gradient(f, x.double())[-1].to(x.dtype)
    for one, other in zip(eager, tile, strict=True):
        torch.testing.assert_close(other, one, equal_nan=True, rtol=tolerance, atol=tolerance)


def images(dtype: torch.dtype, memory_format: torch.memory_format, special: bool = False) -> torch.Tensor:
    """Many elements are equal, so that it shows which of them is taken."""
    x = torch.randint(-3, 4, (2, 3, 29, 31)).to(dtype)
    if special:
        x[torch.rand(x.shape) < 0.1] = float("nan")
        x[torch.rand(x.shape) < 0.3] = float("-inf")
    return x.contiguous(memory_format=memory_format)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_maxima_and_places(window: Any, memory_format: str) -> None:
    length, step, padding = window
    for dtype, special in itertools.product((torch.float32, torch.bfloat16), (False, True)):
        torch.compiler.reset()
        x = images(dtype, FORMATS[memory_format], special)
        compared(
            lambda x: F.max_pool2d(x, length, step, padding, return_indices=True),
            x,
            2e-2 if dtype.itemsize == 2 else 2e-5,
        )


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_averages(window: Any, memory_format: str) -> None:
    length, step, padding = window
    x = torch.randn(2, 3, 29, 31).contiguous(memory_format=FORMATS[memory_format])
    compared(lambda x: F.avg_pool2d(x, length, step, padding), x, 2e-5)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("options", [{"dilation": 2}, {"ceil_mode": True}], ids=str)
def test_wide_windows_with_options(options: dict[str, Any], memory_format: str) -> None:
    x = images(torch.float32, FORMATS[memory_format])
    compared(lambda x: F.max_pool2d(x, 7, 2, 3, return_indices=True, **options), x, 2e-5)


def test_rows_beyond_all_elements_are_no_places() -> None:
    """A window whose elements are all the lowest number takes the first that is in the image."""
    x = torch.full((1, 1, 12, 12), float("-inf"))
    compared(lambda x: F.max_pool2d(x, 9, 1, 4, return_indices=True), x)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("size", [(5, 4), (24, 7), (1, 1), (3, 29)], ids=str)
def test_adaptive_pools_of_uneven_windows(size: tuple[int, int], memory_format: str) -> None:
    x = torch.randn(2, 3, 29, 31).contiguous(memory_format=FORMATS[memory_format])
    compared(lambda x: F.adaptive_avg_pool2d(x, size), x, 2e-5)
    torch.compiler.reset()
    compared(
        lambda x: F.adaptive_max_pool2d(x, size, return_indices=True),
        images(torch.float32, FORMATS[memory_format], True),
        2e-5,
    )


@pytest.mark.parametrize("pool", [F.max_pool3d, F.avg_pool3d])
def test_volumes(pool: Callable[..., Any]) -> None:
    for shape, memory_format in (((2, 3, 9, 10, 11), torch.channels_last_3d), ((3, 9, 10, 11), torch.channels_last)):
        # Eager mode refuses maxima of single volumes whose channels lie side by side.
        for each in (torch.contiguous_format, memory_format)[: 1 if pool is F.max_pool3d and len(shape) == 4 else 2]:
            torch.compiler.reset()
            x = torch.randn(shape).contiguous(memory_format=each)
            for window in ((5, 5, 5), (4, 4, 1), (1, 5, 5), (5, 1, 4)):
                torch.compiler.reset()
                padding = [k // 2 for k in window]
                compared(functools.partial(pool, kernel_size=window, stride=2, padding=padding), x, 2e-5)
            torch.compiler.reset()
            adaptive = F.adaptive_avg_pool3d if pool is F.avg_pool3d else F.adaptive_max_pool3d
            compared(functools.partial(adaptive, output_size=(4, 3, 5)), x, 2e-5)


def test_dynamic_sizes() -> None:
    f = lambda x: F.max_pool2d(x, 9, 1, 4, return_indices=True)  # noqa: E731
    compiled = torch.compile(f, backend="tile", dynamic=True, fullgraph=True)
    for n in (20, 33):
        x = torch.randint(-3, 4, (2, 3, n, n + 1)).float()
        for eager, tile in zip(f(x), compiled(x), strict=True):
            torch.testing.assert_close(tile, eager, rtol=0, atol=0)


@pytest.mark.parametrize("window", [(5, 5, 1), (1, 4, 4), (3, 1, 5)], ids=str)
def test_places_in_volumes(window: tuple[int, int, int]) -> None:
    x = torch.randint(-3, 4, (2, 3, 9, 10, 11)).float()
    compared(lambda x: F.max_pool3d(x, window, 1, return_indices=True), x, 2e-5)


def test_large_windows_side_by_side() -> None:
    compared(lambda x: F.max_pool2d(x, 40, return_indices=True), torch.randn(1, 2, 80, 80), 2e-5)
