"""Frozen graphs are kept on disk: a second process traces nothing and computes its constants by the prologue."""

from __future__ import annotations

import copy
import functools
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


class Scalars(torch.nn.Module):
    """Parameters and buffers of no dimension, and what is computed of others and has none."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.s = torch.nn.Parameter(torch.tensor(value))
        self.d = torch.nn.Parameter(torch.tensor(value + 0.25, dtype=torch.float64))
        self.w = torch.nn.Parameter(torch.linspace(1, 2, 4) * value)
        self.n = torch.nn.Buffer(torch.tensor(int(value) + 1))
        self.b = torch.nn.Buffer(torch.tensor(value > 2))
        self.plain = torch.tensor(value)


OF_SCALARS = {
    "mul": lambda m, x: x * m.s,
    "double": lambda m, x: x + m.d,
    "sum": lambda m, x: x * m.w.sum(),
    "element": lambda m, x: x / m.w[0],
    "norm": lambda m, x: x * m.w.norm(),
    "integer": lambda m, x: x * m.n,
    "power": lambda m, x: x**m.n,
    "bool": lambda m, x: torch.where(m.b, x, -x),
    "fill": lambda m, x: x.masked_fill(x > 1, m.s),
    "lerp": lambda m, x: torch.lerp(x, x * 2, m.s),
    "expand": lambda m, x: x + m.s.expand(4),
    "product": lambda m, x: (x + m.n) @ (torch.outer(m.w, m.w) * m.b),
    "norm of layers": lambda m, x: torch.nn.functional.layer_norm(x, (4,), m.w) * m.s,
    "linear": lambda m, x: torch.nn.functional.linear(x, torch.outer(m.w, m.w)) * m.s.exp(),
    "attribute": lambda m, x: x * m.plain,
}


@torch.no_grad()
@pytest.mark.parametrize("name", OF_SCALARS)
def test_other_values_of_scalars(name: str, cache_dir: Path) -> None:
    """Numbers of a model are no part of what another one finds in the cache."""
    x = torch.linspace(0.5, 2, 12).view(3, 4)
    for value in (1.0, 3.0, 2.5, 1.0):
        model = Scalars(value).eval()
        model.forward = functools.partial(OF_SCALARS[name], model)
        found, compiled = again(model, x)
        torch.testing.assert_close(found, model.forward(x))
        for tensor in (*model.parameters(), *model.buffers(), model.plain):
            tensor.logical_not_() if tensor.dtype is torch.bool else tensor.add_(1)
        torch.testing.assert_close(compiled(x), model.forward(x))


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
