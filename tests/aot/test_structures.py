"""Structures of a packaged model's arguments and results are those of the exported module."""

from __future__ import annotations

import collections
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
    with pytest.raises(TypeError, match=r"argument number 1: expected .*, got"):
        loaded(x, [pair.a, pair.b])
    with pytest.raises(TypeError, match="expected 2 arguments, got 3"):
        loaded(x, *pair)


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
