"""Models that change the shape or strides of an argument or a buffer in place: packages refuse them and name it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import torch_tile
from tests.aot.models import export
from tests.compiling import assert_same
from torch_tile.errors import UnsupportedError


class Changed(torch.nn.Module):
    """Applies functions to an argument or a buffer, one behind the other."""

    def __init__(self, *changes: Callable[[torch.Tensor], object], buffer: torch.Tensor | None = None) -> None:
        super().__init__()
        self.changes = changes
        self.register_buffer("kept", buffer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = x if self.kept is None else self.kept
        for change in self.changes:
            change(place)
        return place * 2 + x.sum()


def add(x: torch.Tensor) -> None:
    x.add_(1)


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "as_strided_": lambda x: x.as_strided_((2, 2), (1, 2)),
    "resize_": lambda x: x.resize_(2, 2),
    "set_": lambda x: x.set_(torch.zeros(3, 3)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_arguments(name: str, is_first: bool, shape: tuple[int, int], tmp_path: Path) -> None:
    change = CHANGES[name]
    model = Changed(*((change, add) if is_first else (add, change)))
    program = export(model, (torch.ones(shape),))
    with pytest.raises(UnsupportedError, match=r"`x` has shape .* changes|`x` is set to the memory of another"):
        torch_tile.aot.package(program, tmp_path / "m.tile")


@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_buffers(shape: tuple[int, int], is_decomposed: bool, tmp_path: Path) -> None:
    program = export(Changed(add, CHANGES["t_"], add, buffer=torch.ones(shape)), (torch.ones(2),))
    if is_decomposed:
        program = program.run_decompositions()
    with pytest.raises(UnsupportedError, match=r"`kept` has shape .* changes"):
        torch_tile.aot.package(program, tmp_path / "m.tile")


def test_without_a_write(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"`x` has shape \(2, 3\) and strides \(3, 1\), .*shape \(3, 2\)"):
        torch_tile.aot.package(export(Changed(CHANGES["t_"]), (torch.ones(2, 3),)), tmp_path / "m.tile")


UNCHANGED: dict[str, tuple[Callable[[torch.Tensor], object], ...]] = {
    "restored": (add, CHANGES["t_"], add, CHANGES["t_"]),
    "squeeze_ of what has no such dimension": (add, lambda x: x.squeeze_()),
    "of a view": (add, lambda x: x.t().t_().add_(1), lambda x: x.view(-1).unsqueeze_(0).mul_(2)),
    "write of a view": (lambda x: x.t().add_(1), lambda x: x.t()[1:].mul_(2)),
    "write from a view": (lambda x: x.copy_(torch.arange(9.0).view(3, 3).t()),),
    "detached": (add, lambda x: x.detach_()),
}


STRIDES = {"rows": (3, 1), "columns": (1, 3), "gaps": (6, 2)}


# Of other orders there is no view of one dimension.
FORMS = [(name, order) for name in UNCHANGED for order in STRIDES if order == "rows" or name != "of a view"]


@pytest.mark.parametrize(("name", "order"), FORMS)
@pytest.mark.parametrize("is_decomposed", [False, True])
def test_forms_that_stay(name: str, is_decomposed: bool, order: str, tmp_path: Path) -> None:
    def made() -> torch.Tensor:  # no views
        return torch.empty_strided((3, 3), STRIDES[order]).copy_(torch.arange(9.0).view(3, 3))

    model, given, expected = Changed(*UNCHANGED[name]), made(), made()
    program = export(model, (made(),))
    loaded = torch_tile.aot.load(
        torch_tile.aot.package(program.run_decompositions() if is_decomposed else program, tmp_path / "m.tile")
    )
    assert_same(loaded(given), model(expected))
    assert_same(given, expected)
