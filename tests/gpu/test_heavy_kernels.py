"""Arithmetic of kernels for a GPU, compiled without one: registers of heavy bodies, division by numbers."""

from __future__ import annotations

import re

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.gpu.simulated_graphs import compile_for_gpu, schedules
from torch_tile import _C


def _heavy(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    """All of the values are live at once: each result needs the sum of what was computed before."""
    parts = [torch.erf(x) * torch.exp(x) for x in xs]
    total = sum(parts[1:], parts[0])
    return [torch.exp(part - total) for part in parts]


@pytest.mark.parametrize(("count", "holds_two_pieces"), [(1, True), (4, False)])
def test_threads_hold_no_more_than_their_registers(count: int, holds_two_pieces: bool) -> None:
    files = compile_for_gpu(_heavy, [torch.rand(1 << 20) for _ in range(count)])
    (schedule,) = [each for each in schedules(files) if "1048576" in each]
    assert ("blocks per processor 4" in schedule) == holds_two_pieces
    assert ("lanes 2048" in schedule) == holds_two_pieces


@pytest.mark.parametrize("mode", [None, "trunc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int64])
def test_division_by_a_number_multiplies(dtype: torch.dtype, mode: str | None) -> None:
    """As eager mode on CUDA: by the reciprocal, rounded to float32 but for float64."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(8, dtype=dtype, device="cuda")
        graph = make_fx(lambda x: torch.div(x, 3, rounding_mode=mode), tracing_mode="fake")(x)
        text = _C.print_graph(graph).text
    if mode is not None and not dtype.is_floating_point:
        assert "graph.div_trunc" in text
        return
    assert "graph.mul" in text and "graph.div" not in text and ("graph.trunc" in text) == (mode is not None)
    values = [float(value) for value in re.findall(r"graph\.full \{value = ([\d.e+-]+) : f64\}", text)]
    one = torch.tensor(1.0, dtype=torch.float64 if dtype is torch.float64 else torch.float32)
    assert float(one / 3) in values


@pytest.mark.parametrize("mode", [None, "trunc"])
def test_division_by_a_size_multiplies(mode: str | None) -> None:
    """The same values, whether the size is known when the graph is compiled or not."""
    size = torch.empty(8)
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True) as fakes:
        x = torch.empty(fakes.from_tensor(size, static_shapes=False).shape, device="cuda")
        graph = make_fx(lambda x: torch.div(x, x.shape[0], rounding_mode=mode), tracing_mode="symbolic")(x)
        text = _C.print_graph(graph).text
    assert "graph.reciprocal" in text and "graph.mul" in text and "graph.div" not in text


@pytest.mark.parametrize("shape_of_divisor, dtype", [((), torch.float32), ((8,), torch.float32), ((8,), torch.float64)])
def test_other_quotients_are_divided(shape_of_divisor: tuple[int, ...] | None, dtype: torch.dtype) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(8, dtype=dtype, device="cuda")
        divisor = 3 if shape_of_divisor is None else torch.empty(shape_of_divisor, dtype=dtype, device="cuda")
        graph = make_fx(lambda x: x / divisor, tracing_mode="fake")(x)
        text = _C.print_graph(graph).text
    assert "graph.div" in text
