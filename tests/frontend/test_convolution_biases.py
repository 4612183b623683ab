"""Biases of convolutions on CUDA, and their gradients, become ops: graphs of fake CUDA tensors, values on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from torch_tile import config
from torch_tile.frontend import convolution_biases
from torch_tile.frontend.convolution_biases import separate_biases

aten = torch.ops.aten
Shapes = tuple[tuple[int, ...], ...]
PLAIN: Shapes = ((2, 8, 6, 6), (8, 8, 3, 3), (8,))


def _graphs(
    function: Callable[..., Any],
    shapes: Shapes,
    device: str = "cuda",
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> tuple[GraphModule, GraphModule]:
    """The traced graph, and the one whose biases are ops."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        arguments = [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
        graph = make_fx(function, tracing_mode="fake")(*arguments)
    return graph, separate_biases(graph, config.resolve(options=options))


def _convolve(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *, groups: int = 1, is_transposed: bool = False
) -> torch.Tensor:
    num_dims = x.dim() - 2
    ones, zeros = [1] * num_dims, [0] * num_dims
    return aten.convolution.default(x, w, b, ones, ones, ones, is_transposed, zeros, groups)  # type: ignore[no-any-return]


def _plain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _convolve(x, w, b)


def _gradients(mask: list[bool]) -> Callable[..., Any]:
    def function(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        ones = [1, 1]
        found = aten.convolution_backward.default(g, x, w, [w.shape[0]], ones, ones, ones, False, [0, 0], 1, mask)
        return [each for each in found if each is not None]

    return function


def _biased(graph: GraphModule) -> list[bool]:
    """Of each convolution, whether it has a bias."""
    return [n.args[2] is not None for n in graph.graph.find_nodes(op="call_function", target=aten.convolution.default)]


def _check_values(graph: GraphModule, changed: GraphModule, shapes: Shapes) -> None:
    operands = [torch.randint(-2, 3, shape).float() for shape in shapes]  # sums of few are exact in any order
    expected, found = graph(*operands), changed(*operands)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (_plain, PLAIN),
        (_plain, ((2, 8, 9), (4, 8, 3), (4,))),
        (_plain, ((1, 2, 5, 5, 5), (4, 2, 3, 3, 3), (4,))),
        (lambda x, w, b: _convolve(x, w, b, groups=2), ((2, 8, 6, 6), (8, 4, 3, 3), (8,))),
        (lambda x, w, b: _convolve(x, w, b, is_transposed=True), ((2, 8, 6, 6), (8, 3, 3, 3), (3,))),
        (lambda x, w, b: _convolve(_convolve(x, w, b).relu(), w, b) + 1, PLAIN),
        (_plain, ((1, 1, 6, 6), (1, 1, 3, 3), (1,))),
    ],
    ids=["image", "signal", "volume", "groups", "transposed", "twice", "one_channel"],
)
def test_bias(function: Callable[..., Any], shapes: Shapes) -> None:
    graph, changed = _graphs(function, shapes)
    assert all(_biased(graph)) and not any(_biased(changed))
    _check_values(graph, changed, shapes)
    results = [g.graph.output_node().args[0].meta["val"] for g in (graph, changed)]  # type: ignore[union-attr]
    assert results[0].stride() == results[1].stride() and results[0].dtype is results[1].dtype


def test_strides_of_channels_last_stay() -> None:
    graph, _ = _graphs(_plain, PLAIN, dtype=torch.bfloat16)
    (node,) = graph.graph.find_nodes(op="call_function", target=aten.convolution.default)
    with node.meta["val"].fake_mode:  # where torch has no cuDNN, its fake results lie row by row
        node.meta["val"] = node.meta["val"].to(memory_format=torch.channels_last)
    changed = separate_biases(graph, config.resolve(options={}))
    (result,) = changed.graph.output_node().all_input_nodes
    assert not any(_biased(changed)) and result.meta["val"].stride() == (288, 1, 48, 8)


def _take_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of CPU tensors count as those of CUDA tensors."""
    is_of_cudnn = convolution_biases._is_of_cudnn

    def of_the_same_on_cuda(weight: torch.Tensor, groups: object) -> bool:
        return is_of_cudnn(SimpleNamespace(device=torch.device("cuda"), shape=weight.shape, dtype=weight.dtype), groups)  # type: ignore[arg-type]

    monkeypatch.setattr(convolution_biases, "_is_of_cudnn", of_the_same_on_cuda)


@pytest.mark.parametrize(("channels", "is_bias_separate"), [(4, True), (1, False)])
def test_groups_of_unknown_number(channels: int, is_bias_separate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `dynamic=True`, which takes the number for a size."""

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return _convolve(x, w, b, groups=x.shape[1] // channels)

    graph = make_fx(function, tracing_mode="symbolic")(
        *(torch.empty(s) for s in ((2, 8, 6, 6), (8, channels, 3, 3), (8,)))
    )
    (call,) = graph.graph.find_nodes(op="call_function", target=aten.convolution.default)
    assert isinstance(call.args[8], torch.fx.Node)
    with call.args[1].meta["val"].fake_mode:  # of the filters, sizes are known
        call.args[1].meta["val"] = torch.empty(8, channels, 3, 3)
    _take_processors(monkeypatch)
    assert _biased(separate_biases(graph, config.resolve(options={}))) == [not is_bias_separate]


def test_dynamic_sizes_get_no_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_fx(_plain, tracing_mode="symbolic")(*(torch.empty(shape) for shape in PLAIN))
    (before,) = graph.graph.output_node().all_input_nodes
    shape_env = before.meta["val"].fake_mode.shape_env
    guards = len(shape_env.guards)
    _take_processors(monkeypatch)
    changed = separate_biases(graph, config.resolve(options={}))
    (after,) = changed.graph.output_node().all_input_nodes
    assert not any(_biased(changed)) and len(shape_env.guards) == guards
    assert str(after.meta["val"].shape) == str(before.meta["val"].shape) and "s" in str(after.meta["val"].shape)
    _check_values(graph, changed, ((3, 8, 7, 9), *PLAIN[1:]))


@pytest.mark.parametrize(
    ("shapes", "arguments"),
    [
        (PLAIN, {"device": "cpu"}),
        (PLAIN, {"disable_passes": "convolution_biases"}),
        (PLAIN, {"fusion": False}),
        # eager mode's kernels for one filter per channel add the bias before they round
        (((2, 8, 6, 6), (8, 1, 3, 3), (8,)), {}),
    ],
    ids=["cpu", "left_out", "no_fusion", "depthwise"],
)
def test_stays(shapes: Shapes, arguments: dict[str, Any]) -> None:
    groups = shapes[0][1] // shapes[1][1]
    graph, changed = _graphs(lambda x, w, b: _convolve(x, w, b, groups=groups), shapes, **arguments)
    assert changed is graph and all(_biased(graph))


@pytest.mark.parametrize("mask", [[True, True, True], [False, True, True], [False, False, True]], ids=str)
def test_gradient(mask: list[bool]) -> None:
    shapes = (2, 8, 6, 6), (2, 8, 6, 6), (8, 8, 3, 3)
    graph, changed = _graphs(_gradients(mask), shapes)
    calls = changed.graph.find_nodes(op="call_function", target=aten.convolution_backward.default)
    assert [node.args[10] for node in calls] == ([[*mask[:2], False]] if any(mask[:2]) else [])
    assert changed.graph.find_nodes(op="call_function", target=aten.sum.dim_IntList)
    _check_values(graph, changed, shapes)
