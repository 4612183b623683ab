"""Scans for a GPU, run on the CPU (tests/gpu/simulator.py): along threads, down columns, in three kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu, schedules

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
f32, f64, bf16, i64, i32 = torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, shape, dtype=dtype)


def check(
    function: Callable[..., Any], *arguments: torch.Tensor, dynamic: bool = False, kernels: int = 1, steps: float = 20
) -> str:
    """Results as near to float64's as rounding is, or equal. Returns the schedules."""
    files = compile_for_gpu(function, *arguments, dynamic=dynamic)
    results = SimulatedGraph(files).run(*arguments)
    wide = [a.double() if a.is_floating_point() else a for a in arguments]
    expected = function(*wide)
    for result, exact in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        if not result.is_floating_point():
            assert torch.equal(result, exact)
            continue
        limit = (
            (4 if result.dtype is bf16 else steps) * torch.finfo(result.dtype).eps * exact.abs().max()
            if exact.numel()
            else 0
        )
        assert exact.numel() == 0 or (result.double() - exact).abs().max() <= limit
    found = schedules(files)
    assert len(found) == kernels, found
    return " ".join(found)


# Shorter than a warp, side by side; one warp; several; several tiles; odd lengths.
ROWS = [(9, 1), (300, 3), (70, 16), (33, 31)]
ROWS += [(50, 33), (9, 128), (3, 129), (5, 1000), (3, 1001), (2, 5000)]


@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("dtype", [f32, bf16, i64], ids=str)
def test_rows(shape: tuple[int, int], dtype: torch.dtype) -> None:
    text = check(lambda x: (x * 2).cumsum(1) + 1, values(shape, dtype))
    assert "vector axis r0" in text or shape[1] < 16


@pytest.mark.parametrize("dtype", [f32, bf16, i64], ids=str)
def test_few_rows_of_several_tiles(dtype: torch.dtype) -> None:
    # What follows would run with the few programs of the scan, so it has a kernel of its own.
    assert "vector axis r0" in check(lambda x: (x * 2).cumsum(1) + 1, values((2, 30_001), dtype), kernels=2)


