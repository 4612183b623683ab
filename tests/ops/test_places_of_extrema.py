"""Where the first extremum lies: ties, infinities and NaN in every place, over rows, columns and axes between."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.compiling import compiled, fresh
from tests.gpu import simulator
from tests.gpu.simulated_graphs import SimulatedGraph, compile_for_gpu

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8]
SHAPES = [
    ((5, 1000), 1),
    ((1000, 5), 0),
    ((70, 33), 0),
    ((3, 40, 17), 1),
    ((3, 131), 1),
    ((20000,), 0),
    ((2, 3, 70), 2),
]


def numbers(dtype: torch.dtype, shape: tuple[int, ...], kind: str) -> torch.Tensor:
    """Few different numbers, or one."""
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        choices = [info.min, info.min, info.min + 1, info.max - 1, info.max]
    else:
        choices = [-torch.inf, -torch.inf, -1.0, 0.0, 1.0, torch.inf, torch.nan]
    chosen = {"all": choices, "finite": choices[2:4], "lowest": choices[:1], "highest": [choices[4]]}[kind]
    return torch.tensor(chosen, dtype=dtype)[torch.randint(0, len(chosen), shape)]


def places(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, ...]:
    return (x.argmax(dim), x.argmin(dim))


def pairs(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, ...]:
    return (*x.max(dim), *x.min(dim))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_as_in_eager_mode(shape: tuple[int, ...], dim: int, dtype: torch.dtype, dynamic: bool) -> None:
    torch.manual_seed(0)
    fresh()
    for function in (places, pairs):
        call = compiled(lambda x, f=function: f(x, dim), dynamic=dynamic)
        for kind in ("all", "finite", "lowest", "highest"):
            for _ in range(3):
                x = numbers(dtype, shape, kind)
                torch.testing.assert_close(call(x), function(x, dim), equal_nan=True, atol=0, rtol=0)


@pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize(("shape", "dim"), [((3, 4999), 1), ((300, 70), 0), ((3, 131), 1), ((2, 130, 9), 1)])
def test_simulated(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    graph = SimulatedGraph(compile_for_gpu(lambda x: x.argmax(dim), numbers(dtype, shape, "all")))
    for kind in ("all", "finite", "lowest", "highest"):
        x = numbers(dtype, shape, kind)
        assert torch.equal(graph.run(x)[0], x.argmax(dim))
