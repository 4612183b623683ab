"""Order in memory of results whose operands lie in different orders: that of eager mode."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh, strides_that_matter, tile_only

aten = torch.ops.aten


def numbers(*sizes: int) -> torch.Tensor:
    return torch.rand(sizes) / 2 + 0.25


def matrices() -> list[torch.Tensor]:
    expanded, column = numbers(4, 1).expand(4, 5), numbers(1, 4).t()
    return [numbers(4, 5), numbers(5, 4).t(), expanded, column, numbers(5), numbers(4, 10)[:, ::2], numbers(1).sum()]


def volumes() -> list[torch.Tensor]:
    moved = numbers(5, 1, 4).permute(1, 2, 0)
    return [numbers(3, 4, 5), numbers(5, 3, 4).permute(1, 2, 0), moved, numbers(4, 3, 1).transpose(0, 1)]


def images() -> list[torch.Tensor]:
    channels_last = numbers(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    return [numbers(2, 3, 4, 5), channels_last, numbers(1, 3, 1, 1)]


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "floor_divide": lambda a, b: a // b,
    "copysign": torch.copysign,
    "xlogy": torch.xlogy,
    "xlogy_integers": lambda a, b: torch.xlogy((a * 8).int(), (b * 8).long()),
    "xlog1py": torch.special.xlog1py,
    "logaddexp": torch.logaddexp,
    "heaviside": torch.heaviside,
    "logical_and": torch.logical_and,
    "logical_xor_of_dtypes": lambda a, b: torch.logical_xor(a > 0.5, b.bfloat16()),
    "hypot": torch.hypot,
    "complex": torch.complex,
    "polar": lambda a, b: torch.view_as_real(torch.polar(a, b)),
    "add": lambda a, b: torch.add(a, b, alpha=2),
    "sub": lambda a, b: torch.sub(a, b, alpha=3),
    "rsub": lambda a, b: torch.rsub(a, b, alpha=2),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "lerp_tensor": lambda a, b: torch.lerp(a, b, a),
    "addcdiv": lambda a, b: torch.addcdiv(b, a, b),
    "clamp": lambda a, b: a.clamp(b, a + 1),
    "chebyshev": lambda a, b: torch.special.chebyshev_polynomial_t(a, b),
    "tanh_backward": aten.tanh_backward,
    "silu_backward": aten.silu_backward,
    "threshold_backward": lambda a, b: aten.threshold_backward(a, b, 0.5),
    "leaky_relu_backward": lambda a, b: aten.leaky_relu_backward(a, b, 0.1, False),
    "softplus_backward": lambda a, b: aten.softplus_backward(a, b, 1.0, 20.0),
    "elu_backward": lambda a, b: aten.elu_backward(a, 1.0, 1.0, 1.0, False, b),
    "hardswish_backward": aten.hardswish_backward,
    "logit_backward": aten.logit_backward,
}
OF_EQUAL_SIZES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "binary_cross_entropy": lambda a, b: F.binary_cross_entropy(a, b, reduction="none"),
    "huber_loss": lambda a, b: F.huber_loss(a, b, reduction="none"),
    "binary_cross_entropy_backward": lambda a, b: aten.binary_cross_entropy_backward(a, a, b, None, 0),
    "mse_loss_backward": lambda a, b: aten.mse_loss_backward(b, a, b, 0),
    "smooth_l1_loss_backward": lambda a, b: aten.smooth_l1_loss_backward(b, a, b, 0, 1.0),
    "native_dropout_backward": lambda a, b: aten.native_dropout_backward(a, b > 0.5, 2.0),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", [*FUNCTIONS, *OF_EQUAL_SIZES])
def test_operands_of_different_orders(name: str, dynamic: bool) -> None:
    function = FUNCTIONS.get(name) or OF_EQUAL_SIZES[name]
    pairs = [pair for operands in (matrices(), volumes(), images()) for pair in itertools.permutations(operands, 2)]
    if name in OF_EQUAL_SIZES:
        alike = [(x, x) for x in (matrices()[1], images()[1])]
        pairs = [*((a, b) for a, b in pairs if a.shape == b.shape), *alike]
    if dynamic:
        pairs = pairs[::3]
    result = compiled(lambda pairs: [function(a, b) for a, b in pairs], dynamic=dynamic)(pairs)
    assert_same(result, [function(a, b) for a, b in pairs], 1e-5, 1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_order_takes_no_kernel(dynamic: bool) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.copysign(a // b, b) * 2

    a, b = numbers(40, 50), numbers(50, 40).t()
    fresh()
    result = compiled(function, dynamic=dynamic)(a, b)
    assert_same(result, function(a, b))
    if IS_TILE:
        assert (count("kernels"), count("externs")) == (1, 0)


LAYERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "elu": F.elu,
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "relu": F.relu,
    "softplus": F.softplus,
    "threshold": lambda x: F.threshold(x, 0.4, 0.1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_other_orders_than_operands(name: str) -> None:
    layer = LAYERS[name]
    x = numbers(4, 5).requires_grad_()
    for factor in (numbers(5, 4).t(), numbers(4, 1).expand(4, 5)):
        fresh()
        (expected,) = torch.autograd.grad((layer(x) * factor).sum(), x)
        (result,) = torch.autograd.grad(compiled(lambda x, y: (layer(x) * y).sum())(x, factor), x)
        assert_same(result, expected)


def test_views_behind_a_graph_break() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        loss = F.binary_cross_entropy(a.sigmoid(), b, reduction="none")
        torch._dynamo.graph_break()
        return loss.view(-1)

    a, b = numbers(4, 5).requires_grad_(), numbers(5, 4).t()
    assert_same(compiled(function, fullgraph=False)(a, b), function(a, b))


@pytest.mark.parametrize("dynamic", [False, True])
def test_indexed_tensors(dynamic: bool) -> None:
    """Dimensions of one element, and indices of another order than that of a new tensor, tell the order, too."""

    def function(x: torch.Tensor, row: torch.Tensor, table: torch.Tensor, flat: torch.Tensor) -> Any:
        return x[:, row], x[:, :, row], x[table], x[:, table], x[table, :, table], flat[table], flat[table][:, row] + 1

    table = torch.tensor([[0, 0], [0, 0], [0, 0]]).t()
    for x in (numbers(5, 1, 4).permute(1, 2, 0), numbers(2, 3, 4), numbers(4, 2, 3).permute(1, 2, 0)):
        fresh()
        arguments = x, torch.tensor([1, 0]), table, numbers(7)
        assert_same(compiled(function, dynamic=dynamic)(*arguments), function(*arguments))


@tile_only
@pytest.mark.parametrize("dynamic", [False, True])
def test_random_numbers(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        drawn = torch.rand_like(x), torch.randn_like(x), x.clone().uniform_(), x.clone().normal_()
        return *drawn, x + drawn[0], F.dropout(x), torch.randint_like(x, 5), x.clone().exponential_()

    for x in (numbers(5, 4).t(), images()[1], numbers(5, 3, 4).permute(1, 2, 0), numbers(4, 10)[:, ::2]):
        fresh()
        for result, expected in zip(compiled(function, dynamic=dynamic)(x), function(x), strict=True):
            assert strides_that_matter(result) == strides_that_matter(expected)
            assert 0.01 < result.std().item() < 10.0
