"""Decompositions against the operators they stand for, in eager mode, over ranges that samples of operators miss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh
from torch_tile.formulas.bessel import bessel_functions
from torch_tile.formulas.special_functions import computed, special_functions
from torch_tile.frontend.decompositions import decomposition_table

aten = torch.ops.aten
TABLE = decomposition_table()
SPECIAL = {
    op._schema.name.removeprefix("aten::"): (op, f) for op, f in {**special_functions(), **bessel_functions()}.items()
}
EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-30, -1e-30, 0.5, 1.0, -1.0, 2.0, 8.0]


def _arguments(name: str, dtype: torch.dtype) -> torch.Tensor:
    limit = 1.05 if name in ("erfinv", "special_ndtri") else 20.0
    grid = torch.linspace(-limit / (2 if "erfcx" in name else 1), limit, 4001, dtype=torch.float64)
    return torch.cat([grid, torch.tensor(EDGES, dtype=torch.float64)]).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name: str, dtype: torch.dtype) -> None:
    """Within a few roundings of the true value, which for float32 is ATen's in float64."""
    op, decomposition = SPECIAL[name]
    x = _arguments(name, dtype)
    orders = range(5) if name == "polygamma" else (None,)
    for order in orders:
        leading = () if order is None else (order,)
        result = decomposition(*leading, x)
        if result is NotImplemented:  # ATen's own in float64 is far off
            continue
        exact = op(*leading, x.double())
        assert result.dtype is dtype
        bessel = "bessel" in name
        rtol, atol = (2e-6, 2e-6) if dtype is torch.float32 else (1e-9, 1e-8)
        # Next to a pole eager's own reflection is inexact, and at one it may be finite.
        keep = (
            (x > 0) | ((x - x.round()).abs() > 1e-3) | ~x.isfinite()
            if "gamma" in name
            else torch.ones_like(x, dtype=torch.bool)
        )
        keep &= exact.abs() < torch.finfo(dtype).max if not bessel else torch.ones_like(keep)
        torch.testing.assert_close(result[keep].double(), exact[keep], rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.skipif(not IS_TILE, reason="about the backend tile")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", ["erfinv", "special_ndtri", "special_bessel_j0", "special_bessel_j1"])
def test_functions_that_are_faster_in_the_library(name: str, dtype: torch.dtype) -> None:
    """On the CPU the formulas take several times as long."""
    op, x = SPECIAL[name][0], _arguments(name, dtype)
    fresh()
    assert_same(compiled(lambda x: op(x * 0.5) + 1)(x), op(x * 0.5) + 1, exact=True)
    assert count("externs") == 1


POOLS = list(
    itertools.product(
        [
            *((2, 2, 0), (3, 2, 1), (3, 1, 1), ((2, 3), (1, 2), (1, 0)), (4, 3, 2)),  # kernel, stride, padding
            *((7, 1, 3), (7, 1, 0), (8, (1, 2), (4, 1)), (9, 2, 4), ((11, 9), 1, (5, 0))),  # by dimensions
        ],
        [False, True],  # ceil_mode
        [torch.float32, torch.bfloat16, torch.int64],
    )
)


def _assert_as_near(op: Any, first: torch.Tensor, *arguments: Any) -> None:
    """Integers are equal; floats no further from the sums in float64 than twice what eager mode is."""
    result, expected = TABLE[op](first, *arguments), op(first, *arguments)
    assert result.dtype is expected.dtype and result.shape == expected.shape
    if not expected.dtype.is_floating_point:
        assert torch.equal(result, expected)
        return
    exact = op(*(a.double() if isinstance(a, torch.Tensor) else a for a in (first, *arguments)))
    unit = torch.finfo(expected.dtype).eps * exact.abs().max()
    assert (result - exact).abs().max() <= 2 * (expected - exact).abs().max() + unit


@pytest.mark.parametrize("shape,ceil_mode,dtype", POOLS)
def test_pooling(shape: Any, ceil_mode: bool, dtype: torch.dtype) -> None:
    kernel, stride, padding = shape
    x = (torch.randn(2, 3, 11, 9) * 8).to(dtype)
    for pad_counts, divisor in ((True, None), (False, None), (False, 3)):
        arguments = (x, kernel, stride, padding, ceil_mode, pad_counts, divisor)
        _assert_as_near(aten.avg_pool2d.default, *arguments)
        if dtype.is_floating_point:
            grad = torch.randn_like(aten.avg_pool2d.default(*arguments))
            _assert_as_near(aten.avg_pool2d_backward.default, grad, *arguments)
    if max(kernel if isinstance(kernel, tuple) else (kernel,)) > 4:
        return  # maxima of large windows are calls
    if dtype.is_floating_point:
        x[0, 0, 4, 4], x[1, 1, :, :] = math.nan, -math.inf
    for dilation in (1, 2):
        arguments = (x, kernel, stride, padding, dilation, ceil_mode)
        try:
            values, indices = aten.max_pool2d_with_indices.default(*arguments)
        except RuntimeError:  # no window fits
            continue
        result, places = TABLE[aten.max_pool2d_with_indices.default](*arguments)
        assert torch.equal(places, indices) and torch.equal(result.nan_to_num(), values.nan_to_num())
        if dtype is torch.float32:
            grad = torch.randn_like(values)
            backward = (grad, x, kernel, stride, padding, dilation, ceil_mode, indices)
            torch.testing.assert_close(
                TABLE[aten.max_pool2d_with_indices_backward.default](*backward),
                aten.max_pool2d_with_indices_backward.default(*backward),
            )


@pytest.mark.parametrize("sizes", [((7, 5), (3, 2)), ((4, 6), (2, 3)), ((3, 3), (5, 7)), ((9, 1), (4, 1))])
def test_adaptive_pooling(sizes: Any) -> None:
    size, output = sizes
    x = torch.randn(2, 3, *size)
    torch.testing.assert_close(
        TABLE[aten._adaptive_avg_pool2d.default](x, output), aten._adaptive_avg_pool2d(x, output)
    )
    values, indices = aten.adaptive_max_pool2d(x, output)
    result, places = TABLE[aten.adaptive_max_pool2d.default](x, output)
    assert torch.equal(result, values) and torch.equal(places, indices)
    grad = torch.randn_like(values)
    torch.testing.assert_close(
        TABLE[aten._adaptive_avg_pool2d_backward.default](grad, x), aten._adaptive_avg_pool2d_backward(grad, x)
    )
    torch.testing.assert_close(
        TABLE[aten.adaptive_max_pool2d_backward.default](grad, x, indices),
        aten.adaptive_max_pool2d_backward(grad, x, indices),
    )


@pytest.mark.parametrize("padding", [(1, 2), (0, 3), (-1, 2), (2, -3)])
def test_gradient_of_replication_padding(padding: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 6, 7, requires_grad=True)
    both = (*padding, *padding[::-1])
    grad = torch.randn_like(F.pad(x, both, mode="replicate"))
    (expected,) = torch.autograd.grad(F.pad(x, both, mode="replicate"), x, grad)
    torch.testing.assert_close(TABLE[aten.replication_pad2d_backward.default](grad, x.detach(), both), expected)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9, 100])
