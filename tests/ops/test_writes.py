"""Writes at positions that tensors name: bits, threads, errors, what is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled, fresh, tile_only

aten = torch.ops.aten
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def rows(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return x.index_put((i,), v, accumulate=True)


def columns(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(1, i[None].expand(v.shape[0], -1), v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embedding_backward_has_eagers_bits(dtype: torch.dtype) -> None:
    """Rows are added in the order of the tokens, rounded after each."""

    def gradient(grad: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return aten.embedding_dense_backward(grad, i, 50, 7, False)

    grad, i = torch.randn(600, 200).to(dtype), torch.randint(50, (600,))
    assert_same(compiled(gradient)(grad, i), gradient(grad, i), exact=True)


@tile_only
@pytest.mark.parametrize("function", [rows, columns], ids=["rows", "columns"])
def test_bits_do_not_depend_on_threads(function: Function) -> None:
    count = 400
    if function is rows:
        arguments = (torch.randn(31, 513), torch.randint(31, (count,)), torch.randn(count, 513))
    else:
        arguments = (torch.randn(257, 31), torch.randint(31, (count,)), torch.randn(257, count))
    results = []
    run = compiled(function)
    for threads in (1, 2, 7):
        torch.set_num_threads(threads)
        results.append(run(*arguments))
    assert_same(results[1], results[0], exact=True)
    assert_same(results[2], results[0], exact=True)
    # The order of the indices, each sum rounded once.
    expected = arguments[0].clone()
    torch.set_num_threads(1)
    for k, at in enumerate(arguments[1].tolist()):
        if function is rows:
            expected[at] += arguments[2][k]
        else:
            expected[:, at] += arguments[2][:, k]
    assert_same(results[0], expected, exact=True)


WRITES: dict[str, Function] = {
    "index_put": lambda x, i, v: x.index_put((i,), v),
    "index_put_accumulate": rows,
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "index_copy": lambda x, i, v: x.index_copy(0, i, v),
    "index_fill": lambda x, i, v: x.index_fill(0, i, 1.0),
    "scatter": lambda x, i, v: x.scatter(0, i[:, None].expand(-1, 5), v),
    "scatter_add_columns": lambda x, i, v: x.t().scatter_add(1, i[None].expand(5, -1), v.t()),
    "scatter_reduce": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(-1, 5), v, "amax", include_self=False),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("bad", [9, -10, 1 << 40])
def test_index_out_of_range(name: str, bad: int) -> None:
    x, i, v = torch.randn(9, 5), torch.randint(9, (40,)), torch.randn(40, 5)
    function = compiled(WRITES[name])
    function(x, i, v)
    before = x.clone()
    i[23] = bad
    with pytest.raises((IndexError, RuntimeError)):
        function(x, i, v)
    assert_same(x, before, exact=True)
    i[23] = 0
    function(x, i, v)


def test_negative_index() -> None:
    """Indexing counts from the end; scatter and index_add do not."""
    x, i, v = torch.zeros(9, 5), torch.tensor([-1, -9, 0]), torch.randn(3, 5)
    for name in ("index_put", "index_put_accumulate", "index_fill"):
        assert_same(compiled(WRITES[name])(x, i, v), WRITES[name](x, i, v))
    for name in ("scatter", "scatter_reduce"):
        with pytest.raises((IndexError, RuntimeError)):
            compiled(WRITES[name])(x, i, v)


def test_embedding_backward_leaves_padding_out() -> None:
    """Also: the first of two equal rows is not counted twice where the last tile overlaps."""

    def loss(weight: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (F.embedding(i, weight, padding_idx=2) * torch.arange(1.0, 71.0)).sum()

    i = torch.tensor([2, 0, 2, 2, 5, 0])
    weight = torch.randn(6, 70, requires_grad=True)
    compiled(loss)(weight, i).backward()
    expected = torch.zeros(6, 70)
    expected[0], expected[5] = 2 * torch.arange(1.0, 71.0), torch.arange(1.0, 71.0)
    assert_same(weight.grad, expected)


def test_cache_is_updated_in_place() -> None:
    """A buffer that outlives the call, as the keys and values of attention: later positions see earlier ones."""

    def step(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(1, at, new)
        cache[:, at + 1] += 1
        return (cache * 2).sum(1)

    fresh()
    caches = [torch.randn(3, 16, 8) for _ in range(2)]
    caches[1].copy_(caches[0])
    run = compiled(step)
    for k in range(4):
        at, new = torch.tensor([2 * k, 2 * k + 1]), torch.randn(3, 2, 8)
        assert_same(run(caches[1], at, new), step(caches[0], at, new))
        assert_same(caches[1], caches[0])


def test_written_tensor_is_read_elsewhere() -> None:
    """The operand keeps its elements; so does a view of it."""

    def function(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> Any:
        y = x.index_put((i,), v, accumulate=True)
        return y, x + 1, x.t().sum(0), y.index_put((i,), v)

    x, i, v = torch.randn(9, 5), torch.randint(9, (40,)), torch.randn(40, 5)
    i = i[:1].expand(3)
    result, expected = compiled(function)(x, i, v[:1].expand(3, 5)), function(x, i, v[:1].expand(3, 5))
    assert_same(result, expected)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 4096, 4099])
def test_long_scans(length: int) -> None:
    """Errors do not grow with the length: f32 accumulates in f64."""
    x = torch.rand(3, length)
    for function in (lambda x: x.cumsum(1), lambda x: x.t().cumsum(0), lambda x: (x / 8 + 0.95).cumprod(1)):
        assert_same(compiled(function)(x), function(x), rtol=3e-7, atol=0)


def test_scans_of_special_values() -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[1.0, nan, 2.0, inf, -inf], [-inf, -inf, 3.0, 3.0, nan], [-0.0, 0.0, -0.0, inf, inf]])

    def function(x: torch.Tensor) -> Any:
        return x.cummax(1), x.cummin(1), x.logcumsumexp(1), x.cumsum(1), x.cummax(0), x.cummin(0), x.logcumsumexp(0)

    assert_same(compiled(function)(x), function(x))


FOLDS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "scatter_add": lambda x, rows, flat: x.new_zeros(3, 64).scatter_add(0, rows, x),
    "scatter_add along rows": lambda x, rows, flat: x.new_zeros(200, 3).scatter_add(1, rows, x),
    "scatter_add of one dimension": lambda x, rows, flat: x.new_ones(3).scatter_add_(0, rows.flatten(), x.flatten()),
    "scatter_reduce sum": lambda x, rows, flat: x.new_ones(3, 64).scatter_reduce(0, rows, x, "sum"),
    "scatter_reduce mean": lambda x, rows, flat: x.new_ones(3, 64).scatter_reduce(0, rows, x, "mean"),
    "scatter_reduce mean of others": lambda x, rows, flat: x.new_ones(3, 64).scatter_reduce(
        0, rows, x, "mean", include_self=False
    ),
    "scatter_reduce prod": lambda x, rows, flat: x.new_ones(3, 64).scatter_reduce(0, rows, x * 0.1 + 0.95, "prod"),
    "scatter with add": lambda x, rows, flat: x.new_zeros(3, 64).scatter(0, rows, x, reduce="add"),
    "index_add": lambda x, rows, flat: x.new_zeros(3, 64).index_add(0, flat, x),
    "index_add with a factor": lambda x, rows, flat: x.new_zeros(3, 64).index_add(0, flat, x, alpha=0.5),
    "index_reduce mean": lambda x, rows, flat: x.new_ones(3, 64).index_reduce(0, flat, x, "mean"),
    "index_reduce prod": lambda x, rows, flat: x.new_ones(3, 64).index_reduce(0, flat, x * 0.1 + 0.95, "prod"),
    "gradient of gather": lambda x, rows, flat: torch.ops.aten.gather_backward(x, x.new_zeros(3, 64), 0, rows, False),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FOLDS)
def test_long_folds_of_low_precision(name: str, dtype: torch.dtype) -> None:
    """Hundreds of elements meet in one: the error is no worse than twice eager's, and one rounding."""
    x = torch.rand(200, 64).to(dtype)
    rows, flat = torch.arange(200 * 64).reshape(200, 64) * 7 % 3, torch.arange(200) * 7 % 3
    f = FOLDS[name]
    exact, expected = f(x.double(), rows, flat), f(x, rows, flat)
    result = compiled(f)(x, rows, flat)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    allowed = 2 * (expected.double() - exact).abs().max() + torch.finfo(dtype).eps * exact.abs().max()
    assert (result.double() - exact).abs().max() <= allowed
