"""Sizes that an exported program refuses are refused by its package."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim, export

import torch_tile
from tests.aot import c_interface, runner
from torch_tile.aot.size_guards import SizeGuards, guards_of
from torch_tile.errors import PackageError, UnsupportedError


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


def every_second_into(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.copy_(x[1::2])
    return y + 0


def halves(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2)
    return a + b + y.sum()


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], list[tuple[Any, Any]]]] = {
    "write of every second": (every_second_into, (12,), (6,), [((10,), (4000,)), ((10,), (4,))]),
    "rows of two": (lambda x, y: x.view(x.shape[0] // 2, 2, 3).sum(1) + y.sum(), (8, 3), (5,), [((9, 3), (5,))]),
    "halves": (halves, (8,), (5,), [((9,), (5,))]),
    "every second": (lambda x, y: x[::2] + y, (12,), (6,), [((10,), (4,)), ((8,), (400,))]),
    "unshuffled": (lambda x, y: F.pixel_unshuffle(x[None], 2) + y.sum(), (8, 6), (5,), [((9, 6), (5,))]),
    "as many as the other": (lambda x, y: x.view(-1, y.shape[0]).sum(0) * y, (12,), (4,), [((13,), (4,))]),
    "joined": (lambda x, y: torch.cat([x, x[::2]]).view(3, -1) * y.sum(), (8,), (5,), [((9,), (5,))]),
    "fours": (lambda x, y: x.reshape(-1, 4) + y.sum(), (6, 2), (5,), [((7, 2), (5,))]),
    "squares": (
        lambda x, y: x.view(y.shape[0] * y.shape[0], -1).sum() + y,
        (18,),
        (3,),
        [((20,), (3,)), ((32,), (4,))],
    ),
    "half of the rows": (lambda x, y: x.view(x.shape[0] // 2, -1) + y.sum(), (8, 3), (5,), [((9, 3), (5,))]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_sizes(name: str, tmp_path: Path) -> None:
    function, first, second, wrong = FUNCTIONS[name]
    dims = ({0: Dim.AUTO}, {0: Dim.AUTO})
    exported = export(Applied(function), (torch.ones(first), torch.ones(second)), dynamic_shapes=dims)
    torch_tile.aot.package(exported, tmp_path / "m.tile")
    model = torch_tile.aot.load(tmp_path / "m.tile")
    for sizes in ((first, second), *wrong):
        x, y = torch.randn(sizes[0]), torch.randn(sizes[1])
        try:
            expected = exported.module()(x.clone(), y.clone())
        except (AssertionError, RuntimeError):
            with pytest.raises(ValueError, match="expected"):
                model(x, y)
        else:
            torch.testing.assert_close(model(x, y), expected)


@pytest.mark.skipif(bool(runner.reason_to_skip()), reason=runner.reason_to_skip() or "-")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_python(name: str, tmp_path: Path) -> None:
    """Calls through the C interface, where nothing but the program looks at sizes."""
    function, first, second, wrong = FUNCTIONS[name]
    dims = ({0: Dim.AUTO}, {0: Dim.AUTO})
    exported = export(Applied(function), (torch.ones(first), torch.ones(second)), dynamic_shapes=dims)
    torch_tile.aot.package(exported, tmp_path / "m.tile")
    model, tried = c_interface.Model(str(tmp_path / "m.tile")), 0
    for sizes in ((first, second), *wrong):
        x, y = torch.randn(sizes[0]), torch.randn(sizes[1])
        before = y.clone()
        try:
            expected = exported.module()(x.clone(), y.clone())
        except (AssertionError, RuntimeError):
            tried += 1
            with pytest.raises(RuntimeError, match="expected"):
                model(x, y)
            assert torch.equal(y, before)
        else:
            torch.testing.assert_close(model(x, y)[0], expected)
    assert tried


def test_message(tmp_path: Path) -> None:
    exported = export(
        Applied(lambda x, y: x[::2] + y), (torch.ones(12), torch.ones(6)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO})
    )
    torch_tile.aot.package(exported, tmp_path / "m.tile")
    with pytest.raises(ValueError, match=r"got x\.size\(0\) = 10, y\.size\(0\) = 4"):
        torch_tile.aot.load(tmp_path / "m.tile")(torch.ones(10), torch.ones(4))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a0_0.real",
        "(lambda: 1)()",
        "a0_0 +",
        "x == 1",
        "'a' * 9",
        "[1]",
        "max",
        "abs(a0_0)",
        "a0_0(1)",
    ],
)
def test_nothing_but_arithmetic(text: str) -> None:
    with pytest.raises(PackageError, match="expected a guard over sizes"):
        SizeGuards([text])


def test_functions() -> None:
    guards = SizeGuards(["max(a0_0, 3) == min(a1, 5)"])
    guards.check([torch.ones(4), 4], str)
    with pytest.raises(ValueError, match=r"got 0\.size\(0\) = 2, 1 = 4"):
        guards.check([torch.ones(2), 4], str)


def test_guards_that_are_not_kept_are_named(caplog: pytest.LogCaptureFixture) -> None:
    exported = export(Applied(lambda x, y: x + y), (torch.ones(3), torch.ones(3)))
    exported._guards_code = ["L['x'].stride()[0] == 1", "L['x'].size()[0] % 3 == 0"]
    assert guards_of(exported) == ["a0_0 % 3 == 0"]
    assert "L['x'].stride()[0] == 1" in caplog.text


class OfTwo(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class TakesAny(torch.nn.Module):
    def forward(self, *a: torch.Tensor) -> torch.Tensor:
        return a[0][::2] + a[1]


class TakesMore(torch.nn.Module):
    def forward(self, x: torch.Tensor, *a: torch.Tensor, k: list[torch.Tensor]) -> torch.Tensor:
        return x[::2] + a[0] + k[0]


class TakesTwo(torch.nn.Module):
    def forward(self, pair: OfTwo) -> torch.Tensor:
        return pair.x[::2] + pair.y


DIM = {0: Dim.DYNAMIC}


@pytest.mark.parametrize(
    ("module", "arguments", "dims"),
    [
        (TakesAny(), lambda x, y: ((x, y), {}), ((DIM, DIM),)),
        (TakesMore(), lambda x, y: ((x, y), {"k": [y]}), {"x": DIM, "a": (DIM,), "k": [DIM]}),
        (TakesTwo(), lambda x, y: ((OfTwo(x, y),), {}), {"pair": OfTwo(DIM, DIM)}),
    ],
    ids=["any", "more", "named tuple"],
)
def test_arguments_in_structures(module: torch.nn.Module, arguments: Any, dims: Any, tmp_path: Path) -> None:
    args, kwargs = arguments(torch.randn(8), torch.randn(4))
    torch_tile.aot.package(export(module, args, kwargs, dynamic_shapes=dims), tmp_path / "m.tile")
    model = torch_tile.aot.load(tmp_path / "m.tile")
    args, kwargs = arguments(torch.randn(10), torch.randn(5))
    torch.testing.assert_close(model(*args, **kwargs), module(*args, **kwargs))
    for x, y in ((8, 2), (8, 5), (80_000_000, 2)):
        args, kwargs = arguments(torch.ones(x), torch.ones(y))
        with pytest.raises(ValueError, match=r"as the exported program does; got .*\.size\(0\) = 8"):
            model(*args, **kwargs)


@pytest.mark.parametrize(
    "text", ["L['z'].size()[0] == 3", "L['x'].y.size()[0] == 3", "3 in (L['x'].size()[0], 3)", "L['x'].size() == (8,)"]
)
def test_guards_of_sizes_that_cannot_be_kept_are_refused(text: str) -> None:
    exported = export(Applied(lambda x, y: x + y), (torch.ones(3), torch.ones(3)))
    exported._guards_code = [text]
    with pytest.raises(UnsupportedError, match=re.escape(f"`{text}`, which a package cannot check")):
        guards_of(exported)


@pytest.mark.parametrize(
    ("text", "is_checked"),
    [
        ("3 < L['x'].size()[0] < 9", True),
        ("(L['x'].size()[0] + 1) // 2 == 4 and L['y'].size()[0] != 4", True),
        ("not (max(L['x'].size()[0], 3) == 9)", True),
        ("L['x'].size()[0] ** 2 % 4 == 0", True),
        ("L['x'].size()[0] / 2 == 4", False),
        ("L['x'].size()[0] ** L['y'].size()[0] == 512", False),
    ],
)
def test_guards_in_the_program(text: str, is_checked: bool, tmp_path: Path) -> None:
    """Of 8 and 3 they hold, of 9 and 3 not. What no program can compute is left to the loader."""
    dims = ({0: Dim.AUTO}, {0: Dim.AUTO})
    exported = export(Applied(lambda x, y: x * 2), (torch.ones(8), torch.ones(3)), dynamic_shapes=dims)
    exported._guards_code = [text]
    torch_tile.aot.package(exported, tmp_path / "m.tile")
    with pytest.raises(ValueError, match="expected"):
        torch_tile.aot.load(tmp_path / "m.tile")(torch.ones(9), torch.ones(3))
    if not runner.reason_to_skip():
        model = c_interface.Model(str(tmp_path / "m.tile"))
        assert len(model(torch.ones(8), torch.ones(3))) == 1
        if is_checked:
            with pytest.raises(RuntimeError, match=r"sizes of arguments expected|size of dimension 0 expected"):
                model(torch.ones(9), torch.ones(3))


def test_one_tensor_twice(tmp_path: Path) -> None:
    """Refused where the program writes one of the arguments, as other overlapping arguments are."""

    def writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    for function, is_refused in ((writes, True), (lambda x, y: x + y, False)):
        exported = export(Applied(function), (torch.ones(3), torch.ones(3)))
        torch_tile.aot.package(exported, tmp_path / "m.tile")
        model, z = torch_tile.aot.load(tmp_path / "m.tile"), torch.ones(3)
        if is_refused:
            with pytest.raises(RuntimeError, match="two inputs share memory"):
                model(z, z)
            assert torch.equal(z, torch.ones(3))
        else:
            assert torch.equal(model(z, z), z + z)


THROUGH_FLOATS: dict[str, Callable[[torch.Tensor], Any]] = {
    "interpolate by a half": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
    "interpolate by 0.9": lambda x: F.interpolate(x, scale_factor=0.9),
    "ceil": lambda x: x.new_zeros(math.ceil(x.shape[2] / 3)) + 1,
    "round": lambda x: x.new_zeros(round(x.shape[2] / 2)) + 1,
    "floor": lambda x: x[:, :, : math.floor(x.shape[2] * 0.3)] * 2,
    "trunc": lambda x: x[:, :, : int(x.shape[2] * 0.7)] * 2,
}


@pytest.mark.parametrize("name", THROUGH_FLOATS)
def test_sizes_through_floats(name: str, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return THROUGH_FLOATS[name](x)

    dims = {2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    exported = export(Model(), (torch.randn(1, 2, 12, 12),), dynamic_shapes=(dims,))
    package = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    program, compared = exported.module(), 0
    for rows, columns in ((12, 12), (13, 9), (7, 20), (33, 31), (5, 6), (3, 2)):
        x = torch.randn(1, 2, rows, columns)
        try:
            expected = program(x)
        except (RuntimeError, AssertionError):
            with pytest.raises((ValueError, RuntimeError)):
                package(x)
            continue
        torch.testing.assert_close(package(x), expected, rtol=1e-4, atol=1e-5)
        compared += 1
    assert compared >= 1


def test_functions_of_guards() -> None:
    guards = SizeGuards(["trunc(0.5 * float(a0_0)) >= 2", "ceil(a0_0 / 3) != 3", "round(a0_0 / 2) <= floor(9.9)"])
    for size in (4, 6, 10, 18):
        guards.check([torch.empty(size)], str)
    for size in (3, 7, 8, 9, 20):
        with pytest.raises(ValueError, match="sizes of arguments expected"):
            guards.check([torch.empty(size)], str)
    for text in ("eval('1')", "float.hex(1.0)", "trunc(x)", "open", "round(a0_0, ndigits=1)"):
        with pytest.raises(PackageError):
            SizeGuards([text])