def test_search(length: int, right: bool) -> None:
    boundaries = torch.randint(-20, 20, (length,)).float().sort().values
    values = torch.cat([torch.randint(-25, 25, (200,)).float(), torch.tensor([math.nan, math.inf, -math.inf])])
    bucketized = TABLE[aten.bucketize.Tensor](values, boundaries, right=right)
    assert torch.equal(bucketized, torch.bucketize(values, boundaries, right=right))
    rows = torch.randn(4, max(length, 1)).sort(-1).values
    wanted = torch.randn(4, 6)
    for int32 in (False, True):
        result = TABLE[aten.searchsorted.Tensor](rows, wanted, right=right, out_int32=int32)
        expected = torch.searchsorted(rows, wanted, right=right, out_int32=int32)
        assert torch.equal(result, expected) and result.dtype is expected.dtype


@pytest.mark.parametrize("length", [0, 5])
def test_search_gives_contiguous_positions(length: int) -> None:
    boundaries, values = torch.arange(float(length)), torch.randn(4, 6).t()
    assert TABLE[aten.bucketize.Tensor](values, boundaries).stride() == torch.bucketize(values, boundaries).stride()
    result = TABLE[aten.searchsorted.Tensor](boundaries, values)
    assert result.stride() == torch.searchsorted(boundaries, values).stride()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_integer_powers(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    base = torch.tensor(
        [0, 1, 2, 3, 5, 7, 10, info.max, info.min, info.max // 3, *([] if info.min == 0 else [-1, -2, -3])], dtype=dtype
    )
    exponent = torch.tensor([0, 1, 2, 3, 5, 8, 31, 64, 100, *([] if info.min == 0 else [-1, -2, -5])], dtype=dtype)
    a, b = torch.meshgrid(base, exponent, indexing="ij")
    # ATen's zero to a negative power is a division by zero somewhere else.
    keep = ~((a == 0) & (b < 0))
    result, expected = TABLE[aten.pow.Tensor_Tensor](a, b), torch.pow(a, b)
    assert result.dtype is dtype and torch.equal(result[keep], expected[keep])
    for number in (4, 5, 11):
        assert torch.equal(TABLE[aten.pow.Tensor_Scalar](base, number), torch.pow(base, number))


def test_maximum_without_nan_and_hypotenuse() -> None:
    values = torch.tensor([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan, 3e38, 1e-38])
    a, b = torch.meshgrid(values, values, indexing="ij")
    for op in (aten.fmax.default, aten.fmin.default, aten.hypot.default):
        torch.testing.assert_close(TABLE[op](a, b), op(a, b), equal_nan=True)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_samples_of_a_volume(mode: str, padding_mode: str, align_corners: bool) -> None:
    codes = (("bilinear", "nearest").index(mode), ("zeros", "border", "reflection").index(padding_mode))
    x, grid = torch.randn(2, 3, 4, 5, 6), torch.rand(2, 3, 2, 4, 3) * 4 - 2
    extremes = torch.tensor([math.nan, math.inf, -math.inf, 1e10, -1e10, 3e9, 0.6, -1.0, 2.5])
    points = torch.cartesian_prod(extremes, extremes, extremes)[None, None, None].expand(2, -1, -1, -1, -1)
    for at in (grid, points):
        expected = F.grid_sample(x, at, mode, padding_mode, align_corners)
        result = TABLE[aten.grid_sampler_3d.default](x, at, *codes, align_corners)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    "where, dtype, expected",
    [
        ("cpu", torch.float32, torch.float64),
        ("meta", torch.float32, torch.float32),
        ("meta", torch.float64, torch.float64),
    ],
)
def test_special_functions_compute_in(where: str, dtype: torch.dtype, expected: torch.dtype) -> None:
    """On other devices than the CPU in the operand's own precision: float64 is slow there, but float64 stays."""
    seen: list[torch.dtype] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.dtype)
        return x

    assert computed(function)(torch.empty(3, device=where, dtype=dtype)).dtype is dtype
    assert seen == [expected]


