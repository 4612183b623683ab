"""Activations and sums that oneDNN does with a product: as close to the exact result as eager's, named in `explain`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_tile
from tests.compiling import fresh, tile_only
from torch_tile import _C, config

pytestmark = tile_only

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
}
HAS_FLOAT = _C.prefers_onednn("auto")
HAS_BFLOAT16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()


class Layer(nn.Module):
    def __init__(self, layer: nn.Module, after: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.after = layer, after

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
        return self.after(self.layer(x), *others)


def check(model: nn.Module, *inputs: torch.Tensor, freezing: bool = False, dynamic: bool = False) -> list[str]:
    """Compares with float64 and eager; the names of the operators called outside."""
    fresh()
    call = torch.compile(model, backend="tile", dynamic=dynamic, options={"strict": True, "freezing": freezing})
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*(x.double() for x in inputs))
        own, result = model(*inputs), call(*inputs)
        assert result.dtype is own.dtype and result.shape == own.shape and result.stride() == own.stride()
        # Errors that are made in float32 alone stay below a few units in the last place of what is added up.
        unit = torch.finfo(own.dtype).eps
        error, mine = ((r.double() - exact).abs().max().item() for r in (result, own))
        assert error <= 2 * mine + 4 * unit * max(1.0, exact.abs().max().item()), (error, mine)
        with config.patch(freezing=freezing, strict=True):
            return [name for _, name, _ in torch_tile.explain(model, *inputs).externs]


@pytest.mark.parametrize("freezing", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_linear(name: str, dtype: torch.dtype, freezing: bool) -> None:
    model = Layer(nn.Linear(96, 160), ACTIVATIONS[name]).to(dtype)
    is_fused = HAS_FLOAT if dtype is torch.float32 else HAS_BFLOAT16
    for sizes in ((200, 96), (4, 50, 96)):
        names = check(model, 2 * torch.randn(sizes, dtype=dtype), freezing=freezing)
        assert names == (["mkldnn::_linear_pointwise"] if is_fused else ["aten::addmm"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_convolution(name: str, dtype: torch.dtype) -> None:
    for convolution in (nn.Conv2d(16, 24, 3, padding=1), nn.Conv2d(16, 16, 3, 2, groups=16, bias=False)):
        model = Layer(convolution, ACTIVATIONS[name]).to(dtype).to(memory_format=torch.channels_last)
        x = torch.randn(2, 16, 20, 20, dtype=dtype).to(memory_format=torch.channels_last)
        for freezing in (False, True):
            is_fused = dtype is torch.float32 or HAS_BFLOAT16
            expected = "mkldnn::_convolution_pointwise" if is_fused else "aten::convolution"
            assert check(model, x, freezing=freezing) == [expected]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("freezing", [False, True])
def test_residuals(dtype: torch.dtype, freezing: bool) -> None:
    x = torch.randn(2, 16, 20, 20, dtype=dtype).to(memory_format=torch.channels_last)
    for kernel in (1, 3):
        for after in (torch.add, lambda y, r: r + y, lambda y, r: torch.relu(z := y + r) * z):
            model = Layer(nn.Conv2d(16, 16, kernel, padding=kernel // 2), after).to(dtype)
            model = model.to(memory_format=torch.channels_last)
            names = check(model, x, torch.randn_like(x), freezing=freezing)
            is_fused = dtype is torch.float32 or HAS_BFLOAT16
            assert names == ["mkldnn::_convolution_pointwise.binary" if is_fused else "aten::convolution"]


def test_dynamic_sizes() -> None:
    model = Layer(nn.Linear(96, 160), F.gelu)
    for freezing in (False, True):
        check(model, torch.randn(200, 96), freezing=freezing, dynamic=True)
    fresh()
    call = torch.compile(model, backend="tile", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for rows in (200, 3, 1, 500):
            x = torch.randn(rows, 96)
            torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)


def test_what_stays_apart() -> None:
    """Values that others read, sums that broadcast, operands of other kinds."""
    image = torch.randn(2, 16, 12, 12).to(memory_format=torch.channels_last)
    ways: list[tuple[nn.Module, tuple[torch.Tensor, ...]]] = [
        (nn.Conv2d(16, 16, 1), (torch.randn(1, 16, 1, 1),)),
        (nn.Conv2d(16, 16, 1), (torch.randn(2, 16, 12, 12),)),
        (nn.Conv2d(16, 16, 4, groups=4, padding=1), (torch.randn(2, 16, 11, 11),)),
    ]
    for layer, others in ways:
        model = Layer(layer, torch.add).to(memory_format=torch.channels_last)
        assert check(model, image, *others) == ["aten::addmm" if layer.kernel_size == (1, 1) else "aten::convolution"]
    linear = nn.Linear(96, 160)
    for after in (
        F.relu,  # oneDNN's make zero of NaN
        F.relu6,
        lambda y: F.hardtanh(y, -0.5, 2),
        lambda y: F.gelu(y) + y,
        lambda y: y * torch.sigmoid(y + 1),
        lambda y: y * torch.sigmoid(y) + torch.sigmoid(y),
        lambda y: (y + 3).clamp(0, 6) * y / 5,
        lambda y: F.relu(y.to(torch.float64)).to(y.dtype),
        lambda y: torch.where(y > 1, y, y * 0.5),
    ):
        assert check(Layer(linear, after), torch.randn(200, 96)) == ["aten::addmm"]
    twice = Layer(nn.Conv2d(16, 16, 1), lambda y: y + y).to(memory_format=torch.channels_last)
    assert check(twice, image) == ["aten::addmm"]


def test_settings_are_heeded() -> None:
    model, x = Layer(nn.Linear(96, 160), F.gelu), torch.randn(200, 96)
    for options in ({"matmul_library": "aten"}, {"fusion": False}):
        with torch.no_grad(), config.patch(**options):
            assert [name for _, name, _ in torch_tile.explain(model, x).externs] == ["aten::addmm"]


def test_not_finite() -> None:
    layer = nn.Linear(96, 160)
    x = torch.randn(200, 96)
    x[3, 5], x[7, 2], x[9, 1] = float("nan"), float("inf"), -float("inf")
    for name, activation in {**ACTIVATIONS, "relu": F.relu, "relu6": F.relu6}.items():
        fresh()
        call = torch.compile(Layer(layer, activation), backend="tile", options={"strict": True})
        with torch.no_grad():
            # On some processors float32 gelu, of ATen and of oneDNN, makes NaN of inf, where float64 and other code
            # keep inf.
            product = layer(x)
            result, eager, exact = call(x), activation(product), activation(product.double()).float()
        is_eager = torch.equal(result.isnan(), eager.isnan())
        assert is_eager or torch.equal(result.isnan(), exact.isnan()), name
        torch.testing.assert_close(result, eager if is_eager else exact, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_training_keeps_what_gradients_need() -> None:
    model, x = Layer(nn.Linear(96, 160), F.gelu), torch.randn(200, 96, requires_grad=True)
    fresh()
    call = torch.compile(model, backend="tile", options={"strict": True, "freezing": True})
    (got,) = torch.autograd.grad(call(x).square().sum(), x)
    (expected,) = torch.autograd.grad(model(x).square().sum(), x)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
