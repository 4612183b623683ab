"""Sorts of short rows: kernels where the order of equal elements is defined or not seen, calls otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
from tests.compiling import IS_TILE, assert_same, compiled, count, fresh, tile_only
from torch_tile.frontend.sorts import replace

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few elements are worth a kernel, too."""
    monkeypatch.setattr(replace, "_FEWEST", 0)


def rows(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Many equal elements, and those that are hard to order."""
    x = torch.randint(0 if dtype is torch.uint8 else -9, 10, sizes).to(dtype)
    flat = x.view(-1)
    if dtype.is_floating_point:
        flat[::5] *= 0.37
        for step, value in ((7, -0.0), (11, float("nan")), (13, float("inf")), (17, -float("inf"))):
            flat[::step] = value
    else:
        flat[::7], flat[::11] = torch.iinfo(dtype).max, torch.iinfo(dtype).min
    return x


def check(function: Callable[..., Any], *arguments: Any, externs: int = 0, **options: Any) -> Callable[..., Any]:
    fresh()
    call = compiled(function, cache=False, **options)
    assert_same(call(*arguments), function(*arguments))
    if IS_TILE:
        assert count("externs") == externs and count("fallbacks") == 0
    return call


@pytest.mark.parametrize("is_descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("length", [2, 100])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows(dtype: torch.dtype, length: int, is_descending: bool) -> None:
    x = rows(dtype, 9, length)
    check(lambda x: torch.sort(x, dim=-1, stable=True, descending=is_descending), x)


def test_one_of_both_results() -> None:
    x = rows(torch.float32, 5, 33)
    check(lambda x: x.sort(-1).values * 2, x)
    check(lambda x: x.argsort(dim=-1, stable=True) + 1, x)
    check(lambda x: x.gather(1, torch.argsort(x, dim=1, descending=True, stable=True))[:, :3], x)


def test_equal_elements_are_as_in_eager_mode() -> None:
    """Which of them is first is ATen's choice where no order is asked for."""
    x = rows(torch.float32, 5, 33)
    check(lambda x: x.sort(-1), x, externs=1)
    check(lambda x: x.topk(4), x, externs=1)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_dimensions_and_layouts(dynamic: bool) -> None:
    x = rows(torch.float32, 6, 16, 5)
    for dim in (0, 1, -1):
        check(lambda x, dim=dim: torch.sort(x, dim=dim, stable=True), x, externs=dynamic, dynamic=dynamic)
    check(lambda x: torch.sort(x[:, :, 0].t(), dim=-1, stable=True), x, externs=1)  # ATen lays it out as it comes
    check(lambda x: torch.sort(x[:, :, 0] + 1, dim=-1, stable=True), x, externs=dynamic, dynamic=dynamic)
    check(lambda x: torch.sort(x.view(-1)[:40], stable=True), x, externs=0)


def test_any_number_of_rows() -> None:
    """Rows may change, also to none; their length is known."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.sort(x * 2, dim=-1, stable=True)

    x = rows(torch.float32, 6, 12)
    torch._dynamo.mark_dynamic(x, 0)
    call = check(function, x)
    for count_of_rows in (1, 43, 200, 0):
        y = rows(torch.float32, 200, 12)[:count_of_rows].clone()
        assert_same(call(y), function(y))


def test_gradients() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        values, places = torch.sort(x, dim=-1, stable=True, descending=True)
        return (values * torch.arange(1.0, 13.0) + places).square().sum()

    operands = [torch.randn(7, 12)] * 2
    operands = [x.clone().requires_grad_() for x in operands]
    compiled(function)(operands[0]).backward()
    function(operands[1]).backward()
    torch.testing.assert_close(operands[0].grad, operands[1].grad)


@tile_only
def test_the_pass_can_be_left_out() -> None:
    x = rows(torch.float32, 5, 33)
    check(lambda x: torch.sort(x, dim=-1, stable=True), x, externs=1, disable_passes="sorts")


@tile_only
def test_packages(tmp_path: Path) -> None:
    class Ranked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.sort(x, dim=-1, stable=True)

    x = rows(torch.float32, 5, 33)
    path = torch_tile.aot.package(torch.export.export(Ranked(), (x,)), tmp_path / "m.tile")
    assert_same(tuple(torch_tile.aot.load(path)(x)), tuple(Ranked()(x)))
