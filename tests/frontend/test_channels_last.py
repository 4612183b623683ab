"""Convolutions on CUDA take images, filters and gradients in channels last: seen on graphs of fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from torch_tile.frontend.channels_last import put_channels_last
from torch_tile.frontend.constant_folding import Constants, Report
from torch_tile.frontend.sizes import has_strides_of

aten = torch.ops.aten
bf16, f32, f64 = torch.bfloat16, torch.float32, torch.float64


def _ordered(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype, device: str) -> GraphModule:
    with FakeTensorMode(allow_non_fake_inputs=True):
        arguments = [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
        graph = make_fx(function, tracing_mode="fake")(*arguments)
    put_channels_last(Constants(graph), Report(), "cuda")
    return graph


def _convolve_groups(x: torch.Tensor, w: torch.Tensor, groups: int) -> Any:
    return aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], groups)


def _convolve(x: torch.Tensor, w: torch.Tensor) -> Any:
    return _convolve_groups(x, w, 1)


def _trained(groups: int) -> Callable[..., Any]:
    """A convolution behind an activation, and gradients of its operands."""

    def function(x: torch.Tensor, w: torch.Tensor, grad: torch.Tensor) -> Any:
        y = _convolve_groups(x.relu(), w, groups).relu()
        arguments = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], groups, [True, True, False])
        dx, dw, _ = aten.convolution_backward.default(grad * (y > 0), x.relu(), w, *arguments)
        return y, dx * (x > 0), dw

    return function


def _calls(graph: GraphModule) -> list[torch.fx.Node]:
    targets = (aten.convolution.default, aten.convolution_backward.default)
    return [node for node in graph.graph.nodes if node.target in targets]


def _are_last(node: torch.fx.Node) -> list[bool]:
    operands = node.args[: 2 if node.target is aten.convolution.default else 3]
    return [has_strides_of(operand.meta["val"], torch.channels_last) for operand in operands]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("dtype", "groups", "is_expected"),
    [(bf16, 1, True), (f32, 1, True), (bf16, 16, True), (f32, 16, False), (bf16, 4, False), (f64, 1, False)],
)
def test_training(dtype: torch.dtype, groups: int, is_expected: bool) -> None:
    shapes = (2, 16, 8, 8), (16, 16 // groups, 3, 3), (2, 16, 8, 8)
    graph = _ordered(_trained(groups), *shapes, dtype=dtype, device="cuda")
    forward, backward = _calls(graph)
    assert all(_are_last(forward)) == is_expected and all(_are_last(backward)) == is_expected
    for result in graph.graph.output_node().args[0]:  # type: ignore[union-attr]
        assert has_strides_of(result.meta["val"], torch.contiguous_format)  # type: ignore[union-attr]


def test_convolutions_elsewhere_stay() -> None:
    graph = _ordered(_convolve, (1, 16, 8, 8), (16, 16, 3, 3), dtype=f32, device="cpu")
    assert not any(_are_last(_calls(graph)[0]))


def test_without_matrix_instructions_of_tf32() -> None:
    convolutions = torch.backends.cudnn.conv
    before = convolutions.fp32_precision
    with torch.backends.__allow_nonbracketed_mutation():  # torch's own test utilities may have frozen the flags
        convolutions.fp32_precision = "ieee"
        try:
            graph = _ordered(_convolve, (1, 16, 8, 8), (16, 16, 3, 3), dtype=f32, device="cuda")
        finally:
            convolutions.fp32_precision = before
    assert not any(_are_last(_calls(graph)[0]))


def test_results_between_convolutions_are_not_copied() -> None:
    def function(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return _convolve(_convolve(x, v).sigmoid() * 2, w) + 1

    graph = _ordered(function, (2, 16, 8, 8), (16, 16, 3, 3), (16, 16, 3, 3), dtype=bf16, device="cuda")
    clones = [node.args[0] for node in graph.graph.nodes if node.target is aten.clone.default]
    assert [node.op for node in clones if isinstance(node, torch.fx.Node)].count("placeholder") == 3
    assert len(clones) == 4  # both filters, the image, and the result back
