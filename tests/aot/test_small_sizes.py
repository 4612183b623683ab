"""Sizes of 0 and 1, which an exported program accepts although it was traced with larger ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import torch_tile

MODELS: dict[str, nn.Module] = {
    "pool": nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.AdaptiveAvgPool2d(2)),
    "linear": nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)
    ),
    "upsample": nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Upsample(size=(5, 5), mode="bicubic")),
    "norm": nn.Sequential(nn.Flatten(), nn.LayerNorm(768), nn.Softmax(0)),
}  # fmt: skip

RUN = """
import sys, torch, torch_tile
call, expected = torch_tile.aot.load(sys.argv[1]), torch.load(sys.argv[2])
for x, result in expected * 5:
    torch.testing.assert_close(call(x), result, rtol=1e-4, atol=1e-5)
print("fine")
"""


@pytest.mark.parametrize("dim", [Dim("batch"), Dim("batch", min=1, max=64), Dim.AUTO], ids=["any", "range", "auto"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_batches_of_one_and_none(name: str, dim: Any, tmp_path: Path) -> None:
    """In a process of its own, whose allocator looks for writes beyond what it has given."""
    model = MODELS[name].eval()
    exported = export(model, (torch.randn(4, 3, 16, 16),), dynamic_shapes=({0: dim},))
    path = torch_tile.aot.package(exported, tmp_path / "m.tile")
    inputs = [torch.randn(batch, 3, 16, 16) for batch in (1, 2, 1, 7, 0, 1)]
    torch.save([(x, exported.module()(x)) for x in inputs], tmp_path / "expected.pt")
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(path), str(tmp_path / "expected.pt")], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr


@torch.no_grad()
def test_a_bound_that_was_asked_for(tmp_path: Path) -> None:
    exported = export(nn.ReLU(), (torch.randn(8, 3),), dynamic_shapes=({0: Dim("batch", min=5, max=9)},))
    call = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    assert torch.equal(call(-torch.ones(5, 3)), torch.zeros(5, 3))
    with pytest.raises(ValueError, match="size of dimension 0 expected 5 to 9, got 1"):
        call(torch.randn(1, 3))


@torch.no_grad()
def test_a_multiple_of_a_size(tmp_path: Path) -> None:
    """Of a size that is twice another one, what the package accepts is what its program was compiled for."""
    shapes = ({0: 2 * Dim("half", min=1, max=20)},)
    exported = export(nn.Softmax(0), (torch.randn(8, 4),), dynamic_shapes=shapes)
    call = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    for size in (2, 0, 40, 8):
        x = torch.randn(size, 4)
        torch.testing.assert_close(call(x), exported.module()(x))
