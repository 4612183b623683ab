"""Globals and the like that a kernel reads: a kernel that was compiled with an old value is compiled again."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler
from torch_tile.language.outer_values import values_read_by

pytestmark = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")

SCALE = 2.0
TABLE = [1.0, 2.0]
DTYPE = tl.float32
CONSTANT = tl.constexpr(3)
settings = types.ModuleType("settings")
settings.scale = 2.0  # type: ignore[attr-defined]


class Settings:
    scale = 2.0


def factor() -> float:
    return 2.0


@torch_tile.jit
def helper(x):
    return x * SCALE


def changed(kernel: Any, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, value: Any) -> list[float]:
    """What the kernel stores before and after a change, and after it is taken back."""
    results = []
    with monkeypatch.context() as patch:
        for step in range(3):
            if step == 1:
                patch.setattr(owner, name, value)
            elif step == 2:
                patch.undo()
            for _ in range(2):
                x = torch.zeros(1)
                kernel[(1,)](x)
            results.append(x.item())
    return results


HERE = __import__("sys").modules[__name__]


def test_a_global(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, 10 * SCALE)

    with caplog.at_level(logging.INFO, "torch_tile"):
        assert changed(kernel, monkeypatch, HERE, "SCALE", 5.0) == [20, 50, 20]
    assert caplog.text.count("kernel kernel is compiled again: SCALE changed") == 2


def test_a_global_of_a_function_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, helper(10.0))

    assert changed(kernel, monkeypatch, HERE, "SCALE", 5.0) == [20, 50, 20]


def test_a_function_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, 10 * factor())

    assert changed(kernel, monkeypatch, HERE, "factor", lambda: 5.0) == [20, 50, 20]


@pytest.mark.parametrize("owner", [settings, Settings])
def test_an_attribute(monkeypatch: pytest.MonkeyPatch, owner: Any) -> None:
    @torch_tile.jit
    def of_module(x_ptr):
        tl.store(x_ptr, 10 * settings.scale)

    @torch_tile.jit
    def of_class(x_ptr):
        tl.store(x_ptr, 10 * Settings.scale)

    kernel = of_module if owner is settings else of_class
    assert changed(kernel, monkeypatch, owner, "scale", 5.0) == [20, 50, 20]


def test_types_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, tl.full((), 7.5, DTYPE).to(tl.float32) * CONSTANT)

    assert changed(kernel, monkeypatch, HERE, "DTYPE", tl.int32) == [22.5, 21, 22.5]
    assert changed(kernel, monkeypatch, HERE, "CONSTANT", tl.constexpr(5)) == [22.5, 37.5, 22.5]


def test_a_list_that_is_changed_in_place() -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, TABLE[1])

    x = torch.zeros(1)
    kernel[(1,)](x)
    TABLE[1] = 6.0
    try:
        kernel[(1,)](x)
    finally:
        TABLE[1] = 2.0
    assert x.item() == 6


def test_a_variable_of_the_enclosing_function() -> None:
    scale = 2.0

    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, 10 * scale)

    x = torch.zeros(1)
    kernel[(1,)](x)
    scale = 5.0
    kernel[(1,)](x)
    assert x.item() == 50


def test_a_function_that_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch_tile.jit
    def apply(x_ptr, FUNCTION: tl.constexpr):
        tl.store(x_ptr, FUNCTION(10.0))

    def function(x: Any) -> Any:
        return x * SCALE

    x = torch.zeros(1)
    apply[(1,)](x, function)
    monkeypatch.setattr(HERE, "SCALE", 5.0)
    apply[(1,)](x, function)
    assert x.item() == 50


class Fresh:
    """An attribute that is a new object whenever it is read."""

    @property
    def value(self) -> Any:
        return types.SimpleNamespace(a=[object()])


FRESH = Fresh()


def test_nothing_is_compiled_again_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_tile.language import compile as module

    compiled: list[str] = []
    original: Callable[..., Any] = module.compile_bound
    monkeypatch.setattr(
        module, "compile_bound", lambda kernel, *args: compiled.append(kernel.fn.__name__) or original(kernel, *args)
    )

    @torch_tile.jit
    def kernel(x_ptr, B: tl.constexpr):
        tl.static_assert(FRESH.value is not None)
        tl.store(x_ptr, helper(10.0) * TABLE[0] * CONSTANT)

    for _ in range(3):
        kernel[(1,)](torch.zeros(1), 1)
        kernel[(1,)](torch.zeros(1), 2)
        monkeypatch.setattr(HERE, "SCALE", float("2.0"))  # equal, and another object
    assert len(compiled) == 2


def test_names_that_are_not_looked_at() -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, tl.exp(torch.pi))

    assert values_read_by([kernel]) == []


def test_inside_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, helper(10.0) * settings.scale * TABLE[0])

    @torch.compile(backend="tile", fullgraph=True)
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        kernel[(1,)](y)
        return y + x

    x = torch.zeros(1)
    assert function(x).item() == 40
    monkeypatch.setattr(HERE, "SCALE", 5.0)
    assert function(x).item() == 100
    monkeypatch.setattr(settings, "scale", 3.0)
    assert function(x).item() == 150
    monkeypatch.setattr(HERE, "helper", torch_tile.jit(_other_helper))
    assert function(x).item() == 330
    TABLE[0] = 2.0
    try:
        assert function(x).item() == 660
    finally:
        TABLE[0] = 1.0
    assert function(x).item() == 330


def _other_helper(x):
    return x * 11.0
