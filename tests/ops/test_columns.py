"""Long columns, reduced a few rows at a time: widths around tiles and blocks, what is fused, what is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import assert_same, compiled, copy_inputs, gradients, tile_only
from tests.ops.accuracy import error, is_close_enough

pytestmark = tile_only

SHAPES = [(512, 640), (4099, 257), (1000, 333), (300, 2000), (129, 5001), (70000, 65), (33, 20011), (2000, 64)]
NARROW = [(299592, 2), (100000, 3), (65536, 7), (40000, 16), (100000, 33), (65537, 5)]


def statistics(x: torch.Tensor) -> Any:
    return x.sum(0), x.amax(0), x.argmin(0), torch.var_mean(x, 0), (x > 0).sum(0), x.mean(0, keepdim=True) * 2


def check(function: Callable[..., Any], *arguments: torch.Tensor) -> None:
    """Integers are eager's; the error of floats is at most twice eager's, with some units in the last place."""
    wide = [a.double() for a in arguments]
    results = torch.utils._pytree.tree_leaves(compiled(function)(*copy_inputs(arguments)))
    expected = torch.utils._pytree.tree_leaves(function(*copy_inputs(arguments)))
    exact = torch.utils._pytree.tree_leaves(function(*wide))
    for a, b, c in zip(results, expected, exact, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        if not a.is_floating_point():
            assert_same(a, b)
            continue
        # Sums cancel: what is missing is told in ulp of the terms' magnitude.
        scale = c.abs().clamp(min=c.abs().mean())
        assert is_close_enough(error(a, c, scale), error(b, c, scale), 3), f"{a} is not {c}; eager {b}"


@pytest.mark.parametrize("shape", SHAPES + NARROW, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_statistics(shape: tuple[int, int], dtype: torch.dtype) -> None:
    check(statistics, torch.randn(shape).to(dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float64(shape: tuple[int, int]) -> None:
    x = torch.randn(shape, dtype=torch.float64)
    assert_same(compiled(statistics)(x), statistics(x), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool], ids=str)
def test_integers(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> Any:
        counts = x.sum(0), x.any(0), torch.count_nonzero(x, 0)
        return counts if dtype is torch.bool else (*counts, x.amax(0), x.amin(0), x.argmax(0))

    x = torch.randint(0, 2 if dtype is torch.bool else 100, (3000, 500)).to(dtype)
    assert_same(compiled(f)(x), f(x))


@pytest.mark.parametrize("shape", [(8192, 768), (1000, 333), (40, 20000)], ids=str)
def test_what_is_computed_on_the_way(shape: tuple[int, int]) -> None:
    """What the loop also stores is stored once for each element, before and beside the sums."""

    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = torch.sigmoid(x * w)
        return y, y.sum(0), (x * y).sum(0), torch.relu(y.amax(0) - x[0])

    check(f, torch.randn(shape), torch.randn(shape[1]))


@pytest.mark.parametrize(
    ("shape", "dims"),
    [((8, 28, 28, 64), (0, 1, 2)), ((4, 100, 300), (1,)), ((4, 100, 300), (0,)), ((2, 3, 500, 128), (0, 2))],
    ids=str,
)
def test_axes(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    check(lambda x: (x.sum(dims), x.amax(dims, keepdim=True), x.var(dims)), torch.randn(shape))


@pytest.mark.parametrize("channels", [3, 64])
def test_statistics_of_channels_last(channels: int) -> None:
    x = torch.randn(8, channels, 64, 64).contiguous(memory_format=torch.channels_last)
    check(lambda x: (*torch.var_mean(x, (0, 2, 3)), x.amax((0, 2, 3))), x)


def test_rows_that_are_a_part() -> None:
    """Columns that begin inside of rows, and rows a distance apart."""
    whole = torch.randn(2000, 1003)
    check(lambda x: (x[::2, 3:].sum(0), x[5:, :-7].amax(0)), whole)


def test_written_input() -> None:
    """The tile that is moved back computes nothing twice that was overwritten."""

    def f(x: torch.Tensor) -> torch.Tensor:
        total = x.sum(0)
        x.add_(1)
        return total

    x = torch.randn(1000, 333)
    ours, eagers = x.clone(), x.clone()
    assert_same(compiled(f)(ours), f(eagers), rtol=1e-5, atol=1e-4)
    assert_same(ours, eagers)


def test_sizes_that_are_not_known() -> None:
    f = compiled(lambda x: (x.sum(0), x.amax(0), x.var(0)), dynamic=True)
    for shape in ((1000, 333), (64, 20000), (2, 3), (70000, 65), (4099, 1)):
        x = torch.randn(shape)
        expected = x.double()
        assert_same(f(x), (expected.sum(0).float(), x.amax(0), expected.var(0).float()), rtol=2e-5, atol=2e-4)


def test_gradient_of_a_bias() -> None:
    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x * w + b)

    arguments = [torch.randn(4096, 768), torch.randn(768), torch.randn(768)]
    assert_same(gradients(compiled(f), arguments), gradients(f, arguments), rtol=1e-4, atol=1e-3)
