"""What eager mode says of dtypes, of numbers in float64, and of writes into tensors whose elements share memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import torch_tile
from tests.compiling import assert_same, compiled, fresh, tile_only


def overlapping() -> torch.Tensor:
    return torch.arange(20.0).as_strided((4, 4), (2, 1))


SCATTERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "select": lambda x: torch.select_scatter(x, -torch.ones(4), 0, 1),
    "slice": lambda x: torch.slice_scatter(x, -torch.ones(2, 4), 0, 1, 3),
    "slice_step": lambda x: torch.slice_scatter(x, -torch.ones(2, 4), 0, 0, 4, 2),
    "diagonal": lambda x: torch.diagonal_scatter(x, -torch.ones(4)),
    "as_strided": lambda x: torch.as_strided_scatter(x, -torch.ones(2, 2), (2, 2), (2, 1)),
}


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_scatter_into_overlapping_elements(name: str, dynamic: bool) -> None:
    function = SCATTERS[name]
    expected, result = function(overlapping()), compiled(function, dynamic=dynamic)(overlapping())
    assert_same(result, expected, exact=True)
    # Elements between those of others share no memory, and expanded ones are copied apart.
    # The call to as_strided_scatter still refuses expanded tensors, which eager mode takes.
    apart, expanded = torch.arange(64.0).view(8, 8)[::2, ::2], torch.arange(4.0).expand(4, 4)
    for x in (apart,) if name == "as_strided" else (apart, expanded):
        fresh()
        assert_same(compiled(function, dynamic=dynamic)(x), function(x), exact=True)


DOUBLES: dict[str, Callable[[torch.Tensor], Any]] = {
    name: getattr(torch, name)
    for name in (
        *("angle", "deg2rad", "rad2deg", "sinc", "exp2", "expm1", "log1p", "log2", "log10", "asinh", "tanh", "rsqrt"),
        *("sigmoid", "atan", "signbit", "frac"),
    )
} | {
    "celu": lambda x: F.celu(x, 0.7),
    "elu": lambda x: F.elu(x, 0.7),
    "gelu": F.gelu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hypot": lambda x: torch.hypot(x, x + 0.1),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "logsigmoid": F.logsigmoid,
    "masked_fill": lambda x: x.masked_fill(x < 0, math.pi),
    "nan_to_num": lambda x: torch.nan_to_num(x / 0.0, 0.1, 0.2, 0.3),
    "selu": F.selu,
    "softplus": F.softplus,
    "threshold": lambda x: F.threshold(x, 0.1, math.pi),
    "where": lambda x: torch.where(x < 0, math.pi, x),
}


def test_numbers_in_float64() -> None:
    x = torch.linspace(-4.0, 4.0, 1001, dtype=torch.float64)
    results = compiled(lambda x: [function(x) for function in DOUBLES.values()])(x)
    for result, function in zip(results, DOUBLES.values(), strict=True):
        assert_same(result, function(x), 1e-14, 1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_ranges_of_fractions(dtype: torch.dtype) -> None:
    """In float64, rounded at the end. ATen's vectors count from a rounded start, its single elements do not."""

    def function() -> Any:
        return (
            torch.arange(0, 1, 0.1, dtype=dtype), torch.arange(3, 40, 0.3, dtype=dtype),
            torch.arange(0.5, 3, dtype=dtype), torch.arange(3.0, -2.0, -1.0, dtype=dtype),
        )  # fmt: skip

    steps = ((0.0, 0.1), (3.0, 0.3), (0.5, 1.0), (3.0, -1.0))
    for result, eager, (start, step) in zip(compiled(function)(), function(), steps, strict=True):
        exact = start + step * torch.arange(len(eager), dtype=torch.float64)
        assert_same(result, exact.float().to(dtype) if dtype is not torch.float64 else exact, 1e-15, 1e-15)
        assert_same(result, eager, rtol=torch.finfo(dtype).eps, atol=0)