@pytest.mark.parametrize("n, m", [(3, 3), (300, 300), (512, 2), (2, 300), (0, 4)])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_eye(n: int, m: int, dtype: torch.dtype | None) -> None:
    """torch's decomposition counts in uint16 from 256 on, which its own kernels cannot."""

    def function(x: torch.Tensor) -> Any:
        square = [torch.eye(n, dtype=dtype, device=x.device)] if n == m else []
        return *square, torch.eye(n, m, dtype=dtype) * 1, x + 1

    fresh()
    x = torch.ones(2)
    assert_same(compiled(function)(x), function(x), exact=True)
    assert count("externs") == 0


@pytest.mark.parametrize(
    "dtype",
    [torch.int64, torch.int32, torch.int8, torch.uint8, torch.float32, torch.float16, torch.bfloat16],
    ids=lambda dtype: str(dtype)[6:],
)
def test_thresholds_are_numbers_of_the_dtype(dtype: torch.dtype) -> None:
    """Large integers do not pass through a float; a float has not the precision of bfloat16. What ATen refuses is its
    own error."""
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    values = [-5, -3, -2, -1, 0, 1, 2, 3, 5, 100, limits.min, limits.max, 1 << 24, (1 << 24) + 1, 0.1, 0.5]
    x = torch.tensor([v for v in values if limits.min <= v <= limits.max], dtype=dtype)
    grad = torch.arange(1, len(x) + 1).to(dtype)
    numbers = (-2.5, 2.5, -2, 0, 300, 0.1, math.inf, True)

    def forward(threshold: Any, value: Any) -> Any:
        return lambda: (threshold, value, aten.threshold.default(x, threshold, value))

    def backward(threshold: Any) -> Any:
        return lambda: (threshold, aten.threshold_backward.default(grad, x, threshold))

    calls = [forward(*pair) for pair in itertools.product(numbers, (0.5, -2.9, 7, 300, math.nan))]
    calls += [backward(threshold) for threshold in numbers]
    accepted = []
    for call in calls:
        try:
            call()
            accepted.append(call)
        except RuntimeError:  # the number is none of this dtype
            continue
    assert accepted

    def together() -> Any:
        return [call()[-1] for call in accepted]

    assert_same(compiled(together)(), together(), exact=True)


