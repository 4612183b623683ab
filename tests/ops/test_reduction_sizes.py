"""Reductions of awkward lengths: around the widths of vectors and tasks, and long enough to be split."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.compiling import assert_same, compiled
from tests.ops.accuracy import error, is_close_enough

SIZES = [1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 127, 1000, 4097, 100003]
SHAPES = {
    "rows": lambda n: ((3, n), 1),
    "columns": lambda n: ((n, 5), 0),
    "middle": lambda n: ((2, n, 3), 1),
    "everything": lambda n: ((n,), 0),
}


def statistics(x: torch.Tensor, dim: int) -> Any:
    """One of each kind of combiner; `var` of one element is NaN."""
    return (
        x.sum(dim), x.mean(dim), x.amax(dim), x.amin(dim), x.argmax(dim), x.argmin(dim),
        x.var(dim), x.std(dim, correction=0), (x > 2).any(dim), (x < 2).all(dim),
        torch.softmax(x, dim), torch.logsumexp(x, dim), (x * x).sum(dim, keepdim=True) - x,
    )  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom.*:UserWarning")
def test_length(shape: str, size: int) -> None:
    """Errors are measured against float64: eager's own grow with the length too. Those of a sum or mean, whose terms
    cancel, are told in ulp of the same of the terms' magnitudes."""
    sizes, dim = SHAPES[shape](size)
    x = torch.randn(sizes)
    result = compiled(statistics)(x, dim)
    expected, exact = statistics(x, dim), statistics(x.double(), dim)
    magnitudes = x.double().abs().sum(dim), x.double().abs().mean(dim)
    for a, b, c, scale in itertools.zip_longest(result, expected, exact, magnitudes):
        assert a.dtype == b.dtype and a.shape == b.shape
        if not a.is_floating_point():
            assert_same(a, b)
            continue
        assert torch.equal(a.isnan(), b.isnan())
        ours, eagers = error(a, c, scale), error(b, c, scale)
        slack = 3 if scale is None else 2
        assert is_close_enough(ours, eagers, slack), f"{ours} ulp, eager {eagers}: {a} is not {c}"


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.bool], ids=str
)
def test_long_reductions_by_dtype(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> Any:
        return x.sum(), x.sum(0), x.sum(1), x.amax(), x.amin(0), x.any(), x.all(1)

    for shape in ((3, 100003), (65537, 3)):
        x = (torch.randint(-1, 2, shape)).to(dtype)
        torch.compiler.reset()
        assert_same(compiled(f)(x), f(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2), (0, 2, 3), (1, 3)], ids=str)
def test_several_axes(dims: tuple[int, ...]) -> None:
    def f(x: torch.Tensor) -> Any:
        return x.sum(dims), x.amax(dims, keepdim=True), torch.var_mean(x, dims)

    for shape in ((5, 17, 3, 9), (2, 1, 65, 4)):
        torch.compiler.reset()
        x = torch.randn(shape)
        for given in (x, x.transpose(0, 3).contiguous().transpose(0, 3), x.to(memory_format=torch.channels_last)):
            assert_same(compiled(f)(given), f(given), rtol=1e-5, atol=1e-4, check_stride=False)


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom.*:UserWarning")
def test_reductions_of_empty_tensors(size: int) -> None:
    def f(x: torch.Tensor) -> Any:
        return x.sum(1), x.sum(), x.mean(1), x.prod(1), x.any(1), x.all(), x.var(1), x.amax(0) if x.shape[0] else x

    for shape in ((size, 0), (0, size)):
        torch.compiler.reset()
        x = torch.randn(shape)
        assert_same(compiled(f)(x), f(x))


def test_one_program_for_many_lengths() -> None:
    function = compiled(lambda x: (x.sum(-1), x.amax(0), torch.softmax(x, -1), x.sum()), dynamic=True)
    for rows, columns in ((3, 5), (17, 65), (1000, 33), (2, 4097), (33, 1000)):
        x = torch.randn(rows, columns)
        expected = (x.sum(-1), x.amax(0), torch.softmax(x, -1), x.sum())
        assert_same(function(x), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_integers_that_a_later_stage_reads_again(dtype: torch.dtype, dim: int) -> None:
    def function(x: torch.Tensor) -> Any:
        y = torch.cat([x.flip(-1), x], dim)
        return y, y.float().softmax(dim), y.float().var(dim), (x // 3).double().softmax(dim)

    x = torch.randint(0, 250, (7, 5, 18)).to(dtype)
    assert_same(compiled(function)(x), function(x))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "reduce", [lambda y: y.sum(), lambda y: y.argmax(), lambda y: y.argmin(0), lambda y: y.amax((0, 1)), torch.max]
)
def test_long_reductions_of_what_lies_apart(reduce: Any, dynamic: bool) -> None:
    """Flattened permuted tensors, and rows in blocks; the first of equal values is found."""
    x = torch.randint(-40, 40, (511, 257), dtype=torch.int32)

    def flat(x: torch.Tensor) -> Any:
        return reduce(x.t().flatten().unsqueeze(1))

    def blocks(x: torch.Tensor) -> Any:
        return reduce(x.unflatten(0, (73, 7)))

    for function in (flat, blocks):
        assert torch.equal(compiled(function, dynamic=dynamic)(x), function(x))