ZEROS = torch.tensor([0.0, -0.0, 1.0, -1.0] * 8)
EXTREMA_OF_ZEROS: dict[str, Callable[..., Any]] = {
    "maximum": lambda x, low, high: (torch.maximum(x, low), torch.maximum(low, x)),
    "minimum": lambda x, low, high: (torch.minimum(x, high), torch.minimum(high, x)),
    "clamp_min": lambda x, low, high: (torch.clamp(x, min=low), torch.clamp(x, low, high)),
    "clamp_max": lambda x, low, high: (torch.clamp(x, max=high), torch.clamp(x, low, high)),
    "expanded": lambda x, low, high: torch.clamp(x, low.expand(x.shape), high.expand(x.shape)),
}


@pytest.mark.parametrize("name", EXTREMA_OF_ZEROS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_signs_of_zero_of_extrema_in_one_graph(name: str, dtype: torch.dtype, zero: float) -> None:
    """Of operands in either order, one-sided and two-sided, in one kernel."""
    function, x = EXTREMA_OF_ZEROS[name], ZEROS.to(dtype)
    bounds = (zero, 3.0) if name != "clamp_max" else (-3.0, zero)
    bounds = (-3.0, zero) if name == "minimum" else bounds
    low, high = (torch.tensor([bound], dtype=dtype) for bound in bounds)
    result, expected = (
        [each.signbit() for each in pytree.tree_leaves(f(x, low, high))] for f in (compiled(function), function)
    )
    assert_same(result, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(3, 1), (1, 1), (6, 4), (3, 64), (5, 1000), (3, 7, 2)], ids=str)
