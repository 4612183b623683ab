"""Calls that eager mode refuses, or computes otherwise than a program without mutation would: no package is made."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_tile
from tests.aot.models import export
from tests.compiling import assert_same
from torch_tile.errors import UnsupportedError

PLACES = torch.tensor([0, 2])
LABELS = torch.tensor([[1, 2, -1], [0, -1, 2], [2, 1, 0]])


def square(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(9).view(3, 3).to(dtype)


def and_all(x: torch.Tensor, *changes: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    """Changes of a tensor, and its value behind them."""
    for change in changes:
        change(x)
    return x * 2


def normalized_with(statistics: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, statistics, statistics, training=True)


REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor, str]] = {
    "neighbours": (lambda x: x[1:].add_(x[:-1]), square(), "add_ reads part of the memory that it writes"),
    "copy of neighbours": (lambda x: x[1:].copy_(x[:-1]), square(), "copy_ reads part"),
    "setitem": (lambda x: x.__setitem__(slice(1, None), x[:-1]), square(), "copy_ reads part"),
    "transposed": (lambda x: x.add_(x.t()), square(), "add_ reads part"),
    "iadd": (lambda x: x.__iadd__(x.t()), square(), "add_ reads part"),
    "iand": (lambda x: x.__iand__(x.t()), square(torch.int64), "and_ reads part"),
    "a row": (lambda x: x.mul_(x[0]), square(), "mul_ reads part"),
    "at indices": (lambda x: x.index_add_(0, PLACES, x[:2]), square(), "index_add_ reads part"),
    "out": (lambda x: torch.add(x, 1, out=x.t()) + torch.mul(x, x.t(), out=x), square(), "reads part"),
    "list of views": (lambda x: x.split(1)[0].add_(x.view(-1)[1:4]), square(), "add_ reads part"),
    "expanded": (lambda x: x.expand(2, 3, 3).add_(1), square(), "add_ writes elements that share memory"),
    "lists": (lambda x: torch._foreach_copy_([x[0], x[1]], [x[1], x[0]]), square(), "_foreach_copy_ writes memory"),
    "statistics": (
        lambda x: normalized_with(x.sum(0), x), square(),
        "batch_norm whose mean and variance are one tensor",
    ),
    "hardshrink of integers": (F.hardshrink, square(torch.int64), "hardshrink of a tensor that has no floating"),
    "sub of a bool": (lambda x: x - True, square(), "sub of a bool"),
    "rsub of a bool": (lambda x: torch.rsub(x, True), square(), "sub of a bool"),
    "targets of 32 bits": (lambda x: F.nll_loss(x, PLACES.new_zeros(3).int()), square(), "targets are torch.int32"),
    "cross entropy": (lambda x: F.cross_entropy(x, PLACES.new_zeros(3).int()), square(), "targets are torch.int32"),
    "loss": (
        lambda x: torch.ops.aten.multilabel_margin_loss_forward(x, LABELS, 1)[0], square(),
        "multilabel_margin_loss_forward, of which tracing makes another function",
    ),
    "view beyond a written input": (
        lambda x: (x.add_(1), x.as_strided((2,), (1,), 8)), square(), "as_strided of 'x', which the graph writes"
    ),
}  # fmt: skip


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x), x * 2


def read_back(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("is_read_back", [False, True])
def test_refused(name: str, is_read_back: bool, tmp_path: Path) -> None:
    function, x, message = REFUSED[name]
    program = export(Applied(function), (x.clone(),))
    with pytest.raises(UnsupportedError, match=message):
        torch_tile.aot.package(read_back(program) if is_read_back else program, tmp_path / "m.tile")
    assert not any(tmp_path.iterdir())


def test_sizes_that_may_change(tmp_path: Path) -> None:
    """A size of 3, as in the example."""
    model, dynamic = Applied(lambda x: x[1:].add_(x[:-1])), ({0: torch.export.Dim("n", min=3, max=100)},)
    with pytest.raises(UnsupportedError, match="add_ reads part"):
        torch_tile.aot.package(export(model, (square(),), dynamic), tmp_path / "m.tile")


TAKEN: dict[str, Callable[[torch.Tensor], Any]] = {
    "itself": lambda x: x.add_(x),
    "itself again": lambda x: x.add_(1).mul_(x),
    "other rows": lambda x: x[1:].add_(x[:1]),
    "a copy": lambda x: x.add_(x.t().clone()),
    "a reshaped copy": lambda x: x.t().reshape(-1).add_(x.view(-1)),
    "a contiguous copy": lambda x: x.add_(x.t().contiguous()),
    "another dtype": lambda x: x.add_(x.to(torch.float64).t()),
    "results of one call": lambda x: (lambda found: found[0].add_(found[1]))(x.sort()),
    "a row of what is expanded": lambda x: (x * 1).expand(2, 3, 3)[0].add_(1),
    "a view of what is expanded": lambda x: x[0].expand(3, 3).unsqueeze(0).squeeze_(0) * 2,
    "a number": lambda x: x.fill_(x[0, 0]),
    "expanded indices": lambda x: F.embedding(PLACES.expand(3, 2), x),
    "sub": lambda x: torch.sub(x, x, alpha=2) - 1.5,
    "statistics": lambda x: F.batch_norm(x, x.sum(0), x.sum(1), training=True),
    "no statistics": lambda x: F.batch_norm(x, None, None, training=True),
    "targets": lambda x: F.cross_entropy(x, PLACES.new_zeros(3)),
    "view of a written input": lambda x: (x.add_(1), x.as_strided((2,), (1,), 3) * 2)[1],
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("is_read_back", [False, True])
def test_taken(name: str, is_read_back: bool, tmp_path: Path) -> None:
    model, given, expected = Applied(TAKEN[name]), square(), square()
    program = export(model, (square(),))
    path = torch_tile.aot.package(read_back(program) if is_read_back else program, tmp_path / "m.tile")
    assert_same(torch_tile.aot.load(path)(given), model(expected))
    assert_same(given, expected)