@pytest.mark.parametrize("shape", [(5, 1), (7, 5), (100, 40), (33, 300), (130, 7), (2, 70, 9), (3, 9, 257)], ids=str)
@pytest.mark.parametrize("dtype", [f32, bf16, i64], ids=str)
def test_columns(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check(lambda x: (x * 2).cumsum(-2) + 1, values(shape, dtype))


LONG = [((1 << 17,), 0), ((100_003,), 0), ((2, 70_000), 1), ((3001, 5), 0), ((2, 3001, 7), 1)]


@pytest.mark.parametrize("shape, dim", LONG, ids=str)
@pytest.mark.parametrize("dtype", [f32, bf16, i32], ids=str)
def test_three_kernels(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    # What follows has a kernel of its own where programs are few, or the last piece is not whole.
    check(lambda x: (x * 2).cumsum(dim) + 1, values(shape, dtype), kernels=4)


@pytest.mark.parametrize("dtype", [f32, bf16, i32], ids=str)
def test_equal_pieces_of_columns(dtype: torch.dtype) -> None:
    # 30 pieces of 100 rows: what follows joins the scan.
    check(lambda x: (x * 2).cumsum(0) + 1, values((3000, 5), dtype), kernels=3)


@pytest.mark.parametrize("shape, dim", [((3, 1000), 1), ((40, 33), 0), ((70_000,), 0)], ids=str)
def test_other_folds(shape: tuple[int, ...], dim: int) -> None:
    kernels = 3 if len(shape) == 1 else 1
    x = values(shape, f32)
    # Every factor rounds, so the error grows with their number: as a random walk.
    steps = 4 * shape[dim] ** 0.5
    check(lambda x: x.cumprod(dim), 1 + 0.001 * x, kernels=kernels, steps=steps)
    check(lambda x: x.logcumsumexp(dim), 5 * x, kernels=kernels)
    coarse = (3 * x).round()
    coarse.view(-1)[5] = float("nan")
    for other in (coarse, coarse.nan_to_num().to(i64), coarse.bfloat16()):
        for name in ("cummax", "cummin"):

            def function(x: torch.Tensor, name: str = name) -> tuple[torch.Tensor, ...]:
                return tuple(getattr(x, name)(dim))

            files = compile_for_gpu(function, other)
            assert len(schedules(files)) == 1  # the last of equal values counts, so pieces are not folded apart
            for result, expected in zip(SimulatedGraph(files).run(other), function(other), strict=True):
                assert torch.equal(result.nan_to_num(), expected.nan_to_num())


def test_infinities() -> None:
    """Of no elements yet: log of 0."""
    x = torch.full((2, 300), -float("inf"))
    x[1, 40:] = torch.randn(260)
    x[0, 200] = float("inf")
    files = compile_for_gpu(lambda x: x.logcumsumexp(1), x)
    (result,) = SimulatedGraph(files).run(x)
    torch.testing.assert_close(result, x.double().logcumsumexp(1).float(), rtol=1e-5, atol=1e-5)


def test_producers_and_consumers_share_the_kernel() -> None:
    x, y = values((5, 300), f32), values((300,), f32)
    check(lambda x, y: (x.relu() * y).cumsum(1) * y - x, x, y)
    check(lambda x, y: ((s := x.sin().cumsum(0)), s * y), x, y)
    check(lambda x, y: (x + y).cumsum(1).view(5, 30, 10) * 2, x, y)
    # A choice by a mask, and an index.
    check(lambda x: x[:, torch.arange(299, -1, -1)].cumsum(1), x)


def test_strides() -> None:
    x = values((60, 70), f32)
    for view in (x.t(), x[:, 3:40], x[::2, ::3], x[:, :1].expand(60, 70)):
        for dim in (0, 1):
            check(lambda x, dim=dim: x.cumsum(dim) * 3, view)


@pytest.mark.parametrize("dim", [0, 1])
def test_dynamic_sizes(dim: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).cumsum(dim) + 1

    graph = SimulatedGraph(compile_for_gpu(function, values((40, 50), i64), dynamic=True))
    for shape in ((40, 50), (2, 3), (7, 1), (300, 5), (3, 700), (3, 0)):
        x = values(shape, i64)
        (result,) = graph.run(x)
        assert torch.equal(result, function(x))


def test_dynamic_three_kernels() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).cumsum(0)

    files = compile_for_gpu(function, values((1 << 17,), i64), dynamic=True)
    assert len(schedules(files)) == 3
    graph = SimulatedGraph(files)
    for length in (1 << 17, 5, 4097, 90_001):
        x = values((length,), i64)
        (result,) = graph.run(x)
        assert torch.equal(result, function(x))


def test_empty() -> None:
    check(lambda x: x.cumsum(1) + 1, torch.empty(3, 0))
    check(lambda x: x.cumsum(0) + 1, torch.empty(3, 0))


# Shapes and the axis that is scanned: around a warp, several tiles, few long rows, columns.
RANDOM_SHAPES = [((3, 1), 1), ((2, 31), 1), ((31, 32), 0), ((33, 32), 1), ((1000,), 0), ((2, 4097), 1), ((4097, 3), 0)]
RANDOM_SHAPES += [((100_003,), 0), ((5, 33, 4), 1), ((1, 9000), 1), ((70, 1, 40), 2), ((2, 3, 513), 2)]
PRODUCERS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x,
    lambda x: x * 2 - 1 if x.dtype is not torch.bool else ~x,
    lambda x: torch.where(x > 0, x, 0 * x),
    lambda x: x.flip(-1),
    lambda x: x != 0,
]
CONSUMERS: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda s, x: s,
    lambda s, x: s + x,
    lambda s, x: (s > 2).to(torch.int32) + 1,
    lambda s, x: s.transpose(0, -1) * 2,
    lambda s, x: s[..., ::2] * 3,
]


def view(shape: tuple[int, ...], dtype: torch.dtype, kind: int) -> torch.Tensor:
    """Dense, transposed, or part of a larger tensor."""
    values = torch.randint(-3, 4, (*shape[:-1], 2 * shape[-1] + 1)).to(dtype)
    if kind == 0:
        return values[..., : shape[-1]].contiguous()
    if kind == 1:
        return values[..., : shape[-1]].transpose(0, -1).contiguous().transpose(0, -1)
    return values[..., 1 : 2 * shape[-1] : 2]


@pytest.mark.parametrize("seed", range(24))
def test_random_scans(seed: int) -> None:
    """Small integers in all types: every order of additions gives the same result."""
    random = Random(seed)
    torch.manual_seed(seed)
    shape, dim = RANDOM_SHAPES[seed % len(RANDOM_SHAPES)]
    # Sums of bfloat16 and float16 are exact while they are short.
    narrow = [bf16, torch.float16] if shape[dim] < 60 else []
    dtype = random.choice([f32, f64, i64, i32, torch.int8, torch.uint8, torch.bool, *narrow])
    kind = random.randrange(3)
    x = view(shape, dtype, kind)
    producer, consumer = random.choice(PRODUCERS), random.choice(CONSUMERS)
    fold = random.choice([torch.cumsum, torch.cumsum, lambda v, d: torch.cummax(v, d)[0]])

    def function(x: torch.Tensor) -> torch.Tensor:
        return consumer(fold(producer(x), dim), x)

    files = compile_for_gpu(function, x, dynamic=kind == 0 and random.random() < 0.5)
    (result,) = SimulatedGraph(files).run(x)
    expected = function(x)
    assert result.dtype == expected.dtype and torch.equal(result, expected)
