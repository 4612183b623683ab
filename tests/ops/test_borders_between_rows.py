"""Concatenations, paddings and writes between whole rows, whose kernels walk rows and what lies within as one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import assert_same, compiled, gradients

F = torch.nn.functional


def rows_before(x: torch.Tensor, n: int) -> torch.Tensor:
    """`x` where a row comes before the n-th, else its negative."""
    places = torch.arange(x.shape[0], device=x.device).view(-1, *[1] * (x.dim() - 1))
    return torch.where(places < n, x, -x)


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "halves": lambda x: torch.cat([x[: x.shape[0] // 2], x]),
    "thirds": lambda x: torch.cat([x[x.shape[0] // 3 :], x[: x.shape[0] // 3] * 2]),
    "five parts": lambda x: torch.cat([x, x + 1, x[:1], x[:0], x[1:]]),
    "padded": lambda x: F.pad(x, (0, 0) * (x.dim() - 1) + (2, 3)),
    "cut": lambda x: F.pad(x, (0, 0) * (x.dim() - 1) + (-1, 2)) + 1,
    "within": lambda x: torch.cat([x, x[:, :1]], 1) if x.dim() > 1 else x,
    "written": lambda x: x.slice_scatter(x[1:-1] * 3, 0, 1, x.shape[0] - 1),
    "rolled": lambda x: x.roll(2, 0),
    "before 3": lambda x: rows_before(x, 3),
    "before -1": lambda x: rows_before(x, -1),
    "before 2**40": lambda x: rows_before(x, 2**40),
    "before 2**62": lambda x: rows_before(x, 2**62),
    "from a half on": lambda x: torch.where(
        torch.arange(x.shape[0]).view(-1, *[1] * (x.dim() - 1)) * 2 >= x.shape[0], x, x * 0
    ),
    "summed": lambda x: torch.cat([x[: x.shape[0] // 2], x]).sum(0),
}
SHAPES = [(40, 24), (7, 3), (5, 6, 4), (1, 9), (300, 17), (33, 2, 1, 5), (12,), (6, 1100)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_eager(name: str, dynamic: bool) -> None:
    function = PROGRAMS[name]
    by_rank: dict[int, Any] = {}
    for shape in SHAPES:
        if not dynamic:
            torch.compiler.reset()
        run = by_rank.get(len(shape)) if dynamic else None
        if run is None:
            run = by_rank[len(shape)] = compiled(function, dynamic=dynamic)
        x = torch.arange(torch.Size(shape).numel()).view(shape).float()
        if shape[0] < 3 and name in ("written", "rolled", "thirds"):
            continue
        assert_same(run(x), function(x))


@pytest.mark.parametrize("name", ["halves", "padded", "written", "before 3"])
def test_gradients(name: str) -> None:
    run = compiled(PROGRAMS[name], dynamic=True)
    for shape in ((40, 24), (9, 5), (300, 17)):
        x = torch.randn(shape, dtype=torch.float64)
        assert_same(gradients(run, (x,)), gradients(PROGRAMS[name], (x,)))