def test_sums_of_negative_zeros(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """A sum begins with zero."""

    def function(x: torch.Tensor) -> Any:
        y = x * 1
        chosen = torch.arange(y.shape[1]).expand(y.shape[:2]) == 0
        return (
            x.sum(1), x.sum(0), x.sum(), x.mean(1), x.nansum(1), y.sum(-1), x.t().sum(0) if x.dim() == 2 else x.sum(1),
            x.sum(1, dtype=torch.float64), torch.where(chosen, x if x.dim() == 2 else x[..., 0], 0).sum(1),
        )  # fmt: skip

    x = torch.full(shape, -0.0, dtype=dtype)
    result, expected = compiled(function)(x), function(x)
    assert_same([each.signbit() for each in result], [each.signbit() for each in expected])


@pytest.mark.parametrize(
    "strides", [(12, 1, 1, 3), (12, 1, 3, 3), (12, 1, 24, 3), (12, 4, 4, 1), (12, 4, 1, 1)], ids=str
)
@pytest.mark.parametrize("training", [False, True])
def test_layout_of_batch_norm(strides: tuple[int, ...], training: bool) -> None:
    """Strides of a dimension of one element say nothing of the format."""

    def function(x: torch.Tensor) -> Any:
        return F.batch_norm(x, torch.zeros(3), torch.ones(3), training=training)

    x = torch.randn(24).as_strided((2, 3, 1, 4), strides)
    assert_same(compiled(function)(x), function(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("decimals", [-3, -1, 1, 2, 3])
def test_rounding_to_decimals(dtype: torch.dtype, decimals: int) -> None:
    """In float32, where the scaled number is in range."""
    x = torch.cat([torch.tensor([65504.0, -65504.0, 300.0, 12345.0]), torch.randn(200) * 100]).to(dtype)
    result = compiled(lambda x: torch.round(x, decimals=decimals))(x)
    assert_same(result, torch.round(x, decimals=decimals), exact=True)


NUMBER = torch.tensor(2.0, dtype=torch.float64)
WITH_NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "hypot": lambda x: (torch.hypot(x, NUMBER), torch.hypot(NUMBER, x)),
    "lerp": lambda x: torch.lerp(x, x + 1, NUMBER),
    "addcdiv": lambda x: torch.addcdiv(x, x, NUMBER),
    "addcmul": lambda x: torch.addcmul(x, x, NUMBER),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_dtypes_with_tensors_of_no_dimension(name: str, dtype: torch.dtype) -> None:
    """A wider tensor without dimensions does not widen the result."""
    x, function = torch.linspace(0.5, 3.0, 7).to(dtype), WITH_NUMBERS[name]
    assert_same(compiled(function)(x), function(x))


def test_angle_of_edges() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.int32, torch.bool):
        x = torch.tensor([-1.0, 1.0, 0.0, -0.0, -math.inf, math.nan]).nan_to_num(2.0 if dtype is torch.int32 else None)
        x = x.clamp(-5, 5).to(dtype) if not dtype.is_floating_point else x.to(dtype)
        fresh()
        assert_same(compiled(torch.angle)(x), torch.angle(x), exact=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_layout_of_angle(dynamic: bool) -> None:
    """Contiguous of complex numbers alone; torch's own rule for fake tensors says it of none."""
    for dtype in (torch.complex64, torch.float32):
        x = torch.randn(2, 3, 4, 5, dtype=dtype)
        program = compiled(torch.angle, dynamic=dynamic)
        for given in (x, x.permute(2, 0, 1, 3), x.to(memory_format=torch.channels_last), x[:, 0, ::2].mT):
            expected, result = torch.angle(given), program(given)
            assert_same(result, expected)
            assert result.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_ldexp_of_integers(dtype: torch.dtype) -> None:
    """The number's dtype stays, and the result is rounded once, wherever the power lies."""
    integer = {8: torch.int64, 4: torch.int32, 2: torch.int16}[dtype.itemsize]
    limits = torch.iinfo(integer)
    x = torch.cat([torch.randint(limits.min, limits.max, (4000,), dtype=integer), torch.arange(1000, dtype=integer)])
    x = torch.cat([x.view(dtype), torch.tensor([0.0, -0.0, math.inf, math.nan, 1.0], dtype=dtype)])
    exponent = torch.randint(-2300, 2300, (len(x),)) // torch.randint(1, 50, (len(x),))
    for exponents in (exponent, exponent.int(), exponent.clamp(-128, 127).to(torch.int8), torch.tensor(3)):
        fresh()
        assert_same(compiled(torch.ldexp)(x, exponents), torch.ldexp(x, exponents), exact=True)


BOOL, SMALL, COMPLEX, HALF, FLOAT8 = torch.bool, torch.int8, torch.complex64, torch.float16, torch.float8_e4m3fn
REFUSED: list[tuple[Callable[..., Any], torch.dtype]] = [
    *((f, BOOL) for f in (torch.abs, torch.floor, torch.ceil, torch.round, torch.trunc, torch.relu)),
    *((f, BOOL) for f in (torch.argmax, torch.argmin)),
    (lambda x: torch.argmax(x, 0), BOOL),
    (lambda x: x - 1, BOOL),
    (lambda x: 1 - x, BOOL),
    (lambda x: torch.addcmul(x, x, x), BOOL),
    (lambda x: torch.addcdiv(x, x, x), BOOL),
    (lambda x: torch.dot(x, x), BOOL),
    (lambda x: torch.bucketize(x, x), BOOL),
    *((f, SMALL) for f in (F.celu, F.silu, F.mish, F.softplus, F.hardswish, F.hardsigmoid)),
    *((f, SMALL) for f in (F.logsigmoid, torch.frac, F.glu)),
    (lambda x: torch.logaddexp(x, x), SMALL),
    (lambda x: torch.lerp(x, x, x), SMALL),
    (lambda x: torch.round(x, decimals=2), SMALL),
    (lambda x: F.huber_loss(x, x), SMALL),
    (lambda x: F.smooth_l1_loss(x, x), SMALL),
    (lambda x: F.mse_loss(x, x), COMPLEX),
    (lambda x: F.avg_pool1d(x.view(1, 1, 4), 2), SMALL),
    (lambda x: torch.cdist(x.view(2, 2), x.view(2, 2)), HALF),
    *((f, COMPLEX) for f in (torch.digamma, torch.erfinv, torch.i0, torch.lgamma, torch.special.erfcx)),
    *((f, FLOAT8) for f in (torch.isneginf, torch.isposinf, torch.lgamma, torch.digamma, torch.nan_to_num)),
    *((torch.count_nonzero, dtype) for dtype in (FLOAT8, torch.uint16, torch.uint64)),
    (lambda x: torch.isin(x, x), FLOAT8),
    *((lambda x: x.masked_scatter(x != 0, x), dtype) for dtype in (FLOAT8, torch.uint32)),
    (lambda x: torch.tril(x.view(2, 2)), FLOAT8),
    (lambda x: torch.trace(x.view(2, 2)), torch.uint16),
    (lambda x: x.view(2, 2).take(torch.tensor([0])), torch.uint32),
    *((lambda x: F.pad(x.view(1, 1, 4), (1, 1), "replicate"), dtype) for dtype in (FLOAT8, torch.uint32)),
    (lambda x: F.pad(x.view(1, 2, 2), (1, 1, 1, 1), "reflect"), BOOL),
    *((lambda x: F.avg_pool3d(x.view(1, 1, 1, 2, 2), (1, 2, 2)), dtype) for dtype in (HALF, torch.bfloat16)),
    *((lambda x: F.local_response_norm(x.view(1, 1, 2, 2), 2), dtype) for dtype in (HALF, torch.bfloat16)),
    *((lambda x: F.interpolate(x.view(1, 1, 4), scale_factor=2), dtype) for dtype in (BOOL, SMALL, FLOAT8, COMPLEX)),
    (lambda x: F.max_pool1d(x.view(1, 4), 2), SMALL),
    (lambda x: F.multi_margin_loss(x.view(2, 2), torch.tensor([0, 1])), SMALL),
    (lambda x: F.nll_loss(x.view(2, 2), torch.tensor([0, 1])), SMALL),
    (lambda x: torch.searchsorted(x[1:2], x), BOOL),
    (lambda x: x.view(4, 1)[:, :0].aminmax(dim=0), COMPLEX),
    (lambda x: torch.logcumsumexp(x[0], 0), torch.uint8),
    (lambda x: torch.special.xlog1py(x, 1j), torch.uint8),
    (lambda x: torch.xlogy(x, 1j), BOOL),
    (lambda x: torch.special.xlog1py(x, x.int()), torch.uint64),
    (lambda x: x.to(COMPLEX).div_(x), torch.uint64),
    (lambda x: x.to(COMPLEX) / x, torch.uint64),
    (lambda x: torch.polar(x, x.float()), torch.bfloat16),
    (lambda x: torch.special.chebyshev_polynomial_t(x, torch.tensor(2.0)), HALF),
    *((lambda x: F.mse_loss(x, x, reduction="sum"), dtype) for dtype in (SMALL, torch.uint8)),
    *((lambda x: F.soft_margin_loss(x, x), dtype) for dtype in (BOOL, SMALL, torch.uint8)),
    (lambda x: F.soft_margin_loss(x.real, x), COMPLEX),
    (lambda x: F.binary_cross_entropy(x, x), SMALL),
    (lambda x: F.binary_cross_entropy(x, x.double()), torch.float32),
]


@tile_only
def test_dtypes_that_aten_refuses() -> None:
    computed = []
    for at, (function, dtype) in enumerate(REFUSED):
        x = torch.tensor([1, 0, 1, 1]).to(dtype)
        with pytest.raises((RuntimeError, NotImplementedError)) as expected:
            function(x)
        fresh()
        try:
            result = torch.compile(function, backend="tile")(x)
        except (RuntimeError, NotImplementedError) as error:
            assert str(expected.value) in str(error), at
        else:
            computed.append(f"REFUSED[{at}] of {dtype} gives {result}: {expected.value}")
    assert not computed, "\n".join(computed)


@tile_only
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax_of_integers_beside_gradients(function: Callable[..., Any]) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(NotImplementedError, match="softmax_lastdim_kernel_impl"):
        torch.compile(lambda x: function(x * 1, 1, dtype=torch.int32), backend="tile")(x)


FLOATS8 = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu)


@pytest.mark.parametrize("dtype", [*FLOATS8, torch.uint16, torch.uint64], ids=str)
def test_dtypes_of_which_aten_has_few_kernels(dtype: torch.dtype) -> None:
    """A decomposition may call another one."""
    x = torch.ones(2, 3).to(dtype)
    results = (x.all(), x.all(0), x.all(1, keepdim=True), x.any(), x.any(1), torch.all(x, (0, 1)))
    assert_same(
        compiled(lambda x: (x.all(), x.all(0), x.all(1, keepdim=True), x.any(), x.any(1), torch.all(x, (0, 1))))(x),
        results,
    )
    if not dtype.is_floating_point:
        assert_same(compiled(lambda x: (x.signbit(), x.angle()))(x), (x.signbit(), x.angle()))


MIXED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "xlogy": lambda x, y: (torch.xlogy(x, y), torch.xlogy(y, x)),
    "xlog1py": lambda x, y: (torch.special.xlog1py(x, y), torch.special.xlog1py(y, x)),
    "addcmul": lambda x, y: (torch.addcmul(x, x, y), torch.addcmul(y, x, x)),
    "addcdiv": lambda x, y: (torch.addcdiv(x, x, y), torch.addcdiv(y, x, x)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MIXED)
def test_operands_are_rounded_to_the_common_dtype(name: str, dtype: torch.dtype) -> None:
    """To 16 bits, in which a large integer is infinite."""
    x, function = torch.tensor([2.5, 0.5, -3.0, 1.0], dtype=dtype), MIXED[name]
    for y in (torch.tensor([2**63 - 1, 70000, 257, 2049]), torch.tensor(70001), torch.tensor(70000.0)):
        fresh()
        assert_same(compiled(function)(x, y), function(x, y))


LOSS_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64)


@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss, F.mse_loss, F.soft_margin_loss])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_losses_of_two_dtypes(loss: Callable[..., torch.Tensor], reduction: str) -> None:
    """Of eager's dtype, or eager's error."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss(x, y, reduction=reduction)

    torch.manual_seed(0)
    for first, second in itertools.permutations(LOSS_DTYPES, 2):
        fresh()
        f = compiled(function)
        x, y = (torch.randn(3, 4) * 3).to(first), (torch.randn(3, 4) * 3).to(second)
        try:
            expected = function(x, y)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                f(x, y)
        else:
            assert_same(f(x, y), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_truncated_quotients_of_low_precision(dtype: torch.dtype, dynamic: bool) -> None:
    """Quotients of tensors are rounded before they are truncated; a divisor of one element is a number of float32."""

    def quotients(x: torch.Tensor, y: torch.Tensor, one: torch.Tensor) -> list[torch.Tensor]:
        divisors = (y, y.float(), 0.3, one, one.view(1))
        return [torch.div(x, divisor, rounding_mode="trunc") for divisor in divisors]

    torch.manual_seed(0)
    x, y = (torch.rand(4000) * 200 - 100).to(dtype), (torch.rand(4000) * 5 + 0.1).to(dtype)
    one = torch.tensor(0.3, dtype=dtype)
    fresh()
    assert_same(compiled(quotients, dynamic=dynamic)(x, y, one), quotients(x, y, one), exact=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=lambda d: str(d)[6:])
def test_numbers_at_equal_distances_are_those_of_eager_mode(dtype: torch.dtype) -> None:
    """Bit for bit: as positions they become indices."""

    def function(x: torch.Tensor) -> Any:
        n = x.shape[0]
        near = torch.linspace(0, 1, n, dtype=dtype)
        return near + x, (near * (n - 1)).floor(), torch.linspace(-3, 5, n, dtype=dtype) * 2

    call = compiled(function, dynamic=True)
    for n in (5, 77, 78, 1000):
        assert_same(call(torch.ones(n, dtype=dtype)), function(torch.ones(n, dtype=dtype)), exact=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_between_complex_ends(dynamic: bool) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        ends = torch.linspace(0, a, 5), torch.linspace(a, 2, 5), torch.linspace(a, b, 5), torch.logspace(0, a, 5)
        return *ends, torch.linspace(a.to(torch.complex128), 1, 3) * 2, torch.linspace(b, 3, 5)

    a, b = torch.tensor(1j), torch.tensor(2.0, dtype=torch.float64)
    assert_same(compiled(function, dynamic=dynamic)(a, b), function(a, b), 1e-6, 1e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.int64], ids=str)
def test_softmax_of_no_integers(dtype: torch.dtype, training: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.softmax(-1), x.log_softmax(0), y * 2

    x, y = torch.zeros(0, 3, dtype=dtype), torch.ones(2, requires_grad=training)
    assert_same(compiled(function)(x, y), function(x, y))


@tile_only
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("sizes", [(1, 3), (3,), (1,), ()], ids=str)
def test_margin_of_fewer_inputs_than_targets(sizes: tuple[int, ...], reduction: str) -> None:
    """The loss has the sizes of the input."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.soft_margin_loss(x, y, reduction=reduction)

    x, y = torch.full(sizes, 0.5), torch.ones(2, 3)
    assert_same(compiled(function)(y, x), function(y, x))
    fresh()
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        compiled(function)(x, y)


