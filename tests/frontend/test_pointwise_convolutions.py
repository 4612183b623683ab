"""Convolutions on the CPU with filters of one point become products where images have channels last, and nowhere else,
if they have no epilogue of their own; which convolutions get channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.compiling import compiled, fresh, strides_that_matter
from torch_tile.debug import record
from torch_tile.frontend import channels_last

Convolution = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

PRODUCTS: dict[str, Convolution] = {
    "plain": lambda x, w, b: F.conv2d(x, w),
    "bias": lambda x, w, b: F.conv2d(x, w, b),
    "between": lambda x, w, b: F.silu(F.conv2d(x * 2, w, b)) + 1,
    "residual": lambda x, w, b: F.conv2d(x, w[: x.shape[1]], b[: x.shape[1]]) + x,
    "one feature": lambda x, w, b: F.conv2d(x, w[:1], b[:1]).sigmoid() * x,
    "dilated": lambda x, w, b: F.conv2d(x, w, b, dilation=3),
    "computed filters": lambda x, w, b: F.conv2d(x, w - w.mean((1, 2, 3), keepdim=True), b),
    "norm": lambda x, w, b: F.relu(F.batch_norm(F.conv2d(x, w), b, b.abs() + 1, b, b)),
    "view of the result": lambda x, w, b: F.conv2d(x, w, b)[:, 1:3, ::2].transpose(2, 3),
}
OTHERS: dict[str, Convolution] = {
    "stride": lambda x, w, b: F.conv2d(x, w, b, stride=2),
    "padding": lambda x, w, b: F.conv2d(x, w, b, padding=1),
    "groups": lambda x, w, b: F.conv2d(x, w[:, :8], b, groups=2),
    "transposed": lambda x, w, b: F.conv_transpose2d(x, w[: x.shape[1]]),
    "points": lambda x, w, b: F.conv2d(x, w.expand(-1, -1, 3, 1), b),
}


def calls_of(call: Any, *arguments: torch.Tensor) -> tuple[Any, str]:
    """The result, and the text of the graph."""
    stages = record._KEPT_STAGES
    record._KEPT_STAGES = ("10-graph.mlir",)
    try:
        with record.recording() as graphs, torch.no_grad():
            result = call(*arguments)
    finally:
        record._KEPT_STAGES = stages
    return result, "".join(text for graph in graphs for text in graph.stages.values())


def operands(dtype: torch.dtype, size: tuple[int, int] = (7, 9), count: int = 2) -> tuple[torch.Tensor, ...]:
    x = torch.randn(count, 16, *size).to(dtype).to(memory_format=torch.channels_last)
    return x, torch.randn(24, 16, 1, 1).to(dtype), torch.randn(24).to(dtype)


def check(call: Any, function: Convolution, given: tuple[torch.Tensor, ...]) -> str:
    result, text = calls_of(call, *given)
    with torch.no_grad():
        eager, exact = function(*given), function(*(x.double() for x in given))
    assert result.dtype is eager.dtype and strides_that_matter(result) == strides_that_matter(eager)
    error, own = ((each.double() - exact).abs().max().item() for each in (result, eager))
    assert error <= 2 * own + 1e-6, (error, own)
    return text


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, dtype: torch.dtype, dynamic: bool) -> None:
    call = compiled(PRODUCTS[name])
    fresh()
    given = operands(dtype)
    for dim in (0, 2, 3) if dynamic else ():
        torch._dynamo.mark_dynamic(given[0], dim)
    text = check(call, PRODUCTS[name], given)
    assert "aten::convolution" not in text and ("mm" in text or "_pointwise" in text)
    check(call, PRODUCTS[name], operands(dtype, (12, 5), 3))
    check(call, PRODUCTS[name], operands(dtype, (1, 1), 3))


@pytest.mark.parametrize("name", OTHERS)
def test_other_convolutions_stay(name: str) -> None:
    fresh()
    assert "convolution" in check(compiled(OTHERS[name]), OTHERS[name], operands(torch.float32))


@pytest.mark.parametrize("options", [{"matmul_library": "aten"}, {"disable_passes": "pointwise_convolutions"}], ids=str)
def test_where_products_are_not_wanted(options: dict[str, Any]) -> None:
    call = torch.compile(PRODUCTS["bias"], backend="tile", options={"strict": True, **options})
    fresh()
    assert "convolution" in check(call, PRODUCTS["bias"], operands(torch.float32))


@pytest.mark.parametrize("name", PRODUCTS)
def test_images_of_one_point_are_rows_in_any_order(name: str) -> None:
    x, w, b = operands(torch.float32, (1, 1), 5)
    fresh()
    assert "aten::convolution" not in check(compiled(PRODUCTS[name]), PRODUCTS[name], (x.contiguous(), w, b))


def test_images_that_are_contiguous_keep_their_convolution() -> None:
    x, w, b = operands(torch.float32)
    fresh()
    assert "convolution" in check(compiled(PRODUCTS["bias"]), PRODUCTS["bias"], (x.contiguous(), w, b))


def chain(channels: int) -> nn.Module:
    layers = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3)]
    return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), *layers, nn.AdaptiveAvgPool2d(1)).eval()


@pytest.mark.parametrize(
    ("channels", "size", "gain", "is_ordered"),
    [
        (16, 40, 0.0, True),  # large images, small filters
        (128, 8, 0.0, False),  # the other way round
        (128, 8, 0.025, True),  # on a processor that gains by multiplications
    ],
)
def test_channels_last_by_what_they_save(
    channels: int, size: int, gain: float, is_ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels_last, "_gain_of_multiplication", lambda: gain)
    model = chain(channels)
    fresh()
    _, text = calls_of(torch.compile(model, backend="tile", options={"strict": True}), torch.randn(2, 3, size, size))
    assert ("graph.clone" in text) == is_ordered


def test_gain_of_a_multiplication_is_measured_whatever_the_defaults_are() -> None:
    torch.set_default_device("meta")
    try:
        assert 0 <= channels_last._gain_of_multiplication.__wrapped__() <= 0.025
    finally:
        torch.set_default_device(None)
