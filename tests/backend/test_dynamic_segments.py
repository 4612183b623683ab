"""Concatenations, rolls and borders along an axis whose size is not known: one program for lengths around those of
vectors and of blocks, from the least that eager mode takes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, assert_same_or_refused, compiled, count, fresh
from torch_tile.debug import record

_Function = Callable[[torch.Tensor], Any]
LENGTHS = [200, 4, 5, 7, 15, 16, 33, 63, 64, 65, 130, 4095, 4100, 8200]


def _stencil(x: torch.Tensor) -> torch.Tensor:
    return x.roll(1, -1) + x.roll(-1, -1) + x.roll(1, 0) + x.roll(-1, 0) - 4 * x


def _shifted_sums(x: torch.Tensor) -> Any:
    shifted = torch.cat([x[:, 3:], x[:, :3] * 2], 1)
    return shifted.sum(1), shifted.amax(1), shifted.argmax(1)


PROGRAMS: dict[str, _Function] = {
    "roll": lambda x: x.roll(3, -1),
    "roll back": lambda x: x.roll(-3, -1) + x,
    "roll of both": lambda x: x.roll((2, -1), (0, 1)),
    "roll of all": lambda x: x.roll(5),
    "rolls of rolls": lambda x: x.roll(3, -1).roll(-1, -1) * x,
    "roll by a size": lambda x: x.roll(x.shape[1], -1),
    "stencil": _stencil,
    "cat": lambda x: torch.cat([x[:, 1:], x[:, :1]], 1),
    "cat of many": lambda x: torch.cat([x, x[:, :2] + 1, -x[:, 1:], x[:, -3:]], 1),
    "cat of the half": lambda x: torch.cat([x[:, x.shape[1] // 2 :], -x[:, : x.shape[1] // 2]], 1),
    "cat in cat": lambda x: torch.cat([torch.cat([x[:, :3], x], 1) * 2, x[:, :1].expand(-1, 4)], 1),
    "constant": lambda x: F.pad(x, (3, 2), value=7.0),
    "cropped": lambda x: F.pad(x, (-2, 3)) + F.pad(x, (3, -2)),
    "reflect": lambda x: F.pad(x, (3, 2), mode="reflect"),
    "replicate": lambda x: F.pad(x, (3, 5), mode="replicate"),
    "circular": lambda x: F.pad(x, (3, 2), mode="circular"),
    "wrapped twice": lambda x: F.pad(F.pad(x, (1, 1), mode="circular"), (2, 2), mode="reflect"),
    "sums": _shifted_sums,
    "triangle": lambda x: torch.cat([x.tril(), x.triu()], 1),
    "flipped": lambda x: torch.cat([x.flip(-1), x], 1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("name", PROGRAMS)
def test_lengths(name: str, dtype: torch.dtype) -> None:
    function = PROGRAMS[name]
    other = compiled(function, dynamic=True)
    fresh()
    for length in LENGTHS:
        x = torch.randint(-9, 10, (5, length)).to(dtype)  # sums are exact
        assert_same(other(x), function(x), exact=True)
    assert count("externs") == 0
    assert count("graphs") <= 2  # lengths below a pad are another program


@pytest.mark.parametrize("name", ["roll", "roll back", "cat", "cropped", "circular"])
def test_short_lengths(name: str) -> None:
    """Sizes below the shift or the pad: other programs, of which eager mode refuses some."""
    function = PROGRAMS[name]
    other = compiled(function, dynamic=True)
    fresh()
    for length in (9, 1, 2, 3, 0):
        assert_same_or_refused(other, function, torch.randn(4, length))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_two_dimensions(mode: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x * 2, (2, 1, 3, 2), mode=mode) + 1

    other = compiled(function, dynamic=True)
    fresh()
    for height, width in ((9, 70), (4, 4), (5, 64), (64, 5), (33, 130)):
        x = torch.randn(2, 3, height, width)
        assert_same(other(x), function(x), exact=True)
    assert count("externs") == 0


@pytest.mark.parametrize("function", [lambda x: x.roll(7), lambda x: x.roll(-1), lambda x: x.roll(1000)])
def test_rolls_of_all_elements_have_no_masks(function: _Function, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop over all elements has a product of sizes as its extent."""
    monkeypatch.setattr(record, "_KEPT_STAGES", ("30-tile.mlir",))
    x = torch.randn(64, 96)
    with record.recording() as graphs:
        assert_same(compiled(function, dynamic=True)(x), function(x))
    (text,) = [stage for graph in graphs for stage in graph.stages.values()]
    assert "tile.load" in text and " mask " not in text
