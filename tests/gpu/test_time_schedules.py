"""`max_autotune` on a device: results, what a second process finds on disk, and that nothing becomes slower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_tile.frontend import time_schedules

pytestmark = pytest.mark.gpu

PROGRAMS: dict[str, Callable[..., Any]] = {
    "transposed": lambda x: x.permute(2, 0, 1).contiguous() + 1,
    "rows": lambda x: (x.softmax(-1), x.sum((0, 2))),
    "columns": lambda x: x - x.mean(0),
    "cat": lambda x: torch.cat([x, x.flip(1)], 1).transpose(0, 1).contiguous(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f, options = PROGRAMS[name], {"max_autotune": True, "cache_dir": str(tmp_path)}
    x = torch.randn(300, 257, 65, device="cuda")
    searches: list[int] = []
    search = time_schedules._search

    def counted(*args: Any) -> list[int]:
        searches.append(1)
        return search(*args)

    monkeypatch.setattr(time_schedules, "_search", counted)
    for _ in range(2):
        torch.compiler.reset()
        torch.testing.assert_close(torch.compile(f, backend="tile", options=options)(x), f(x), rtol=1e-4, atol=1e-4)
    assert len(searches) == 1  # then the disk has it


def test_every_schedule_gives_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of all numbers run, not only those that are kept."""
    f = PROGRAMS["columns"]
    x = torch.randn(70, 33, 300, device="cuda")
    expected = f(x)
    ran = 0
    usual = time_schedules.option
    for number in (1, 2, 5, 9, 14):
        monkeypatch.setattr(time_schedules, "option", lambda _, number=number: usual([number] * 8))
        torch.compiler.reset()
        torch.testing.assert_close(torch.compile(f, backend="tile", options={"cache": False})(x), expected)
        ran += 1
    assert ran == 5