NUMBERS = {torch.int8: [200, -129], torch.uint8: [256, -256], torch.float16: [70000], torch.bfloat16: []}


@tile_only
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("of_number", [torch.int32, torch.int64, torch.float64], ids=str)
def test_filling_with_the_value_of_a_tensor(dtype: torch.dtype, of_number: torch.dtype) -> None:
    """A value beyond the dtype is an error."""

    def function(x: torch.Tensor, number: torch.Tensor) -> Any:
        return x.masked_fill(x > 0, number), x.index_fill(0, torch.tensor([1]), number)

    call, x = compiled(function), torch.tensor([1, 0, 3]).to(dtype)
    for value in (100, 0):
        number = torch.tensor(value, dtype=of_number)
        assert_same(call(x, number), function(x, number))
    for value in NUMBERS[dtype]:
        number = torch.tensor(value, dtype=of_number)
        for f in (call, function):
            with pytest.raises(RuntimeError, match="value cannot be converted"):
                f(x, number)


def test_filling_with_infinities() -> None:
    x = torch.tensor([1.0, 0.0])
    for value in (math.inf, -math.inf, math.nan):
        number = torch.tensor(value, dtype=torch.float64)
        assert_same(compiled(lambda x, n: x.masked_fill(x > 0, n))(x, number), x.masked_fill(x > 0, number))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_variances_of_nothing(dtype: torch.dtype) -> None:
    """NaN, also where the correction makes the count larger than 0."""

    def function(x: torch.Tensor) -> Any:
        both = torch.std_mean(x, 0, correction=-1), torch.var_mean(x, correction=-1)
        return *both, x.var(correction=-1), x.var(0, correction=-2), x.std(0, correction=-1), x.var(1, correction=-1)

    x = torch.ones(0, 5, dtype=dtype)
    assert_same(compiled(function)(x), function(x))


@tile_only
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_rows_of_8_bit_floats_are_gathered_in_kernels(dtype: torch.dtype) -> None:
    """ATen has few kernels of these dtypes, but it moves them."""
    x, index = torch.randn(8, 6).to(dtype), torch.tensor([1, 3, 3])

    def gathered(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index].float() * 2 + x.index_select(0, index).float()

    torch_tile.counters.clear()
    assert torch.equal(torch.compile(gathered, backend="tile")(x, index), gathered(x, index))
    assert torch_tile.counters["externs"] == 0
