"""Kernels that Inductor writes for Triton: a second author of kernels than these tests' own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config as inductor_config

from torch_tile.triton.driver import CpuLauncher


@pytest.fixture(autouse=True)
def triton_on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inductor writes for Triton, and what it writes comes by our launcher."""
    launches = []
    original = CpuLauncher.__call__

    def count(self: CpuLauncher, *args: Any) -> None:
        launches.append(self)
        original(self, *args)

    monkeypatch.setattr(CpuLauncher, "__call__", count)
    torch._dynamo.reset()
    with inductor_config.patch(cpu_backend="triton", force_disable_caches=True, compile_threads=1):
        yield
    assert launches


def norm_and_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(F.layer_norm(x, x.shape[-1:]) * 2, -1)


def indices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.argmax(1), x.cumsum(1), x.gather(1, x.argmin(1, keepdim=True)), x.amax(0)


def loss(x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, torch.arange(x.shape[0]) % x.shape[1])


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x) + torch.where(x > 0, x.exp(), x.sin()) * x.T.contiguous().T.pow(2)


def statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (*torch.var_mean(x, 1), x.sum(0), x.prod(1), x.std())


def add_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(7, x.shape[1]).index_add(0, torch.arange(x.shape[0]) % 7, x)


@pytest.mark.parametrize("function", [norm_and_softmax, indices, loss, pointwise, statistics, add_rows])
def test_equal_to_eager(function: Callable[..., Any]) -> None:
    x = torch.randn(33, 257)
    compiled = torch.compile(function, backend="inductor")
    torch.testing.assert_close(compiled(x), function(x), rtol=2e-5, atol=2e-5)


def test_training_step() -> None:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x = torch.randn(2, 9, 32)
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    compiled = torch.compile(model, backend="inductor")
    grads = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
    torch.testing.assert_close(grads, expected, rtol=1e-3, atol=1e-3)
