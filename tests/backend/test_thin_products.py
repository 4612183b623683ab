"""Products of one row with weights of few bits: a fused sum reads the weights alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import IS_TILE, compiled
from torch_tile.debug.record import recording

pytestmark = pytest.mark.skipif(not IS_TILE, reason="kernels of this backend")


def _int8(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight.to(x.dtype)) * scale


def _int8_with_bias(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, weight.to(x.dtype) * scale[:, None], scale))


def _int4(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    unpacked = torch.stack(((weight & 15) - 8, (weight >> 4)), -1).flatten(1)
    return F.linear(x, unpacked.to(x.dtype)[:, : x.shape[-1]]) * scale


def _check(function: Callable[..., Any], rows: int, dtype: torch.dtype) -> list[Any]:
    torch.manual_seed(0)
    x, scale = torch.randn(rows, 96).to(dtype), (torch.rand(40) * 0.1).to(dtype)
    weight = torch.randint(-100, 100, (40, 96), dtype=torch.int8)
    with recording() as graphs:
        found = compiled(function)(x, weight, scale)
    exact = function(x.double(), weight, scale.double())
    eager = function(x, weight, scale)
    bound = 2 * (eager.double() - exact).abs().max() + 4 * torch.finfo(dtype).eps * exact.abs().max()
    assert found.dtype == eager.dtype and (found.double() - exact).abs().max() <= bound
    return graphs


@pytest.mark.parametrize("function", [_int8, _int8_with_bias, _int4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_row_makes_no_call(function: Callable[..., Any], dtype: torch.dtype) -> None:
    graphs = _check(function, 1, dtype)
    assert not any("mm" in op for graph in graphs for _, op, _ in graph.externs)


def test_several_rows_are_the_librarys() -> None:
    graphs = _check(_int8, 3, torch.float32)
    assert any("mm" in op for graph in graphs for _, op, _ in graph.externs)


def test_a_wide_weight_is_the_librarys() -> None:
    x, weight = torch.randn(1, 96), torch.randn(40, 96)
    with recording() as graphs:
        found = compiled(F.linear)(x, weight)
    torch.testing.assert_close(found, F.linear(x, weight))
    assert any("mm" in op for graph in graphs for _, op, _ in graph.externs)


def test_a_weight_that_others_read_is_the_librarys() -> None:
    def function(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = weight.to(x.dtype)
        return F.linear(x, wide), wide

    x, weight = torch.randn(1, 96), torch.randint(-100, 100, (40, 96), dtype=torch.int8)
    with recording() as graphs:
        found = compiled(function)(x, weight)
    torch.testing.assert_close(found, function(x, weight))
    assert any("mm" in op for graph in graphs for _, op, _ in graph.externs)
