"""Gradients of functions that write an input: the backward takes the value before the write, as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._functorch.config
from torch import nn

from tests.compiling import assert_same, compiled, tile_only

Function = Callable[..., torch.Tensor]


def _of_a_clone(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        old = u.clone()
        u.copy_(u.exp() * 2)
    return w * old.sin().cos()


def _pointwise(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    y = w * u.sin()
    u.mul_(0.5)
    return y


def _two_reads(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    y = (w - u.sin()) * u.cos()
    u.lerp_(w.detach().cos().mean().expand_as(u), 0.1)
    return y.sigmoid()


def _view(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    y = w.flatten()[: u.numel()] * u.t().reshape(-1).exp()
    u.t().add_(1)
    return y


def _part(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    y = w * u.exp()
    u[..., 1:].zero_()
    return y


def _expanded(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    y = w.sin() * u.neg().expand(3, *u.shape).cos()
    u.add_(1)
    return y


def _halves(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    a, b = u.split((3, 2), -1)
    y = (w[..., :3] * a.exp()).cos().sum(-1) + (w[..., 3:] * b.exp()).sin().sum(-1)
    u.sub_(1)
    return y


FUNCTIONS = (_of_a_clone, _pointwise, _two_reads, _view, _part, _expanded, _halves)

LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "dense": lambda: torch.randn(4, 5),
    "strided": lambda: torch.randn(9, 12)[1::2, 2::2],
    "transposed rows": lambda: torch.randn(5, 6)[:, 2:].t(),
}


def _run(function: Function, layout: str) -> tuple[Any, ...]:
    """Results and gradients of two calls, the input after them, and where it begins."""
    torch.manual_seed(0)
    w, u = torch.randn(4, 5, requires_grad=True), LAYOUTS[layout]()
    values = []
    for _ in range(2):
        y = function(w, u)
        values += [y, *torch.autograd.grad(y.square().sum(), [w])]
    return values, u, u.storage_offset()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_write_under_a_saved_value(function: Function, layout: str, dynamic: bool) -> None:
    assert_same(_run(compiled(function, dynamic=dynamic), layout), _run(function, layout))


@pytest.mark.parametrize("budget", [0.0, 0.5])
def test_saved_within_a_budget(budget: float) -> None:
    with torch._functorch.config.patch(activation_memory_budget=budget):
        assert_same(_run(compiled(_two_reads), "dense"), _run(_two_reads, "dense"))


def _read(x: torch.Tensor) -> torch.Tensor:
    y = x.exp().cos()
    x.mul_(2)
    return y


def _read_by_detaching(x: torch.Tensor) -> torch.Tensor:
    y = (x.tanh() + 1).tanh()
    x.detach().add_(2)
    return y


def _read_transposed(x: torch.Tensor) -> torch.Tensor:
    y = (x.tanh() + 1).tanh()
    x.t().add_(2)
    return y


def _read_without_gradients(x: torch.Tensor) -> torch.Tensor:
    y = (x.tanh() + 1).tanh()
    with torch.no_grad():
        x.add_(2)
    return y


@pytest.mark.parametrize("function", [_read, _read_by_detaching, _read_transposed, _read_without_gradients])
def test_written_input_that_needs_gradients(function: Function) -> None:
    def run(f: Function) -> tuple[Any, ...]:
        torch.manual_seed(0)
        leaf = torch.randn(4, 5, requires_grad=True)
        x = leaf * 1
        y = f(x)
        return y, x, *torch.autograd.grad(y.square().sum(), [leaf])

    assert_same(run(compiled(function)), run(function))


class _RunningMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(5))
        self.weight = nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x - self.mean) * self.weight
        self.mean.mul_(0.9).add_(x.detach().mean(0) * 0.1)
        return y.sigmoid()


@pytest.mark.parametrize(
    "make", [_RunningMean, lambda: nn.utils.spectral_norm(nn.Linear(5, 4))], ids=["mean", "spectral_norm"]
)
def test_buffers_of_modules(make: Callable[[], nn.Module]) -> None:
    def run(wrap: Callable[[nn.Module], Any]) -> list[Any]:
        torch.manual_seed(0)
        module = make()
        f = wrap(module)
        values = []
        for _ in range(2):
            y = f(torch.randn(3, 5))
            values += [y, torch.autograd.grad(y.square().sum(), list(module.parameters())), dict(module.state_dict())]
        return values

    assert_same(run(compiled), run(lambda module: module), rtol=1e-5, atol=1e-5)


@tile_only
def test_other_memory_of_a_written_input_is_unsupported() -> None:
    from torch import fx

    from torch_tile.errors import UnsupportedError
    from torch_tile.frontend.written_inputs import save_copies

    with torch._subclasses.FakeTensorMode():
        value = torch.empty_strided((2, 2), (4, 2))
    forward, backward = fx.Graph(), fx.Graph()
    u = forward.placeholder("u")
    forward.output((u,))
    saved = backward.placeholder("u")
    view = backward.call_function(torch.ops.aten.as_strided.default, (saved, [2], [4]))
    backward.output((view,))
    u.meta["val"] = saved.meta["val"] = value
    view.meta["val"] = value[:, 0]
    parts = [fx.GraphModule({}, graph) for graph in (forward, backward)]
    with pytest.raises(UnsupportedError, match="as_strided in the backward pass of u"):
        save_copies(parts[0], parts[1], {"u"}, 0)
