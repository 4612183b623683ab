"""Results of packages that are arguments which the model writes, or views of them, as of the exported program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import torch_tile
from tests.aot.models import export


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("buffer", torch.ones(4, 4))

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(self, *arguments)


def written(module: Applied, x: torch.Tensor) -> Any:
    x.add_(1)
    return x, x.view(-1), x.t()[1:]


def copied(module: Applied, x: torch.Tensor) -> Any:
    y = x + 1
    x.copy_(y)
    return y, y.view(-1), x


def part(module: Applied, x: torch.Tensor) -> Any:
    x[0].mul_(2)
    return x[0], x[1:], x.diagonal()


def lists_of_views(module: Applied, x: torch.Tensor) -> Any:
    x.mul_(2)
    return x.split(2, 1), x.unbind(0)


def viewed_before(module: Applied, x: torch.Tensor) -> Any:
    view = x.t()
    product = view @ x
    x.add_(1)
    return view, product, view * 2


def two(module: Applied, x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(y)
    y.copy_(x)
    return y, x, y[1], x.clone(), x + y


def into_buffer(module: Applied, x: torch.Tensor) -> Any:
    module.buffer.add_(x)
    return module.buffer, module.buffer.t(), x


def copied_into_buffer(module: Applied, x: torch.Tensor) -> Any:
    module.buffer.copy_(x)
    return module.buffer, x, x[1]


def into_result(module: Applied, x: torch.Tensor) -> Any:
    return torch.add(x, 1, out=x), x.reshape(-1), x.contiguous()


FUNCTIONS = (written, copied, part, lists_of_views, viewed_before, two, into_buffer, copied_into_buffer, into_result)


def seen(call: Callable[..., Any], arguments: list[torch.Tensor]) -> tuple[list[Any], list[torch.Tensor]]:
    """Which arguments and results share memory, which results are arguments; and all of them."""
    results = pytree.tree_leaves(call(*arguments))
    every = [*arguments, *results]
    storages = [value.untyped_storage().data_ptr() for value in every]
    shared = [storages.index(storage) for storage in storages]
    same = [next((k for k, given in enumerate(arguments) if result is given), None) for result in results]
    return [shared, same, [(x.stride(), x.storage_offset()) for x in results]], every


@torch.no_grad()
@pytest.mark.parametrize("function", FUNCTIONS)
def test_aliases_of_the_exported_program(function: Callable[..., Any], tmp_path: Path) -> None:
    count = function.__code__.co_argcount - 1
    for strided in (False, True):
        shape = torch.randn(4, 4)
        given = [shape.t() if strided else shape for _ in range(count)]
        try:
            exported = export(Applied(function), tuple(x.clone() for x in given))
        except Exception:
            assert strided, "a view of these strides"
            continue
        loaded = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
        expected = seen(exported.module(), [x.clone() for x in given])
        found = seen(loaded, [x.clone() for x in given])
        assert found[0] == expected[0]
        torch.testing.assert_close(found[1], expected[1])


@torch.no_grad()
def test_a_decomposed_program_says_nothing_of_views(tmp_path: Path) -> None:
    """Its signature says which results are the new values of arguments."""
    exported = export(Applied(written), (torch.randn(4, 4),)).run_decompositions()
    loaded = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    x = torch.randn(4, 4)
    results = loaded(x)
    assert results[0] is x
    torch.testing.assert_close(results, (x, x.view(-1), x.t()[1:]))


class NamedAlike(torch.nn.Module):
    """Its buffers have the names of its arguments."""

    def __init__(self, count: str) -> None:
        super().__init__()
        self.count_name = count
        self.register_buffer("k", torch.zeros(1, 8, 4))
        self.register_buffer(count, torch.ones(2), persistent=False)

    def forward(self, x: torch.Tensor, k: torch.Tensor) -> Any:
        cache, count = self.get_buffer("k"), self.get_buffer(self.count_name)
        cache.index_copy_(1, k, x)
        count.add_(1)
        x.mul_(2)
        return cache.sum(1) * count[0], cache[0], x[0], count


# torch cannot decompose a program that writes an argument and a buffer of one name.
@pytest.mark.parametrize(("count", "is_decomposed"), [("x", False), ("count", True)])
def test_buffers_with_names_of_arguments(tmp_path: Path, count: str, is_decomposed: bool) -> None:
    model, file = NamedAlike(count), tmp_path / "model.tile"
    exported = torch.export.export(model, (torch.randn(1, 2, 4), torch.tensor([0, 1])))
    torch_tile.aot.package(exported.run_decompositions() if is_decomposed else exported, file)
    package = torch_tile.aot.load(file)
    for places in ([0, 1], [3, 4], [3, 5]):
        x = torch.randn(1, 2, 4)
        y, k = x.clone(), torch.tensor(places)
        torch.testing.assert_close(package(y, k), model(x, k), rtol=1e-6, atol=1e-6)
        assert torch.equal(x, y)
        assert k.tolist() == places


def test_writes_are_told_to_autograd(tmp_path: Path) -> None:
    """A gradient that needs the value before refuses to be computed, as in eager mode."""
    model = Applied(written)
    exported = torch.export.export(model, (torch.randn(4, 4),))
    package = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "model.tile"))
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    before = x._version
    product = (x * w).sum()
    with torch.no_grad():
        package(x)
    assert x._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_inference_tensors_that_are_written(tmp_path: Path) -> None:
    model = Applied(written)
    exported = torch.export.export(model, (torch.randn(4, 4),))
    package = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "model.tile"))
    with torch.inference_mode():
        x = torch.randn(4, 4)
        y = x.clone()
        package(x)
    with pytest.raises(RuntimeError, match=r"argument `\w+` is an inference tensor, which the model writes"):
        package(x)
    assert torch.equal(x, y + 1)


class TwoBuffers(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def moved_on(module: Any, x: torch.Tensor) -> Any:
    module.a.copy_(module.b)
    module.b.add_(x)
    return module.a


def from_argument(module: Any, x: torch.Tensor) -> Any:
    module.a.copy_(x)
    x.add_(1)
    return module.a


def swapped(module: Any, x: torch.Tensor) -> Any:
    before = module.a.clone()
    module.a.copy_(module.b)
    module.b.copy_(before)
    return module.a, module.b, x


def turned(module: Any, x: torch.Tensor) -> Any:
    before = module.a.clone()
    module.a.copy_(module.b)
    module.b.copy_(before + x)
    x.copy_(x.flip(0))
    return module.a, module.b, module.a + module.b


def passed_on(module: Any, x: torch.Tensor) -> Any:
    module.a.copy_(module.b)
    module.b.copy_(x)
    x.copy_(module.a)
    return module.a, module.b, x


@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.parametrize("function", [moved_on, from_argument, swapped, turned, passed_on])
def test_values_before_they_are_written(function: Callable[..., Any], is_decomposed: bool, tmp_path: Path) -> None:
    """A decomposed program gives the value that an input had, and writes it."""
    model = TwoBuffers(function)
    with torch.no_grad():
        exported = torch.export.export(TwoBuffers(function), (torch.randn(3),))
        exported = exported.run_decompositions() if is_decomposed else exported
    package = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "model.tile"))
    for _ in range(3):
        x = torch.randn(3)
        y = x.clone()
        found, expected = package(x), model(y)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        torch.testing.assert_close(x, y, rtol=0, atol=0)
        for name, value in package.constants().items():
            assert torch.equal(value, model.get_buffer(name))
