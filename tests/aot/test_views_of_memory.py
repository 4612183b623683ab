"""Arguments of a package whose memory `as_strided` reads."""

from pathlib import Path

import pytest
import torch
from torch import nn

import torch_tile
from tests.aot import c_interface, runner


class Diagonal(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).as_strided((4,), (5,)) + y.sum()


class Plain(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).diagonal() + y.sum()


def _packaged(model: nn.Module, path: Path, x: torch.Tensor, y: torch.Tensor) -> Path:
    torch_tile.aot.package(torch.export.export(model, (x, y)), path)
    return path


def test_other_strides_are_refused(tmp_path: Path) -> None:
    x, y = torch.arange(16.0).view(4, 4), torch.ones(3, 2)
    path = _packaged(Diagonal(), tmp_path / "m.tile", x, y)
    calls = [torch_tile.aot.load(path)]
    if not runner.reason_to_skip():
        calls.append(c_interface.Model(str(path)))
    for call in calls:
        result = call(x, y)
        result = result[0] if isinstance(result, (list, tuple)) else result
        assert torch.equal(torch.as_tensor(result), Diagonal()(x, y))
        call(x, y.t().contiguous().t())  # the memory of y is not read as such
        with pytest.raises(
            (ValueError, RuntimeError), match=r"argument `x`: stride of dimension 0 expected 4, .*got 1; as_strided"
        ):
            call(x.t(), y)


def test_other_arguments_may_have_any_strides(tmp_path: Path) -> None:
    x, y = torch.arange(16.0).view(4, 4), torch.ones(3, 2)
    loaded = torch_tile.aot.load(_packaged(Plain(), tmp_path / "m.tile", x, y))
    assert torch.equal(loaded(x.t(), y), Plain()(x.t(), y))
