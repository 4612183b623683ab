"""Packages of programs that were exported with multiples of dimensions, as 2 * torch.export.Dim("half")."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import torch_tile
from tests.aot.models import export
from torch_tile.aot.size_guards import SizeGuards
from torch_tile.errors import UnsupportedError

HALF = Dim("half", min=2, max=20)
QUARTER = Dim("quarter", min=2, max=9)


class Applied(torch.nn.Module):
    """A function as a module, with a convolution and a buffer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.halved = torch.nn.Conv2d(2, 2, 3, stride=2, padding=1)
        self.register_buffer("count", torch.zeros(6))

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(self, *arguments)


def pairs(module: Applied, x: torch.Tensor) -> torch.Tensor:
    return x.view(-1, 2, 6).sum(1)


def shuffled(module: Applied, x: torch.Tensor) -> torch.Tensor:
    return F.pixel_shuffle(F.pixel_unshuffle(x, 4) * 2, 2)


def upsampled(module: Applied, x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(module.halved(x), scale_factor=2) + x


def plain(module: Applied, x: torch.Tensor) -> torch.Tensor:
    return x.exp() + x.shape[0]


def joined(module: Applied, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([pairs(module, x), y.view(-1, 4, 6).sum(1)], 1)


def branches(module: Applied, x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.view(-1, 2, 6).amax(1), lambda x: x.view(-1, 2, 6)[:, 1] * 2, (x,))


def counted(module: Applied, x: torch.Tensor) -> torch.Tensor:
    module.count.add_(x.sum(0))
    return pairs(module, x) + module.count


Sizes = Callable[[int], tuple[tuple[int, ...], ...]]
CASES: dict[str, tuple[Callable[..., Any], Sizes, Any]] = {
    "pairs": (pairs, lambda n: ((2 * n, 6),), ({0: 2 * HALF},)),
    "two dimensions": (
        shuffled,
        lambda n: ((1, 2, 4 * n, 12),),
        ({2: 4 * HALF, 3: 4 * QUARTER},),
    ),
    "convolution": (upsampled, lambda n: ((1, 2, 2 * n, 8),), ({2: 2 * HALF},)),
    "sum": (plain, lambda n: ((2 * n + 2, 3),), ({0: 2 * HALF + 2},)),
    "difference": (plain, lambda n: ((2 * n - 1, 3),), ({0: 2 * HALF - 1},)),
    "offset": (plain, lambda n: ((n + 3, 3),), ({0: HALF + 3},)),
    "two arguments": (joined, lambda n: ((2 * n, 6), (4 * n, 6)), ({0: 2 * HALF}, {0: 4 * HALF})),
    "guards": (joined, lambda n: ((2 * n, 6), (4 * n, 6)), ({0: Dim.AUTO}, {0: Dim.AUTO})),
    "branches": (branches, lambda n: ((2 * n, 6),), ({0: 2 * HALF},)),
    "written buffer": (counted, lambda n: ((2 * n, 6),), ({0: 2 * HALF},)),
}


@torch.no_grad()
@pytest.mark.parametrize("freezing", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_derived_sizes(case: tuple[Callable[..., Any], Sizes, Any], freezing: bool, tmp_path: Path) -> None:
    function, sizes, dynamic_shapes = case
    model = Applied(function).eval()
    exported = export(copy.deepcopy(model), tuple(map(torch.randn, sizes(4))), {"arguments": dynamic_shapes})
    path = torch_tile.aot.package(exported, tmp_path / "m.tile", options={"freezing": freezing})
    loaded = torch_tile.aot.load(path)
    for number in (4, 3, 20):
        arguments = [torch.randn(size) for size in sizes(number)]
        torch.testing.assert_close(loaded(*arguments), model(*arguments))


def test_sizes_that_are_no_multiples(tmp_path: Path) -> None:
    def packaged(function: Callable[..., Any], sizes: tuple[tuple[int, ...], ...], dynamic_shapes: Any) -> Any:
        exported = export(Applied(function), tuple(map(torch.randn, sizes)), {"arguments": dynamic_shapes})
        return torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))

    def increased(module: Applied, x: torch.Tensor) -> torch.Tensor:
        return pairs(module, x.add_(1))

    for function, sizes, dynamic_shapes, wrong, message in (
        (pairs, ((8, 6),), ({0: 2 * HALF},), ((9, 6),), "dimension 0 expected a multiple of 2, got 9"),
        (pairs, ((8, 6),), ({0: 2 * HALF},), ((42, 6),), "dimension 0 expected 4 to 40, got 42"),
        (pairs, ((8, 6),), ({0: 2 * HALF},), ((2, 6),), "dimension 0 expected 4 to 40, got 2"),
        (plain, ((7, 3),), ({0: 2 * HALF - 1},), ((8, 3),), "dimension 0 expected a multiple of 2, plus 1, got 8"),
        # The exported program has a guard.
        (pairs, ((8, 6),), ({0: Dim.AUTO},), ((9, 6),), "dimension 0 expected a multiple of 2, got 9"),
        (increased, ((8, 6),), ({0: Dim.AUTO},), ((9, 6),), "dimension 0 expected a multiple of 2, got 9"),
        (
            *(joined, ((8, 6), (16, 6)), ({0: 2 * HALF}, {0: 4 * HALF}), ((8, 6), (20, 6))),
            r"sizes of arguments expected arguments_1.size\(0\) // 4 == arguments_0.size\(0\) // 2",
        ),
    ):
        loaded = packaged(function, sizes, dynamic_shapes)
        pattern = message if message.startswith("sizes") else rf"argument `arguments_\d`: size of {message}"
        with torch.no_grad(), pytest.raises(ValueError, match=pattern):
            loaded(*map(torch.randn, wrong))
        # The program itself looks too: programs in C++ have no other check.
        if "multiple" in message and function is not increased:
            loaded._steps, loaded._guards = [], SizeGuards([])
            with torch.no_grad(), pytest.raises(ValueError, match=r"size of dimension 0 expected \d, got \d|as other"):
                loaded(*map(torch.randn, wrong))


def test_a_written_argument_is_refused(tmp_path: Path) -> None:
    def written(module: Applied, x: torch.Tensor) -> torch.Tensor:
        return pairs(module, x.add_(1))

    exported = export(Applied(written), (torch.randn(8, 6),), {"arguments": ({0: 2 * HALF},)})
    with pytest.raises(UnsupportedError, match=r"`arguments_0` is written, and its dimension 0 .* a multiple of 2"):
        torch_tile.aot.package(exported, tmp_path / "m.tile")


def test_an_exported_program_stays_as_it_is(tmp_path: Path) -> None:
    exported = export(Applied(pairs), (torch.randn(8, 6),), {"arguments": ({0: 2 * HALF},)})
    before = str(exported), {str(key): str(value) for key, value in exported.range_constraints.items()}
    torch_tile.aot.package(exported, tmp_path / "m.tile", targets=["host", "sm_90"])
    torch_tile.aot.package(exported, tmp_path / "again.tile")
    assert (str(exported), {str(key): str(value) for key, value in exported.range_constraints.items()}) == before
    assert exported.module()(torch.ones(6, 6)).shape == (3, 6)
