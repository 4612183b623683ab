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


class _Program(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def _written(x: torch.Tensor) -> torch.Tensor:
    x[:2] = 7.0
    return x.sum()


# The least size for which the trace's shapes hold.
SHAPES: dict[str, tuple[Any, int]] = {
    "exp": (lambda x: x.exp(), 0),
    "sum": (lambda x: x.sum(0), 0),
    "roll": (lambda x: x.roll(1, 0), 1),
    "first": (lambda x: x[:1] * 2, 1),
    "last": (lambda x: x.exp()[-1:] * 2, 1),
    "row": (lambda x: x[0] * 2, 1),
    "extremum": (lambda x: x.amax(0), 1),
    "two": (lambda x: x[:2] * 2, 2),
    "two from behind": (lambda x: (x * 2)[-2:].sum(0), 2),
    "second": (lambda x: x[1] * 2, 2),
    "second one": (lambda x: x[1:2] * 2, 2),
    "squeeze": (lambda x: x.squeeze(0) * 2, 2),
    "added": (lambda x: torch.slice_scatter(x, x[:2] * 2, 0, 0, 2), 2),
    "scatter": (lambda x: torch.select_scatter(x, x[0] * 2, 0, 1), 2),
    "written": (_written, 2),
}


@pytest.mark.parametrize("name", SHAPES)
@torch.no_grad()
def test_shapes_of_the_trace(name: str, tmp_path: Path) -> None:
    """Sizes for which the program has other shapes than those it was traced with are refused: nothing outside of the
    argument is read or written."""
    function, least = SHAPES[name]
    exported = export(_Program(function), (torch.randn(8, 4),), dynamic_shapes=({0: Dim.AUTO},))
    call = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    for size in (2, 1, 0, 5):
        memory = torch.arange(100.0)
        x = memory[40 : 40 + 4 * size].view(size, 4)
        if size < least:
            with pytest.raises(ValueError, match=f"size of dimension 0 expected at least {least}, got {size}"):
                call(x)
            continue
        expected = exported.module()(x.clone())
        torch.testing.assert_close(call(x), expected)
        assert torch.equal(memory[:40], torch.arange(40.0))
        assert torch.equal(memory[40 + 4 * size :], torch.arange(40.0 + 4 * size, 100.0))


@torch.no_grad()
def test_attention_of_nothing(tmp_path: Path) -> None:
    """ATen's kernel divides by the sizes; the process died of it."""
    function = _Program(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    sizes = {0: Dim("batch", min=0, max=99), 2: Dim("length", min=0, max=99)}
    exported = export(function, (torch.randn(4, 2, 7, 4),), dynamic_shapes=(sizes,))
    call = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    for shape in ((1, 2, 1, 4), (3, 2, 5, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(call(x), exported.module()(x))
    for shape in ((0, 2, 7, 4), (3, 2, 0, 4)):
        with pytest.raises(ValueError, match="expected 1 to 99, got 0"):
            call(torch.randn(shape))


@torch.no_grad()
def test_shapes_of_several_sizes(tmp_path: Path) -> None:
    """One dimension that may be 1 and one that may not."""
    function = _Program(lambda x: x[:, :2] * x.mean(1, keepdim=True))
    exported = export(function, (torch.randn(4, 6),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    call = torch_tile.aot.load(torch_tile.aot.package(exported, tmp_path / "m.tile"))
    for shape in ((1, 3), (0, 3), (3, 7)):
        x = torch.randn(shape)
        torch.testing.assert_close(call(x), exported.module()(x))
    with pytest.raises(ValueError, match="size of dimension 1 expected at least 2, got 1"):
        call(torch.randn(3, 1))
