"""Operators that torch leaves to kernels of their own and that become arithmetic, scans and ordered writes here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh
from torch_tile.formulas.airy import airy_ai
from torch_tile.formulas.polynomials import polynomials
from torch_tile.frontend.decompositions import decomposition_table

aten = torch.ops.aten
TABLE = decomposition_table()


def check_generated(function: Callable[..., Any], *arguments: Any, dynamic: bool = False, checks: int = 0) -> None:
    """All of it in kernels but `checks` assertions about values, which ATen makes."""
    if IS_TILE:
        fresh()
    result = compiled(function, dynamic=dynamic)(*arguments)
    assert_same(result, function(*arguments))
    if IS_TILE:
        assert count("externs") == checks and count("fallbacks") == 0


# numbers and their parts

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, 3.0, -4.0]
FLOATS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def any_bits(dtype: torch.dtype, count: int = 4000) -> torch.Tensor:
    """Numbers of all magnitudes, and the ends of the format."""
    limits, info = torch.iinfo(FLOATS[dtype]), torch.finfo(dtype)
    bits = torch.randint(limits.min, limits.max, (count,), dtype=FLOATS[dtype])
    smallest = torch.tensor([1, 2, 3], dtype=FLOATS[dtype]).view(dtype)
    ends = torch.tensor([info.max, info.min, info.tiny, -info.tiny, *EDGES], dtype=dtype)
    powers = torch.tensor([2.0**k for k in range(-14, 15)], dtype=dtype)
    return torch.cat([bits.view(dtype), smallest, -smallest, ends, powers, -powers])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mantissa_and_exponent(dtype: torch.dtype) -> None:
    x = any_bits(dtype)
    fresh()
    mantissa, exponent = compiled(lambda x: torch.frexp(x * 2))(x)
    assert_same(mantissa, torch.frexp(x * 2).mantissa, exact=True)
    assert_same(exponent, torch.frexp(x * 2).exponent, exact=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_neighbours(dtype: torch.dtype) -> None:
    x = any_bits(dtype)
    fresh()
    function = compiled(lambda x, towards: torch.nextafter(-x, towards))
    for towards in [x.flip(0), -x, x.clone(), torch.zeros_like(x), torch.full_like(x, math.inf)]:
        result, expected = function(x, towards), torch.nextafter(-x, towards)
        assert_same(result, expected, exact=True)
        assert torch.equal(torch.signbit(result[~result.isnan()]), torch.signbit(expected[~expected.isnan()]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64], ids=str)
def test_fma(dtype: torch.dtype) -> None:
    from torch._inductor.inductor_prims import fma

    x, y, z = (torch.randint(-99, 99, (5, 333)).to(dtype) for _ in range(3))
    if dtype.is_floating_point:
        x, y, z = x / 7, y / 11, z / 13
    if IS_TILE:
        fresh()
    results = [compiled(fma)(x, y, z), compiled(fma)(x, y[:, :1], z[0]), compiled(lambda x, z: fma(x, 0.5, z))(x, z)]
    expected = [x.double() * y.double() + z.double(), x.double() * y[:, :1].double() + z[0].double(), x * 0.5 + z]
    for result, exact in zip(results, expected, strict=True):
        assert_same(result, exact.to(result.dtype))
    if IS_TILE:
        assert count("externs") == 0 and count("fallbacks") == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_fma_rounds_once(dtype: torch.dtype) -> None:
    from torch._inductor.inductor_prims import fma

    step = torch.finfo(dtype).eps
    x = torch.full((40,), 1 + step, dtype=dtype)
    # The product is 1 + 2 step + step**2, of which a rounding in between would lose the last part.
    result = compiled(fma)(x, x, -1 - 2 * torch.full_like(x, step))
    assert torch.equal(result, torch.full_like(x, step * step)) or not IS_TILE


# functions


@pytest.mark.parametrize("op", [op for op in polynomials() if op._overloadname == "default"], ids=str)
def test_polynomials(op: Any) -> None:
    x = torch.cat([torch.linspace(-3, 3, 601, dtype=torch.float64), torch.tensor([0.0, 1.0, -1.0, 2.0])])
    for n in range(-2, 12):
        degree = torch.full_like(x, n)
        expected = op(x, degree)
        torch.testing.assert_close(TABLE[op](x, degree), expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        degree += 0.75 if n >= 0 else 0.0  # the fraction is cut off
        torch.testing.assert_close(TABLE[op](x, degree), expected, rtol=1e-9, atol=1e-9, equal_nan=True)
    nothing = torch.tensor([math.nan], dtype=torch.float64)
    assert [TABLE[op](nothing, n).item() for n in (-1, 0)] == [0.0, 1.0]
    assert all(TABLE[op](nothing, n).isnan() for n in (1, 2, 9))
    small = torch.tensor([-2, -1, 0, 1, 2, 3])
    of_number = getattr(torch.ops.aten, op._schema.name.split("::")[1]).n_scalar
    assert_same(TABLE[of_number](small, 4), op(small, torch.tensor(4)))


def test_degrees_that_are_data() -> None:
    x, n = torch.randn(50), torch.arange(50) % 9
    check_generated(torch.special.chebyshev_polynomial_t, x, n)
    check_generated(lambda x: torch.special.shifted_chebyshev_polynomial_w(x, 5), x)


@pytest.mark.parametrize(
    "name", ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
)
def test_recurrent_polynomials(name: str) -> None:
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    op = getattr(torch.special, name)
    for n in (-1, 0, 1, 2, 7, 3.5):
        check_generated(lambda x, n=n: op(x, n), x)
    check_generated(lambda x: op(x, 4), torch.arange(-3, 4))


def test_airy() -> None:
    x = torch.cat([torch.linspace(-40, 30, 7001, dtype=torch.float64), torch.tensor(EDGES, dtype=torch.float64)])
    torch.testing.assert_close(airy_ai(x), torch.special.airy_ai(x), rtol=1e-9, atol=5e-6, equal_nan=True)
    is_exact = (x > -2.0) | (x < -5.0) | x.isnan()  # ATen's series is cut short between
    torch.testing.assert_close(
        airy_ai(x)[is_exact], torch.special.airy_ai(x)[is_exact], rtol=1e-9, atol=1e-12, equal_nan=True
    )
    check_generated(torch.special.airy_ai, x.float())


# products with vectors


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_products_with_vectors(dtype: torch.dtype) -> None:
    matrix, vector, x = (torch.randint(-4, 5, shape).to(dtype) for shape in ((7, 33), (33,), (7,)))
    check_generated(torch.mv, matrix, vector)
    check_generated(torch.mv, matrix.t(), x)
    check_generated(torch.dot, vector, vector.flip(0))
    check_generated(torch.vdot, vector, vector)
    check_generated(lambda x, m, v: torch.addmv(x, m, v, beta=2, alpha=3), x, matrix, vector)
    check_generated(lambda x, m, v: torch.addmv(x, m, v, beta=0), x, matrix, vector)
    check_generated(lambda m, v: (m @ v).relu() + 1, matrix, vector, dynamic=True)
    if dtype is torch.float32:
        check_generated(lambda x, m, v: torch.addmv(x, m, v, beta=0), torch.full_like(x, math.nan), matrix, vector)


def test_small_bilinear_layers() -> None:
    a, b, weight, bias = torch.randn(4, 3), torch.randn(4, 5), torch.randn(6, 3, 5), torch.randn(6)
    check_generated(F.bilinear, a, b, weight, bias)
    check_generated(F.bilinear, a.bfloat16(), b.bfloat16(), weight.bfloat16())
    wide = torch.randn(64, 80), torch.randn(64, 90), torch.randn(20, 80, 90)
    torch.testing.assert_close(compiled(F.bilinear)(*wide), F.bilinear(*wide), rtol=1e-4, atol=1e-3)


def test_large_matrices_stored_by_columns_stay_calls() -> None:
    matrix, vector = torch.randn(300, 301).t(), torch.randn(300)
    if IS_TILE:
        fresh()
    torch.testing.assert_close(compiled(torch.mv)(matrix, vector), torch.mv(matrix, vector), rtol=1e-4, atol=1e-4)
    if IS_TILE:
        assert count("externs") == 1


def test_products_of_complex_vectors_stay_calls() -> None:
    a, b = torch.randn(5, dtype=torch.complex64), torch.randn(5, dtype=torch.complex64)
    assert_same(compiled(torch.vdot)(a, b), torch.vdot(a, b))
    with pytest.raises(RuntimeError, match=r"size|same"):
        compiled(torch.dot)(torch.randn(3), torch.randn(4))


# placing elements


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_unpooling(dimensions: int) -> None:
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dimensions - 1]
    unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[dimensions - 1]
    x = torch.randn(2, 3, *(6, 4, 8)[:dimensions])
    values, indices = pool(x, 2, return_indices=True)
    check_generated(lambda v, i: unpool(v, i, 2) * 2, values, indices)
    check_generated(lambda v, i: unpool(v, i, 2), values[0], indices[0])
    if dimensions == 2:
        values, indices = (t.contiguous(memory_format=torch.channels_last) for t in (values, indices))
        check_generated(lambda v, i: unpool(v, i, 2), values, indices)
    repeated = torch.zeros_like(indices)  # the last write stays
    check_generated(lambda v, i: unpool(v, i, 2), values, repeated)
    with pytest.raises((RuntimeError, IndexError)):
        compiled(lambda v, i: unpool(v, i, 2))(values, indices + 10000)


def test_masked_scatter() -> None:
    x, source = torch.randn(5, 6), torch.randn(40)
    mask = torch.rand(5, 6) > 0.4
    check_generated(lambda x, m, s: x.masked_scatter(m, s) + 1, x, mask, source)
    check_generated(torch.masked_scatter, x.t(), mask.t(), source, dynamic=True)
    check_generated(torch.masked_scatter, x, mask[0], source.view(8, 5))
    check_generated(torch.masked_scatter, x[0], mask, source)
    check_generated(torch.masked_scatter, x, torch.zeros_like(mask), source[:1])
    with pytest.raises((RuntimeError, IndexError)):
        compiled(torch.masked_scatter)(x, torch.ones_like(mask), source[:10])


@pytest.mark.parametrize("accumulate", [False, True])
def test_put(accumulate: bool) -> None:
    x, source = torch.randn(5, 6), torch.randn(2, 4)
    index = torch.tensor([[3, -1, 3, 0], [29, -30, 7, 7]])
    check_generated(lambda x, i, s: x.put(i, s, accumulate) * 2, x, index, source)
    with pytest.raises((RuntimeError, IndexError)):
        compiled(lambda x, i, s: x.put(i, s, accumulate))(x, index + 30, source)


@pytest.mark.parametrize("accumulate", [False, True])
def test_masks_that_take_values(accumulate: bool) -> None:
    def put(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((mask,), values, accumulate) * 2

    x, mask = torch.randn(5, 6), torch.rand(5, 6) > 0.4
    mask[0, :2] = True
    count_true = int(mask.sum())
    check_generated(put, x, mask, torch.randn(count_true), checks=1)
    check_generated(put, x, mask[:, 0], torch.randn(int(mask[:, 0].sum()), 6), checks=1)
    check_generated(put, x, torch.tensor([0, 0, 1, 0, 0]) > 0, torch.randn(1, 6))
    check_generated(put, x, mask, torch.randn(1))
    for length in (count_true - 1, count_true + 1):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            compiled(put)(x, mask, torch.randn(length))


def test_gradient_of_embedding_scaled_by_frequency() -> None:
    weight, indices = torch.randn(10, 4, requires_grad=True), torch.tensor([[1, 2, 2], [9, 2, 0]])

    def gradient(weight: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        result = F.embedding(indices, weight, padding_idx=0, scale_grad_by_freq=True)
        return torch.autograd.grad((result * torch.arange(1, 5)).sum(), weight)[0]

    assert_same(compiled(gradient, fullgraph=False)(weight, indices), gradient(weight, indices))
    check_generated(
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 10, 0, True), torch.randn(2, 3, 4), indices
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_repeats_of_known_total(dtype: torch.dtype) -> None:
    repeats = torch.tensor([2, 0, 3, 1], dtype=dtype)
    check_generated(lambda r: torch.repeat_interleave(r, output_size=6), repeats, checks=2)
    function = lambda x, r: torch.repeat_interleave(x, r, 0, output_size=6) + 1  # noqa: E731
    check_generated(function, torch.randn(4, 3), repeats, checks=2)


@pytest.mark.parametrize("size", [0, 3, 8, 50])
def test_positions_of_what_is_not_zero(size: int) -> None:
    for x in (torch.tensor([[0, 1, 2], [3, 0, 0], [0, 0, 5]]), torch.tensor([False, True]), torch.tensor(2.0)):
        check_generated(lambda x: torch.nonzero_static(x, size=size, fill_value=-7), x)
    assert torch.equal(
        compiled(lambda x: torch.nonzero_static(x, size=size))(torch.zeros(0, 3)), torch.full((size, 2), -1)
    )


# windows as columns and back

FOLDS = [
    ((9, 11), 3, {"padding": 1}),
    ((8, 12), (2, 4), {"stride": (2, 4)}),
    ((10, 9), (3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    ((12, 10), 3, {"dilation": (2, 1), "padding": (0, 2)}),
    ((7, 7), 5, {"stride": 2, "padding": 3}),
]


@pytest.mark.parametrize(("sizes", "kernel", "options"), FOLDS, ids=str)
def test_fold(sizes: Any, kernel: Any, options: dict[str, Any]) -> None:
    x = torch.randn(2, 3, *sizes)
    check_generated(lambda x: F.unfold(x, kernel, **options), x)
    check_generated(lambda x: F.unfold(x * 2, kernel, **options), x.to(memory_format=torch.channels_last))
    check_generated(lambda x: F.unfold(x, kernel, **options), x[0])
    columns = F.unfold(x, kernel, **options)
    check_generated(lambda c: F.fold(c, sizes, kernel, **options), columns)
    check_generated(lambda c: F.fold(c, sizes, kernel, **options), columns[0])


@pytest.mark.parametrize("sizes", [(2, 1, 1, 9), (2, 1, 3, 9), (2, 3, 1, 9)], ids=str)
def test_strides_of_unfold(sizes: tuple[int, ...]) -> None:
    """Of one channel and one row, windows are a view of the image."""
    x, kernel = torch.randn(sizes), (min(sizes[2], 3), 3)
    columns = F.unfold(x, kernel)
    for at in (x, x.to(memory_format=torch.channels_last), x.mT.contiguous().mT):
        assert compiled(lambda x: F.unfold(x, kernel))(at).stride() == columns.stride()


@pytest.mark.parametrize("stride", [1, 2])
def test_strides_of_fold(stride: int) -> None:
    columns = torch.randn(2, 12, 8 if stride == 1 else 4)
    sizes = (5, 3) if stride == 1 else (4, 4)
    for at in (columns, columns.mT.contiguous().mT):
        result = compiled(lambda c: F.fold(c, sizes, 2, stride=stride))(at)
        assert result.stride() == F.fold(at, sizes, 2, stride=stride).stride()


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("sizes", [(2, 4, 6, 8), (2, 4, 3, 6, 8)], ids=str)
def test_strides_of_channel_shuffle(sizes: tuple[int, ...], groups: int) -> None:
    x = torch.randn(sizes)
    last = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    for at in (x, x.to(memory_format=last), x.mT.contiguous().mT):
        expected = F.channel_shuffle(at, groups)
        result = compiled(lambda x: F.channel_shuffle(x, groups))(at)
        assert torch.equal(result, expected) and result.stride() == expected.stride()


def test_expm1_of_doubles() -> None:
    """To within two units in the last place, at the ends of the format too."""
    spread = torch.tensor([10.0**k for k in range(-320, 3)], dtype=torch.float64)
    ends = torch.tensor(
        [0.0, math.inf, 709.782712893384, 709.7827128933841, 710.0, math.nan, 0.34657, 0.3466, 37.0, 745.0]
    )
    x = torch.cat(
        [torch.linspace(-3, 3, 4001, dtype=torch.float64), spread, ends.double(), torch.linspace(0, 720, 999).double()]
    )
    x = torch.cat([x, -x])
    x = torch.cat([x, x[: -len(x) % 64]])
    result, expected = compiled(torch.expm1)(x), torch.from_numpy(np.expm1(x.numpy()))
    assert_same(result, expected, rtol=2 * torch.finfo(torch.float64).eps, atol=0)
    assert torch.equal(torch.signbit(result), torch.signbit(expected))


@pytest.mark.parametrize(
    "function",
    [torch.special.i1, torch.special.i1e, torch.special.bessel_j1, torch.nn.functional.celu],
    ids=lambda function: function.__name__,
)
def test_sign_of_zero(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.tensor([-0.0, 0.0, -1.0])
    assert torch.equal(compiled(lambda t: function(t))(x).signbit(), function(x).signbit())


def test_search_in_an_order() -> None:
    rows, values = torch.randn(4, 9), torch.randn(4, 5)
    order = rows.argsort(-1)

    def search(rows: torch.Tensor, values: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(rows, values * 2, sorter=order)

    f = compiled(search)
    assert_same(f(rows, values, order), search(rows, values, order))
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        f(rows, values, torch.full_like(order, 11))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 15, 31, 100])
def test_search_among_numbers_that_end_with_nan(length: int) -> None:
    """ATen answers by the elements that it looks at; so it does for what is not sorted."""
    boundaries = torch.arange(float(length))
    values = torch.cat([torch.linspace(-1, length + 1, 40), torch.tensor([math.nan, math.inf, -math.inf])])
    for sequence in (boundaries, torch.cat([boundaries, torch.full((2,), math.nan)]), torch.randn(length)):
        for right in (False, True):
            fresh()
            f = compiled(lambda s, v, right=right: torch.searchsorted(s, v, right=right))
            assert_same(f(sequence, values), torch.searchsorted(sequence, values, right=right))
            g = compiled(lambda s, v, right=right: torch.bucketize(v, s, right=right))
            assert_same(g(sequence, values), torch.bucketize(values, sequence, right=right))
