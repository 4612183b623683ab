"""Remainders of floats by kernels for a GPU, run on the CPU: exact, also of quotients that floats cannot hold."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of every magnitude, whole multiples and their neighbours, and pairs of special values."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    info = torch.iinfo(bits)
    x, y = (torch.randint(info.min, info.max, (4096,), dtype=bits).view(dtype) for _ in range(2))
    multiples = torch.randint(1, 1000, (1024,)).to(dtype) * y[:1024]
    near = [multiples, torch.nextafter(multiples, multiples * 2), torch.nextafter(multiples, multiples * 0)]
    special = torch.tensor([0.0, -0.0, 1.0, -3.0, 6.0, float("inf"), -float("inf"), float("nan")], dtype=dtype)
    limits = torch.tensor([torch.finfo(dtype).max, torch.finfo(dtype).tiny, torch.finfo(dtype).smallest_normal / 2])
    special = torch.cat([special, limits.to(dtype)])
    pairs = torch.cartesian_prod(special, special)
    return torch.cat([x, *near, pairs[:, 0]]), torch.cat([y, *[y[:1024]] * 3, pairs[:, 1]])


def exact(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As `torch.fmod`, whose vector code is wrong for quotients of more bits than floats have."""

    def one(a: float, b: float) -> float:
        return math.nan if math.isinf(a) or b == 0 else math.fmod(a, b)

    return torch.tensor([one(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], dtype=x.dtype)


def assert_same_bits(result: torch.Tensor, expected: torch.Tensor) -> None:
    is_nan = expected.isnan()
    assert torch.equal(result.isnan(), is_nan)
    assert torch.equal(result[~is_nan], expected[~is_nan])
    assert torch.equal(result[~is_nan].signbit(), expected[~is_nan].signbit())


@pytest.mark.parametrize("dtype", FLOATS)
def test_of_two_tensors(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    arguments = operands(dtype)
    graph = SimulatedGraph(compile_for_gpu(torch.fmod, *arguments))
    assert_same_bits(graph.run(*arguments)[0], exact(*arguments))


@pytest.mark.parametrize("number", [6.0, -0.25, 1e-3, 3e4])
@pytest.mark.parametrize("dtype", FLOATS)
def test_by_a_number(dtype: torch.dtype, number: float) -> None:
    torch.manual_seed(0)
    x, _ = operands(dtype)
    # The number gets the dtype; halves are then computed in float32.
    wide = torch.promote_types(dtype, torch.float32)
    divisor = torch.full(x.shape, number, dtype=dtype).to(wide)
    rest = exact(x.to(wide), divisor)
    positive = torch.where((rest != 0) & ((rest < 0) != (number < 0)), rest + divisor, rest)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.fmod(x, number), torch.remainder(x, number)

    results = SimulatedGraph(compile_for_gpu(function, x)).run(x)
    for result, expected in zip(results, (rest, positive), strict=True):
        assert_same_bits(result, expected.to(dtype))


def test_of_halves_needs_no_loop() -> None:
    files = compile_for_gpu(lambda x: torch.remainder(x + 1, 6), torch.zeros(4096, dtype=torch.float16))
    assert ".f64" not in files["60-kernel.ptx"]
