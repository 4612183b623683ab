"""Operators of packages: complex numbers as arguments, operators of libraries that are defined in Python, and operators
that export keeps whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_tile
from tests.compiling import assert_same, compiled, count, fresh
from torch_tile.errors import UnsupportedError

NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mul": lambda x: x * 2j,
    "add": lambda x: x + (1 + 2j),
    "rsub": lambda x: (0.1 - 2j) - x,
    "div": lambda x: x / -2j,
    "pow": lambda x: x**2j,
    "where": lambda x: torch.where(x.real > 0, x, 1j),
    "full": lambda x: x + torch.full((4,), 1e-300 + 1.7976931348623157e308j, dtype=torch.complex128),
    "full_like": lambda x: torch.full_like(x, 2 + 1j) * x,
    "masked_fill": lambda x: x.masked_fill(x.real > 0, complex("nan+infj")),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=2j),
    "addmm": lambda x: torch.addmm(x[None], x[None].expand(4, 4), x[None].expand(4, 4), beta=2j, alpha=1j),
    "lerp": lambda x: torch.lerp(x, x * 2, 2j),
    "eq": lambda x: x == complex(0.0, -0.0),
    "real": lambda x: x.real * 2j,
}


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", NUMBERS)
def test_complex_numbers(name: str, tmp_path: Path) -> None:
    """They are part of the program: no call goes through Python."""
    model, x = Applied(NUMBERS[name]), torch.randn(4, dtype=torch.complex64)
    expected = model(x)
    path = torch_tile.aot.package(torch.export.export(model, (x,)), tmp_path / "m.tile")
    fresh()
    for found in (torch_tile.aot.load(path)(x), compiled(model)(x)):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    assert count("pycalls") == 0 and count("fallbacks") == 0


CHECKED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "inv": lambda x: torch.linalg.inv(x) * 2,
    "cholesky": lambda x: torch.linalg.cholesky(x) + torch.linalg.cholesky(x.mT * 2),
}


@pytest.mark.parametrize("name", CHECKED)
def test_checks_of_values(name: str, tmp_path: Path) -> None:
    """Exported programs order a check among other effects by a token, which is no argument of the package."""
    model, x = Applied(CHECKED[name]), torch.eye(3) * 2
    path = torch_tile.aot.package(torch.export.export(model, (x,)), tmp_path / "m.tile")
    loaded = torch_tile.aot.load(path)
    assert_same(loaded(x), model(x))
    for call in (model, loaded):
        with pytest.raises(torch.linalg.LinAlgError, match=f"linalg.{name}"):
            call(torch.zeros(3, 3))


class Grouped(torch.nn.Module):
    """The product of a mixture of experts, for weights that torch does not trace `aten::_grouped_mm` with."""

    def __init__(self, inner: int, outer: int, is_transposed: bool) -> None:
        super().__init__()
        self.is_transposed = is_transposed
        self.weight = torch.nn.Parameter(torch.randn(3, *((outer, inner) if is_transposed else (inner, outer))))

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        weight = self.weight.transpose(1, 2) if self.is_transposed else self.weight
        return torch.ops.transformers.grouped_mm_fallback(x, weight, ends) * 2


def ends_of(*ends: int) -> torch.Tensor:
    return torch.tensor(ends, dtype=torch.int32)


@torch.no_grad()
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_grouped_products(is_transposed: bool, is_dynamic: bool, tmp_path: Path) -> None:
    """Empty groups, and rows behind the last group, which are 0."""
    pytest.importorskip("transformers.integrations.moe")
    model = Grouped(16, 32, is_transposed)
    shapes: Any = {"x": {0: torch.export.Dim("rows", min=2, max=99)}, "ends": None} if is_dynamic else None
    exported = torch.export.export(model, (torch.randn(10, 16), ends_of(3, 3, 7)), dynamic_shapes=shapes)
    loaded = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    for rows in (10, 57) if is_dynamic else (10,):
        for ends in (ends_of(3, 3, 7), ends_of(0, 0, 0), ends_of(0, 4, 10), ends_of(10, 10, 10)):
            x = torch.randn(rows, 16)
            junk = torch.full((rows, 32), torch.nan)
            del junk  # what memory holds that nobody writes
            assert torch.equal(loaded(x, ends), model(x, ends))


@torch.no_grad()
def test_grouped_products_that_aten_does_not_take(tmp_path: Path) -> None:
    """Rows that are not aligned: the operator stays one of Python's, which is refused."""
    pytest.importorskip("transformers.integrations.moe")
    exported = torch.export.export(Grouped(5, 7, False), (torch.randn(10, 5), ends_of(3, 3, 10)))
    with pytest.raises(UnsupportedError, match="transformers::grouped_mm_fallback is defined in Python"):
        torch_tile.aot.package(exported, tmp_path / "m.tile")


LABELS = torch.tensor([[1, 2, -1, 0], [3, -1, 2, 2], [0, 1, 2, 3]])
COMPOSITES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "multilabel_margin_loss": (lambda x: F.multilabel_margin_loss(x, LABELS), (3, 4)),
    "linear": (lambda x: F.interpolate(x, scale_factor=1.1, mode="linear"), (1, 1, 8)),
    "linear, enlarged": (lambda x: F.interpolate(x, scale_factor=1.5, mode="linear"), (1, 1, 8)),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=1.05, mode="bilinear"), (1, 3, 8, 8)),
    "bilinear by two factors": (lambda x: F.interpolate(x, scale_factor=(1.1, 2.0), mode="bilinear"), (1, 3, 8, 8)),
    "bilinear, corners": (
        lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear", align_corners=True), (1, 3, 8, 8)
    ),
    "bilinear to a size": (lambda x: F.interpolate(x, size=(8, 5), mode="bilinear"), (1, 3, 8, 8)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=1.1, mode="trilinear"), (1, 1, 4, 4, 4)),
    "affine_grid": (lambda x: F.affine_grid(x, (2, 3, 1, 5), align_corners=False), (2, 2, 3)),
    "affine_grid, corners": (lambda x: F.affine_grid(x, (2, 3, 4, 1), align_corners=True), (2, 2, 3)),
    "affine_grid of volumes": (lambda x: F.affine_grid(x, (2, 3, 4, 1, 5), align_corners=False), (2, 3, 4)),
    "affine_grid of more points": (lambda x: F.affine_grid(x, (2, 3, 4, 5), align_corners=False), (2, 2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites(name: str, tmp_path: Path) -> None:
    """Operators that export keeps whole, and that torch takes apart by other formulas than ATen's."""
    function, shape = COMPOSITES[name]
    model, x = Applied(function), torch.randn(shape)
    loaded = torch_tile.aot.load(torch_tile.aot.package(torch.export.export(model, (x,)), tmp_path / "m.tile"))
    torch.testing.assert_close(loaded(x), model(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("traced", [8, 25])
def test_factors_that_keep_some_sizes(dims: int, traced: int, tmp_path: Path) -> None:
    """By 1.1, eager mode copies 8 points and samples 25."""
    mode = ("linear", "bilinear", "trilinear")[dims - 1]
    model = Applied(lambda x: F.interpolate(x, scale_factor=1.1, mode=mode))
    examples = {size: torch.randn(1, 2, size, *[8] * (dims - 1)) for size in (8, 25)}
    dynamic = ({2: torch.export.Dim("n", min=4, max=64)},)
    program = torch.export.export(model, (examples[traced],), dynamic_shapes=dynamic)
    loaded = torch_tile.aot.load(torch_tile.aot.package(program, tmp_path / "m.tile"))
    for x in examples.values():
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-6, atol=1e-6)
