"""Frozen graphs are kept on disk: a second process traces nothing and computes its constants by the prologue."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
from torch_tile.frontend import aot
from torch_tile.frontend.freezing.prologue import Prologue, Recorder, UnfitError

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(aot.CACHED_VERSIONS), reason="entries are kept with tried versions of torch only"
)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kinds of the frozen graphs that the front end printed; none where an entry was used."""
    from torch_tile.frontend.freezing import calls

    kinds: list[str] = []
    compile_graph = calls.compile_graph

    def spy(gm: Any, inputs: Any, kind: str, *rest: Any) -> Any:
        kinds.append(kind)
        return compile_graph(gm, inputs, kind, *rest)

    monkeypatch.setattr(calls, "compile_graph", spy)
    return kinds


class Network(torch.nn.Module):
    """Convolutions that take in batch norm, a folded product, a buffer that stays an input."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8, 16)
        self.scale = torch.nn.Parameter(torch.rand(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.convolution(x))).mean((2, 3))
        return self.linear(hidden) * (self.scale * 2).exp()


def network() -> Network:
    torch.manual_seed(0)
    model = Network().eval()
    model.norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]
    model.norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return model


@torch.no_grad()
def again(model: torch.nn.Module, *args: Any, **options: Any) -> Any:
    """The result of a first call, as a new process would make it."""
    torch.compiler.reset()
    compiled = torch.compile(model, backend="tile", options={"freezing": True, **options})
    return compiled(*args), compiled


@torch.no_grad()
def test_a_frozen_graph_is_not_traced_again(cache_dir: Path, traced: list[str]) -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    first, _ = again(model, x)
    assert traced == ["inference"]
    second, compiled = again(copy.deepcopy(model), x)
    assert traced == ["inference"]
    assert torch.equal(first, second)
    torch.testing.assert_close(second, model(x), rtol=1e-4, atol=1e-5)
    assert torch.equal(compiled(x), second)


@torch.no_grad()
def test_other_values_of_parameters(cache_dir: Path, traced: list[str]) -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    again(model, x)
    for parameter in model.parameters():
        parameter.uniform_(-1, 1)
    second, compiled = again(model, x)
    assert traced == ["inference"]
    torch.testing.assert_close(second, model(x), rtol=1e-4, atol=1e-5)
    for _ in range(10):  # more often than programs are made for other parameters
        for parameter in model.parameters():
            parameter.mul_(1.25)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert traced == ["inference"]


@torch.no_grad()
def test_values_that_decide_otherwise(cache_dir: Path, traced: list[str]) -> None:
    """A scaled weight that is not finite is not used: the prologue does not apply."""
    model, x = network(), torch.randn(2, 3, 8, 8)
    again(model, x)
    other = copy.deepcopy(model)
    other.norm.running_var.fill_(0)  # type: ignore[union-attr]
    other.norm.weight.fill_(3e38)
    other.norm.eps = model.norm.eps
    found, _ = again(other, x)
    torch.testing.assert_close(found, other(x), rtol=1e-4, atol=1e-5, equal_nan=True)
    # In the middle of a process that began with the first values.
    again(model, x)
    _, compiled = again(model, x)
    model.norm.running_var.fill_(0)  # type: ignore[union-attr]
    model.norm.weight.fill_(3e38)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5, equal_nan=True)


@torch.no_grad()
def test_a_dynamic_batch(cache_dir: Path, traced: list[str]) -> None:
    model = network()
    torch.compiler.reset()
    for _ in range(2):
        torch.compiler.reset()
        compiled = torch.compile(model, backend="tile", dynamic=True, options={"freezing": True})
        for batch in (2, 5):
            x = torch.randn(batch, 3, 8, 8)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert traced == ["inference"]


def test_the_prologue_of_a_computation() -> None:
    a, b = torch.randn(3, 4), torch.randn(4)
    recorder = Recorder([a, None, b])
    with torch.no_grad(), recorder:
        unused = a.sin()
        made = torch.empty_strided((3, 4), (1, 3))
        made.copy_(a * b.double())
        is_finite = bool(made.isfinite().all())
    assert is_finite
    prologue = recorder.finish([made, a], [0, 2])
    assert prologue is not None
    prologue = Prologue.loads(prologue.dumps())
    assert not any(step.op == "aten::sin" for step in prologue.steps), unused
    found = prologue.run([a, None, b])
    assert torch.equal(found[0], made) and found[0].stride() == made.stride() and found[1] is a
    with pytest.raises(UnfitError, match="not"):
        prologue.run([a, None, b * float("inf")])
    with pytest.raises(UnfitError, match="parameter 2 is of another kind"):
        prologue.run([a, None, b.double()])
    assert recorder.finish([torch.zeros(2)], []) is None


def test_counters_say_disk(cache_dir: Path) -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    again(model, x)
    torch_tile._C.flush_disk_cache()
    before = torch_tile.counters["graphs_from_disk"]
    again(model, x)
    assert torch_tile.counters["graphs_from_disk"] == before + 1
