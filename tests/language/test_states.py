"""State that a kernel reads by way of its constants, methods and arrays: whoever changes it gets another kernel."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler
from torch_tile.language.states import state_of

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")


class Settings:
    """Of the user's, changed in place."""

    def __init__(self) -> None:
        self.scale: Any = 1

    def get(self) -> Any:
        return self.scale

    def __call__(self, x: Any) -> Any:
        return x * self.scale

    def times(self, x: Any) -> Any:
        return x * self.scale


ARRAY = np.array([1.0])
TENSOR = torch.ones(1)
SETTINGS = Settings()
MAPPING = types.MappingProxyType(BEHIND := {"scale": 1.0})


@torch_tile.jit
def attribute(out, settings: tl.constexpr):
    tl.store(out, settings.scale * 1.0)


@torch_tile.jit
def first(out, settings: tl.constexpr):
    tl.store(out, settings.scale[0] * 1.0)


@torch_tile.jit
def inner(out, settings: tl.constexpr):
    tl.store(out, settings.scale.scale * 1.0)


@torch_tile.jit
def method(out, settings: tl.constexpr):
    tl.store(out, settings.get() * 1.0)


@torch_tile.jit
def function(out, f: tl.constexpr):
    tl.store(out, f(tl.load(out) + 1))


@torch_tile.jit
def array(out):
    tl.store(out, float(ARRAY[0]))


@torch_tile.jit
def number(out):
    tl.store(out, TENSOR.item())


@torch_tile.jit
def mapping(out):
    tl.store(out, MAPPING["scale"])


@torch_tile.jit
def global_method(out):
    tl.store(out, SETTINGS.get() * 1.0)


@torch_tile.jit
def global_object(out):
    tl.store(out, SETTINGS(tl.load(out) + 1))


def run(kernel: Any, *constants: Any) -> float:
    out = torch.zeros(1)
    kernel[(1,)](out, *constants)
    return out.item()


def check(run_it: Callable[[], float], change: Callable[[], Any], back: Callable[[], Any]) -> None:
    assert run_it() == 1.0
    change()
    assert run_it() == run_it() == 2.0
    back()
    assert run_it() == 1.0


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "before", "after"),
    [(attribute, 1, 2), (attribute, 1.0, 2.0), (method, 1, 2), (first, [1], [2]), (first, np.ones(1), np.full(1, 2.0))],
    ids=["attribute", "float", "method", "list", "array"],
)
def test_constants_that_change(kernel: Any, before: Any, after: Any) -> None:
    settings = Settings()
    settings.scale = before
    set_to = functools.partial(setattr, settings, "scale")
    check(lambda: run(kernel, settings), lambda: set_to(after), lambda: set_to(before))


@needs_compiler
def test_inside_of_constants() -> None:
    settings = Settings()
    settings.scale = Settings()
    set_to = functools.partial(setattr, settings.scale, "scale")
    check(lambda: run(inner, settings), lambda: set_to(2), lambda: set_to(1))
    values = [1]
    settings.scale = values
    check(lambda: run(first, settings), lambda: values.__setitem__(0, 2), lambda: values.__setitem__(0, 1))


@needs_compiler
@pytest.mark.parametrize("kind", ["method", "object", "partial", "defaults"])
def test_functions_with_state(kind: str) -> None:
    settings = Settings()

    def with_default(x: Any, scale: int = 1) -> Any:
        return x * scale

    def set_to(value: int) -> None:
        settings.scale = value
        with_default.__defaults__ = (value,)

    functions = {
        "method": settings.times,
        "object": settings,
        "partial": functools.partial(settings),
        "defaults": with_default,
    }
    check(lambda: run(function, functions[kind]), lambda: set_to(2), lambda: set_to(1))


@needs_compiler
def test_globals_that_change_in_place() -> None:
    check(lambda: run(array), lambda: ARRAY.fill(2), lambda: ARRAY.fill(1))
    check(lambda: run(number), lambda: TENSOR.fill_(2), lambda: TENSOR.fill_(1))
    check(lambda: run(mapping), lambda: BEHIND.update(scale=2.0), lambda: BEHIND.update(scale=1.0))
    set_to = functools.partial(setattr, SETTINGS, "scale")
    check(lambda: run(global_method), lambda: set_to(2), lambda: set_to(1))
    check(lambda: run(global_object), lambda: set_to(2), lambda: set_to(1))


@needs_compiler
def test_signs_of_zero_are_other_constants() -> None:
    @torch_tile.jit
    def inverse(out, value: tl.constexpr):
        tl.store(out, 1.0 / tl.full([], value, tl.float32))

    assert run(inverse, 0.0) == float("inf")
    assert run(inverse, -0.0) == float("-inf")


def test_states() -> None:
    assert state_of(1) != state_of(True) != state_of(1.0)
    assert state_of(0.0) != state_of(-0.0)
    assert state_of(float("nan")) == state_of(float("nan"))
    assert state_of([1, 2]) != state_of((1, 2))
    assert state_of({"a": [1]}) == state_of({"a": [1]}) != state_of({"a": [2]})
    assert state_of({1, 2}) == state_of({2, 1})
    assert state_of(np.zeros(2)) != state_of(np.zeros(2, np.float32))
    ring: list[Any] = [1]
    ring.append(ring)
    assert state_of(ring) == state_of(ring)
    shared: list[Any] = []
    for _ in range(100):  # 2^100 ways
        shared = [shared, shared]
    assert state_of(shared) == state_of(shared)
    x = torch.zeros(2)
    before = state_of(x)
    assert before == state_of(x) != state_of(torch.zeros(2))
    x.add_(1)
    assert before != state_of(x)
    for value in (tl.float32, torch.float32, test_states, Settings, Settings(), object(), None, "a", types, {}.items()):
        assert hash(state_of(value)) == hash(state_of(value))
        assert state_of(value) == state_of(value)


def scaled(x: Any, scale: int = 2, *, more: float = 1.0) -> Any:
    return x * scale * more


@torch_tile.jit
def with_defaults(x, BLOCK: tl.constexpr = 8):
    place = tl.arange(0, BLOCK)
    tl.store(x + place, scaled(tl.load(x + place)))


@needs_compiler
def test_defaults_in_graphs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with_defaults[(1,)](y)
        return y * 2

    program = torch.compile(function, backend="tile", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(program(torch.ones(8)), torch.full((8,), 8.0))
