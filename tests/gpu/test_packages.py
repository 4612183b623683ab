"""Packages on a CUDA device, in Python and through the C interface. python -m pytest tests/gpu/test_packages.py"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import torch_tile
from tests.aot import c_interface
from tests.gpu.packages import MODELS, TARGETS, made

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def target_here() -> str:
    major, minor = torch.cuda.get_device_capability()
    return "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"


def moved(arguments: list[torch.Tensor], rows: int) -> list[torch.Tensor]:
    return [torch.randn(rows, *x.shape[1:]).cuda() for x in arguments]


@torch.no_grad()
@pytest.mark.parametrize("freezing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_results_and_state(name: str, freezing: bool, tmp_path: Path) -> None:
    model, arguments, exported = made(name)
    targets = list(dict.fromkeys([*TARGETS, target_here()]))
    path = torch_tile.aot.package(exported, tmp_path / "m.tile", targets=targets, options={"freezing": freezing})
    loaded = torch_tile.aot.load(path, device="cuda")
    through_c = c_interface.Model(path, "cuda:0")
    assert loaded.target == through_c.target == target_here()
    for each in (loaded, through_c):
        eager = copy.deepcopy(model).cuda()
        for rows in (8, 2, 33, 8):
            given = moved(arguments, rows)
            copies = [x.clone() for x in given]
            expected: Any = pytree.tree_leaves(eager(*given))
            found = pytree.tree_leaves(each(*copies))
            for one, other in zip(found, expected, strict=False):
                if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                    torch.testing.assert_close(one.cpu(), other.cpu(), rtol=1e-4, atol=1e-4)
            for one, other in zip(copies, given, strict=True):
                torch.testing.assert_close(one, other)


@torch.no_grad()
def test_one_call_does_not_change_results_of_another(tmp_path: Path) -> None:
    """A result of the C interface that lies in a buffer is a copy, on a device too."""
    _, arguments, exported = made("counter")
    path = torch_tile.aot.package(exported, tmp_path / "m.tile", targets=target_here())
    model = c_interface.Model(path, "cuda:0")
    first = model(arguments[0].cuda())[0]
    kept = first.clone()
    model(arguments[0].cuda())
    assert torch.equal(first, kept)


@torch.no_grad()
def test_what_is_refused(tmp_path: Path) -> None:
    _, arguments, exported = made("pointwise")
    path = torch_tile.aot.package(exported, tmp_path / "m.tile", targets=target_here())
    loaded = torch_tile.aot.load(path, device="cuda:0")
    with pytest.raises(RuntimeError, match="for cuda:0 got a tensor on cpu"):
        loaded(*arguments)
    with pytest.raises(ValueError, match="size of dimension 0 expected 0 to 64, got 65"):
        loaded(*moved(arguments, 65))
    count = torch.cuda.device_count()
    with pytest.raises(torch_tile.UnsupportedError, match=f"device 'cuda:{count}' cannot be used: this machine has"):
        torch_tile.aot.load(path, device=f"cuda:{count}")
    others = torch_tile.aot.package(exported, tmp_path / "n.tile", targets="sm_120")
    if torch.cuda.get_device_capability()[0] != 12:
        with pytest.raises(torch_tile.UnsupportedError, match=r"no program for a GPU of .*; it has sm_120"):
            torch_tile.aot.load(others, device="cuda")