LOSSES = {
    "huber": F.huber_loss,
    "l1": F.l1_loss,
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_without_elements(name: str, reduction: str) -> None:
    """A batch may be empty: the mean is NaN, and the gradient has no elements."""

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return LOSSES[name](x, y, reduction=reduction)

    fresh()
    function = compiled(loss)
    for rows in (0, 3):
        operands = [torch.ones(rows, 4, requires_grad=True) for _ in range(2)]
        result, target = function(*operands), torch.zeros(rows, 4)
        assert_same(function(operands[0], target), loss(operands[0], target))
        result.sum().backward()
        expected = torch.autograd.grad(loss(*operands).sum(), operands)
        assert_same([each.grad for each in operands], list(expected))
    if IS_TILE:
        assert count("fallbacks") == 0


def _strides(results: Any) -> list[tuple[int, ...]]:
    return [tuple(s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1) for t in results]


@pytest.mark.parametrize("batch", [1, 2])
def test_memory_format_of_pooling_over_volumes(batch: int) -> None:
    """Channels that come last stay last in max_pool3d alone."""

    def pooled(x: torch.Tensor) -> list[torch.Tensor]:
        averages = [F.avg_pool3d(x, 2), F.avg_pool3d(x, 3, 2, 1)]
        averages += [F.adaptive_avg_pool3d(x, 3), F.adaptive_avg_pool3d(x, 4)]
        maxima = [*F.adaptive_max_pool3d(x, 3, return_indices=True), *F.adaptive_max_pool3d(x, 4, return_indices=True)]
        return [*averages, *maxima, *F.max_pool3d(x, 2, return_indices=True)]

    fresh()
    x = torch.randn(batch, 4, 6, 6, 6).to(memory_format=torch.channels_last_3d)
    results, expected = compiled(pooled)(x), pooled(x)
    assert_same(results, expected)
    assert _strides(results) == _strides(expected)
    for backward, arguments in (
        (aten.avg_pool3d_backward.default, ([2], [2], [0], False, True, None)),
        (aten._adaptive_avg_pool3d_backward.default, ()),
    ):
        grad = torch.randn(batch, 4, 3, 3, 3)
        result, gradient = TABLE[backward](grad, x, *arguments), backward(grad, x, *arguments)
        assert_same(result, gradient)
        assert _strides([result]) == _strides([gradient])


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda x: x.permute(2, 1, 0),
    "gaps": lambda x: x.permute(2, 0, 1)[1:],
    "rows": lambda x: x.transpose(1, 2)[..., 1:],
    "expanded": lambda x: x[:1].expand(3, -1, -1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_filled_rows_are_laid_out_as_a_copy(layout: str, dynamic: bool) -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.index_fill(0, index, 1.0), x.index_fill(-1, index, x.sum())

    x, index = LAYOUTS[layout](torch.arange(120.0).view(4, 5, 6)), torch.tensor([0])
    torch.compiler.reset()
    assert_same(compiled(function, dynamic=dynamic)(x, index), function(x, index))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding_by_a_size_keeps_strides_if_it_only_cuts_off(layout: str) -> None:
    def function(x: torch.Tensor, amount: int) -> tuple[torch.Tensor, ...]:
        return F.pad(x, [0, 0, amount, amount]), F.pad(x, [amount, 1]), F.pad(x, [amount, amount - 1])

    x = LAYOUTS[layout](torch.arange(192.0).view(4, 8, 6))
    torch.compiler.reset()
    program = compiled(function, dynamic=True)
    for amount in (-1, 0, 2, 1):
        assert_same(program(x, amount), function(x, amount))


BOUNDARIES = (
    torch.tensor([False, False, True, True]),
    torch.tensor([0, 3, 7, 200], dtype=torch.uint8),
    torch.tensor([0, 3, 7, 200]),
    torch.tensor([0.0, 1.1, 7.0, 200.0], dtype=torch.float16),
    torch.tensor([0.0, 1.1, 7.0, 200.0], dtype=torch.float64),
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("value", [2, 300, -1, 1.1, 1e6, math.nan])
def test_bucket_of_a_number(value: float, dynamic: bool) -> None:
    """It gets the common dtype, not that of the boundaries."""

    def function(value: float, boundaries: tuple[torch.Tensor, ...]) -> Any:
        return [torch.bucketize(value, each, right=right) for each in boundaries for right in (False, True)]

    result = compiled(function, dynamic=dynamic)(value, BOUNDARIES)
    assert_same(result, function(value, BOUNDARIES), exact=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_powers_of_truth_values(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        return x**True, x**False, x**1, x.int() ** True, x.half() ** False, (x**True) & x

    x = torch.tensor([True, False])
    assert_same(compiled(function, dynamic=dynamic)(x), function(x), exact=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_that_are_rounded_to_16_bits(dtype: torch.dtype, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        quotients = [quotient for number in (1e10, -1e39, 1.1, 3) for quotient in (number // x, x // number)]
        return *quotients, torch.xlogy(x, 1e10), torch.xlogy(1e10, x), torch.special.xlog1py(x, 1e39)

    x = torch.tensor([1.0, 2.0, 300.0, 0.1, 0.0], dtype=dtype)
    assert_same(compiled(function, dynamic=dynamic)(x), function(x))
