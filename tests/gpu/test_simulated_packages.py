"""Packages for GPUs on a machine without one: what is chosen, and kernels of the packaged programs on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torch_tile
from tests.gpu import simulator
from tests.gpu.packages import MODELS, TARGETS, made
from tests.gpu.simulated_graphs import SimulatedGraph
from tests.language.conftest import has_compiler
from torch_tile import _C, config
from torch_tile.aot.lower import lower
from torch_tile.frontend.part_writes import into_inputs

pytestmark = pytest.mark.skipif(not has_compiler(), reason="needs a compiler")


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_every_target_is_there_and_chosen(name: str, tmp_path: Path) -> None:
    _, _, exported = made(name)
    path = torch_tile.aot.package(exported, tmp_path / "m.tile", targets=[*TARGETS, "sm_100"])
    torch_tile.aot.verify(path)
    file = _C.open_package(path)
    chosen = {capability: file.variants[file.choose(capability)]["target"] for capability in (80, 86, 89, 90, 100, 103)}
    assert chosen == {80: "sm_80", 86: "sm_80", 89: "sm_80", 90: "sm_90a", 100: "sm_100", 103: "sm_100"}
    for capability in (75, 120):
        with pytest.raises(
            torch_tile.UnsupportedError, match=r"capability (7.5|12.0); it has host, sm_80, sm_90, sm_90a"
        ):
            file.choose(capability)
    data = Path(path).read_bytes()
    for target in ("sm_80", "sm_90", "sm_90a", "sm_100"):
        assert f".target {target}".encode() in data
    assert torch_tile.aot.load(path).target == "host"


@torch.no_grad()
@pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_kernels_of_a_packaged_program(target: str) -> None:
    model, arguments, exported = made("pointwise")
    lowered = lower(exported, config.resolve(), "cuda")
    files: dict[str, str] = {}
    options = {"target": target}
    _C.compile_graph(lowered.text, options, None, 0, files.__setitem__, [], device="cuda:0", architecture=target)
    inputs = [arguments[each] if isinstance(each, int) else each.tensor.detach() for each in lowered.inputs]
    found = SimulatedGraph(files).run(*inputs)
    for one, expected in zip(found, model(*arguments), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-5)


class Cache(torch.nn.Module):
    """Rows of a buffer, read before and after they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.arange(2 * 4 * 64 * 8.0).view(2, 4, 64, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = self.cache[:, :, 7] + 0
        self.cache[:, :, 5:6] = x
        self.cache[:, :, 8::16] *= 2
        return before, self.cache[:, :, 5] * 2, self.cache.sum(2)


@torch.no_grad()
@pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
def test_parts_of_a_buffer_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(into_inputs, "_is_worth_it", lambda chain: True)
    model, x = Cache(), torch.randn(2, 4, 1, 8)
    lowered = lower(torch.export.export(model, (x,)), config.resolve(), "cuda")
    files: dict[str, str] = {}
    options = {"target": "sm_80"}
    _C.compile_graph(lowered.text, options, None, 0, files.__setitem__, [], device="cuda:0", architecture="sm_80")
    assert "alloc f32 [2, 4, 64, 8]" not in files["55-program.txt"], "a whole buffer anew"
    inputs = [x if isinstance(each, int) else each.tensor.detach().clone() for each in lowered.inputs]
    found = SimulatedGraph(files).run(*inputs)
    for one, expected in zip(found, model(x), strict=True):
        torch.testing.assert_close(one, expected)
    written = next(one for one, each in zip(inputs, lowered.inputs, strict=True) if not isinstance(each, int))
    assert torch.equal(written, model.cache)


@torch.no_grad()
@pytest.mark.parametrize("freezing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_constants_are_on_the_device(name: str, freezing: bool) -> None:
    """Parameters are exported on the CPU; the program that reads them finds them on the device."""
    model, _, exported = made(name)
    lowered = lower(exported, config.resolve(options={"freezing": freezing}), "cuda")
    files: dict[str, str] = {}
    options = {"target": "sm_80"}
    _C.compile_graph(lowered.text, options, None, 0, files.__setitem__, [], device="cuda:0", architecture="sm_80")
    assert "is not on the device" not in files["30-tile.mlir"] + lowered.text
    constants = [each for each in lowered.inputs if not isinstance(each, int)]
    assert not any(hasattr(each.tensor, "fake_mode") for each in constants)
    if not freezing:
        assert {each.name for each in constants} <= {*model.state_dict()}
