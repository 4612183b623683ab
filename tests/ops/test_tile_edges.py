"""Where tiles end: tails that are moved back over what is done already, short rows side by side, masks of tiles."""

from __future__ import annotations

import itertools
import platform
from typing import Any

import pytest
import torch

from tests.compiling import IS_TILE, assert_same, compiled

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8]


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) > 0.7
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 100, shape).to(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(1, 65), (3, 1001), (17, 100), (40, 67), (1, 4097)], ids=str)
def test_tails(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Pointwise, turned, and both reduced."""

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + y, x.t().contiguous(), x.t() + y.t().contiguous(), x[:, 1:] + x[:, :-1]

    x, y = numbers(shape, dtype), numbers(shape, dtype)
    assert_same(compiled(f)(x, y), f(x, y))


@pytest.mark.parametrize(
    ("dtype", "dynamic"),
    [*((dtype, False) for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.uint8)), (torch.float32, True)],
)
@pytest.mark.parametrize(
    "shape", [(300, 5, 7), (70, 3, 13), (40, 4, 20), (33, 8, 8), (2, 100, 70), (60, 50, 2)], ids=str
)
def test_short_axes_are_turned(shape: tuple[int, ...], dtype: torch.dtype, dynamic: bool) -> None:
    """Axes shorter than a tile, in every order, with an operand that keeps its own."""
    orders = list(itertools.permutations(range(3)))

    def f(x: torch.Tensor, ys: list[torch.Tensor]) -> Any:
        turned = [x.permute(order) for order in orders]
        return [t.contiguous() for t in turned], [torch.where(y, t, 1) for t, y in zip(turned, ys, strict=True)]

    x = numbers(shape, dtype)
    ys = [torch.rand([shape[k] for k in order]) > 0.5 for order in orders]
    assert_same(compiled(f, dynamic=dynamic)(x, ys), f(x, ys), exact=True)


@pytest.mark.parametrize("shape", [(65,), (1001,), (33, 67), (67, 33)], ids=str)
def test_tails_in_place(shape: tuple[int, ...]) -> None:
    """What a kernel overwrites is read once."""

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        y.copy_(x.t() + y)
        x.mul_(2).add_(1)
        return x * 3

    x, y = torch.randn(shape), torch.randn(shape[::-1])
    pairs = [(x.clone(), y.clone()) for _ in range(2)]
    assert_same(compiled(f)(*pairs[0]), f(*pairs[1]))
    assert_same(pairs[0], pairs[1])


@pytest.mark.parametrize("batch, rows", [(1, 5), (2, 13), (3, 65), (1, 16), (1, 1003)])
def test_turned_and_reduced(batch: int, rows: int) -> None:
    """A token before the image's, as vision transformers have it."""

    def f(x: torch.Tensor, token: torch.Tensor, position: torch.Tensor) -> Any:
        joined = torch.cat([token.expand(batch, 1, 40), x.flatten(2).transpose(1, 2)], 1) + position
        return torch.nn.functional.layer_norm(joined, (40,))

    x, token, position = torch.randn(batch, 40, rows), torch.randn(1, 1, 40), torch.randn(rows + 1, 40)
    assert_same(compiled(f)(x, token, position), f(x, token, position), rtol=1e-4, atol=1e-5)


def of_rows(x: torch.Tensor) -> Any:
    results = [x.sum(-1), x.amax(-1), x.amin(-1), x.argmax(-1), x.argmin(-1), (x > 1).any(-1), (x > 1).all(-1)]
    if x.is_floating_point():
        results += [x.mean(-1), torch.softmax(x, -1), torch.nn.functional.layer_norm(x, x.shape[-1:]), x.logsumexp(-1)]
        results += [torch.nn.functional.normalize(x, dim=-1), x - x.mean(-1, keepdim=True) * x[..., :1]]
    return results


@pytest.mark.parametrize("length", [2, 3, 5, 7, 8, 10, 15, 16, 17, 23, 31, 32, 33])
@pytest.mark.parametrize("rows", [1, 4, 17, 1001])
def test_short_rows(rows: int, length: int) -> None:
    x = torch.randn(rows, length)
    assert_same(compiled(of_rows)(x), of_rows(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", [6, 10, 20])
def test_short_rows_by_dtype(length: int, dtype: torch.dtype) -> None:
    x = numbers((3, 37, length), dtype)
    tolerance = 1e-4 if dtype in (torch.float32, torch.float64) else 2e-2
    assert_same(compiled(of_rows)(x), of_rows(x), rtol=tolerance, atol=tolerance)


def test_short_rows_of_views() -> None:
    x = torch.randn(40, 3, 24)
    for view in (x[:, 1, 3:13], x[:, :, ::2], x.transpose(0, 1)[..., :9], x[::3, :, 1:12]):
        torch.compiler.reset()
        assert_same(compiled(of_rows)(view), of_rows(view), rtol=1e-4, atol=1e-5)


def test_short_rows_of_nan_and_infinity() -> None:
    x = torch.randn(50, 11)
    x[3, 4], x[5, 0], x[7, 10], x[9] = float("nan"), float("inf"), -float("inf"), float("nan")
    x[11, 2:4] = float("nan")

    def f(x: torch.Tensor) -> Any:
        return x.sum(-1), x.amax(-1), x.amin(-1), x.argmax(-1), x.argmin(-1), x.max(-1), x.isnan().any(-1)

    assert_same(compiled(f)(x), f(x))


def test_short_rows_with_bias_and_index() -> None:
    def f(x: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor) -> Any:
        total = (x * scale + bias[:, None]).sum(-1)
        return total, total * bias, (total[:, None] - x).amax(-1), torch.arange(x.shape[0]) + total

    x, bias, scale = torch.randn(101, 10), torch.randn(101), torch.randn(10)
    assert_same(compiled(f)(x, bias, scale), f(x, bias, scale), rtol=1e-4, atol=1e-5)


def test_short_rows_of_dynamic_number() -> None:
    g = torch.compile(of_rows, backend="tile", dynamic=True)
    for rows in (5, 16, 33, 200):
        x = torch.randn(rows, 10)
        torch._dynamo.mark_static(x, 1)
        assert_same(g(x), of_rows(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.bool], ids=str)
def test_masks_of_turned_tiles(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        lower = torch.tril(x.t())
        return lower, torch.triu(x.t(), 3) | y if dtype == torch.bool else torch.triu(x.t(), 3) + y

    x, y = numbers((51, 70), dtype), numbers((70, 51), dtype)
    assert_same(compiled(f)(x, y), f(x, y))


def test_comparisons_beyond_the_first_size() -> None:
    """An axis may grow past what was compared with when the graph was compiled."""

    def f(x: torch.Tensor) -> torch.Tensor:
        i = torch.arange(x.shape[0])
        return torch.where(i < 70, x * 2, x) + torch.where(i < 200, x.exp(), x.sin())

    g = torch.compile(f, backend="tile", dynamic=True)
    for size in (130, 150, 300, 5):
        x = torch.randn(size)
        assert_same(g(x), f(x), rtol=1e-5, atol=1e-6)


def test_indices_that_wrap() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        i = torch.arange(x.shape[0])
        largest = 2**63 - 1
        return torch.where(i + largest < largest - 5, x, -x) + torch.where(i + (largest - 70) < 0, x * 3, x)

    x = torch.randn(200)
    assert_same(compiled(f)(x), f(x))


def test_long_chains_of_indices() -> None:
    """Each step has the last one twice: what looks into them must not take time that doubles."""

    def f(x: torch.Tensor) -> torch.Tensor:
        i = torch.arange(x.shape[0])
        for k in range(40):
            i = torch.minimum(i + 1, i * 2 - i // 3 + k)
        j = torch.arange(x.shape[0])
        for _ in range(30):
            j = j + j
        return torch.where(i < 50, x, -x) + torch.where(j < 1000, x, x * 2)

    x = torch.randn(300)
    assert_same(compiled(f)(x), f(x))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("size, kernel", [((28, 28), 7), ((20, 30), 5), ((12, 18), (4, 6)), ((28, 27), 7)], ids=str)
def test_windows_side_by_side(size: tuple[int, int], kernel: Any, channels_last: bool) -> None:
    """Long windows that share nothing are reductions of short rows; the index is of the same element."""

    def f(x: torch.Tensor) -> Any:
        pooled = torch.nn.functional.max_pool2d(x, kernel, return_indices=True)
        return torch.nn.functional.max_pool2d(x, kernel), *pooled, torch.nn.functional.avg_pool2d(x, kernel)

    x = torch.randn(2, 3, *size)
    x[0, 0, 3, 3], x[1, 1, 5, 6], x[1, 2] = float("nan"), -float("inf"), -float("inf")
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    assert_same(compiled(f)(x), f(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("length", [7, 33, 100])
def test_scans(length: int, dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> Any:
        return x.cumsum(-1), x.cumprod(-1), x.cummax(-1), x.cummin(-1), (x > 1).cumsum(-1)

    x = numbers((19, length), dtype)
    if dtype.is_floating_point:
        x[0, 0], x[2, 3], x[3, 5], x[4, 6] = -0.0, float("nan"), float("inf"), -float("inf")
    else:
        x = x % 3
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    assert_same(compiled(f)(x), f(x), rtol=tolerance, atol=tolerance)


def choices(a: torch.Tensor, b: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    chosen = torch.where(mask, a, b)
    return [chosen, chosen.t().contiguous(), chosen.mean(0), a.cummax(1)[0], a.masked_fill(mask, 0.5) + b, a.amax(1)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for another x86 processor than the host's")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(33, 67), (64, 64), (5, 6), (128, 7)], ids=str)
def test_processors_without_instructions_for_bf16(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b, mask = numbers(shape, dtype), numbers(shape, dtype), torch.rand(shape) > 0.5
    options = {"target": "haswell"} if IS_TILE else {}
    results = compiled(choices, **options)(a, b, mask), compiled(of_rows, **options)(a)
    assert_same(results, (choices(a, b, mask), of_rows(a)), rtol=2e-2, atol=2e-2)
