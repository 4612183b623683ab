"""Float powers by kernels for a GPU, run on the CPU: in float32 alone, to little more than one ulp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
COUNT = 1 << 15


def _moderate() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.exp(torch.randn(COUNT) * 3), torch.randn(COUNT) * 4


def _near_one() -> tuple[torch.Tensor, torch.Tensor]:
    return 1 + torch.randn(COUNT) * 1e-3, torch.randn(COUNT) * 20000


def _any_positive() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(1, 0x7F800000, (COUNT,), dtype=torch.int32).view(torch.float32), torch.randn(COUNT)


def _large() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.exp(torch.randn(COUNT) * 3)
    return x, (torch.rand(COUNT) * 260 - 130) / torch.log2(x)


@pytest.mark.parametrize("make", [_moderate, _near_one, _any_positive, _large])
def test_error(make: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> None:
    torch.manual_seed(0)
    x, y = make()
    (result,) = SimulatedGraph(compile_for_gpu(torch.pow, x, y)).run(x, y)
    exact = x.double() ** y.double()
    rounded = exact.float()
    is_normal = rounded.isfinite() & (rounded.abs() >= torch.finfo(torch.float32).tiny)
    unit = torch.nextafter(rounded.abs(), torch.tensor(torch.inf)) - rounded.abs()
    error = ((result.double() - exact).abs() / unit.double())[is_normal]
    assert error.max() < 1.25 and error.mean() < 0.3
    assert torch.equal(result.isinf(), rounded.isinf())
    assert ((result - rounded)[~is_normal & rounded.isfinite()].abs() < 3e-45).all()  # subnormal


def test_special_values() -> None:
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, -1.5, torch.inf, -torch.inf, torch.nan]
    special += [1e-40, -1e-40, 3e38, -3e38, 2.0**24 + 2, 2.0**24 - 1, -(2.0**24) + 1, 1e30, -1e30]
    pairs = torch.cartesian_prod(torch.tensor(special), torch.tensor(special))
    x, y = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    (result,) = SimulatedGraph(compile_for_gpu(torch.pow, x, y)).run(x, y)
    expected = (x.double() ** y.double()).float()
    torch.testing.assert_close(result, expected, rtol=3e-7, atol=3e-45, equal_nan=True)
    is_number = ~expected.isnan()
    assert torch.equal(result.signbit()[is_number], expected.signbit()[is_number])


@pytest.mark.parametrize("power", [2.4, -1.7, 1 / 3])
def test_by_a_number(power: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(COUNT) * 5
    files = compile_for_gpu(lambda x: x**power, x)
    (result,) = SimulatedGraph(files).run(x)
    torch.testing.assert_close(result, (x.double() ** torch.tensor(power)).float(), rtol=2e-7, atol=0, equal_nan=True)
    assert ".f64" not in files["60-kernel.ptx"]
