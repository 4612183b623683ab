"""Structures of a packaged model's arguments and results are those of the exported module."""

from __future__ import annotations

import collections
import itertools
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils import _pytree as pytree

import torch_tile
from tests.compiling import run_python

Pair = collections.namedtuple("Pair", "a b")


class Scored(NamedTuple):
    value: torch.Tensor
    rest: Any


class Named(torch.nn.Module):
    def forward(self, x: torch.Tensor, pair: Any) -> Any:
        return {"y": x + 1, "top": x.topk(2), "pair": Scored(pair.a * 2, [pair.b, (x.max(0), None)])}


def packaged(module: torch.nn.Module, arguments: tuple[Any, ...], path: Path) -> Any:
    exported = torch.export.export(module, arguments)
    torch_tile.aot.package(exported, path)
    return torch_tile.aot.load(path)


@torch.no_grad()
def test_named_tuples(tmp_path: Path) -> None:
    module, x, pair = Named(), torch.randn(5), Pair(torch.ones(2), torch.zeros(3))
    loaded = packaged(module, (x, pair), tmp_path / "m.tile")
    for given in (pair, tuple(pair)):
        found, expected = loaded(x, given), module(x, pair)
        assert type(found) is dict and type(found["pair"]) is Scored
        assert type(found["top"]) is torch.return_types.topk
        assert pytree.tree_structure(found) == pytree.tree_structure(expected)
        for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
            assert a is b is None or torch.equal(a, b)
    with pytest.raises(TypeError, match=r"argument `pair`: expected \(\*, \*\), got \[\*, \*\]"):
        loaded(x, [pair.a, pair.b])
    with pytest.raises(TypeError, match=r"argument `pair`: expected .*, got \[\[\*, .{80,140} \.\.\.$"):
        loaded(x, [[x] * 99] * 99)
    with pytest.raises(TypeError, match=r"argument `pair`: expected .*, got Tensor"):
        loaded(x, x)
    with pytest.raises(TypeError, match="expected 2 arguments, got 3"):
        loaded(x, *pair)


class Keyed(torch.nn.Module):
    """All tensors have one shape: a wrong order gives a wrong result."""

    def forward(self, x: torch.Tensor, d: dict[str, Any], *, scale: dict[Any, Any]) -> torch.Tensor:
        inner = d["a"][0]
        return x + 10 * d["b"] + 100 * inner["one"] + 1000 * inner["two"] + scale[1, "k"] * scale["factor"]


def keyed(
    first: tuple[str, ...], second: tuple[str, ...], third: tuple[Any, ...]
) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Arguments of `Keyed` whose dicts have their keys in these orders."""
    inner = {"one": torch.tensor([3.0]), "two": torch.tensor([4.0])}
    outer = {"a": [{key: inner[key] for key in second}], "b": torch.tensor([2.0])}
    scale = {(1, "k"): torch.tensor([7.0]), "factor": 5}
    return {key: outer[key] for key in first}, {key: scale[key] for key in third}


@torch.no_grad()
def test_dicts_are_taken_by_key(tmp_path: Path) -> None:
    x, module = torch.tensor([1.0]), Keyed()
    first, second, third = ("a", "b"), ("one", "two"), ((1, "k"), "factor")
    d, scale = keyed(first, second, third)
    exported = torch.export.export(module, (x, d), {"scale": scale})
    torch_tile.aot.package(exported, tmp_path / "m.tile")
    loaded = torch_tile.aot.load(tmp_path / "m.tile")
    orders = [itertools.permutations(keys) for keys in (first, second, third)]
    for given in itertools.product(*orders):
        d, scale = keyed(*given)
        assert loaded(x, d, scale=scale).item() == module(x, d, scale=scale).item() == 4356.0
    for other, shown in (
        ({**d, "c": x}, r"\{.*'c': \*\}"),
        ({"a": d["a"]}, r"\{'a': \[\{.*\}\]\}"),
        ({**d, "a": [{"one": x, "other": x}]}, r"\{.*'other': \*.*\}"),
        ({**d, "b": [x]}, r"\{.*'b': \[\*\].*\}"),
    ):
        with pytest.raises(TypeError, match=r"argument `d`: expected \{'a': \[\{'one': \*, .*\}, got " + shown):
            loaded(x, other, scale=scale)
    with pytest.raises(ValueError, match="argument `scale_factor` was 5 when the model was exported, got 6"):
        loaded(x, d, scale={**scale, "factor": 6})


@torch.no_grad()
@pytest.mark.filterwarnings("ignore")
def test_dicts_of_other_classes(tmp_path: Path) -> None:
    """An OrderedDict and a defaultdict are not dicts to the exported module, and the order of their keys counts."""

    class Module(torch.nn.Module):
        def forward(self, d: Any) -> torch.Tensor:
            return d["a"] - d["b"]

    a, b = torch.ones(1), torch.zeros(1)
    makers: list[Any] = [dict, collections.OrderedDict, lambda items: collections.defaultdict(int, items)]
    given = [make(items) for make in makers for items in ([("a", a), ("b", b)], [("b", b), ("a", a)])]
    accepted = 0
    for number, first in enumerate(given[::2]):
        exported = torch.export.export(Module(), (first,))
        torch_tile.aot.package(exported, tmp_path / f"{number}.tile")
        loaded, expected = torch_tile.aot.load(tmp_path / f"{number}.tile"), exported.module()
        for d in given:
            try:
                assert expected(d).item() == 1
            except ValueError:
                with pytest.raises(TypeError, match=r"argument `d`: expected .*'a'.*, got .*'a'"):
                    loaded(d)
            else:
                accepted += 1
                assert loaded(d).item() == 1
    assert accepted == 4


@torch.no_grad()
def test_sizes_are_tuples(tmp_path: Path) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
            return x * size[0] + size[1]

    x = torch.ones(2, 3)
    loaded = packaged(Module(), (x, (2, 3)), tmp_path / "m.tile")
    assert torch.equal(loaded(x, x.shape), torch.full((2, 3), 5.0))


@torch.no_grad()
def test_classes_that_are_not_there(tmp_path: Path) -> None:
    """A program that loads the package without the module that defined the class."""
    Local = collections.namedtuple("Local", "first second")

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return [Local(x + 1, x * 2)]

    packaged(Module(), (torch.ones(2),), tmp_path / "m.tile")
    code = f"""
    import torch, torch_tile
    (found,) = torch_tile.aot.load({str(tmp_path / "m.tile")!r})(torch.ones(2))
    print(type(found).__name__, found._fields, found.second.tolist())
    """
    assert run_python(code).strip() == "Local ('first', 'second') [2.0, 2.0]"


@torch.no_grad()
def test_classes_without_a_name_are_told(tmp_path: Path) -> None:
    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {"box": Box(x + 1)}

    pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda values, _: Box(next(iter(values))))
    with pytest.warns(UserWarning, match="the structure of the results is not kept, so they are a flat list"):
        loaded = packaged(Module(), (torch.ones(2),), tmp_path / "m.tile")
    assert torch.equal(loaded(torch.ones(2))[0], torch.full((2,), 2.0))


def test_nothing_is_said_of_what_works(tmp_path: Path) -> None:
    exported = torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_tile.aot.package(exported, tmp_path / "m.tile")
