"""Graphs that take or give Python floats and bools, and tensors of types that no kernel computes with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import IS_TILE, assert_same, compiled, count

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)


pytestmark = pytest.mark.usefixtures("captured")


NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "float of sizes": lambda x: (x * 2, x.shape[0] * 1.5),
    "quotient of sizes": lambda x: (x * 2, x.shape[0] / x.shape[1]),
    "root of a size": lambda x: (x.sum(), math.sqrt(x.shape[0])),
    "comparison of sizes": lambda x: (x * 2, x.shape[0] == x.shape[1], x.shape[0] > 3),
    "comparison of floats": lambda x: (x * 2, x.shape[0] / 2 > 1.0, x.shape[0] / 4 > x.shape[1]),
    "bool item": lambda x: (x * 2, (x > 0).any().item(), (x > 100).any().item()),
    "float item": lambda x: (x * 2, x.double().amax().item()),
    "complex item": lambda x: (x * 2, torch.complex(x, x)[0, 0].item()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_results_that_are_numbers(name: str) -> None:
    x = torch.randn(6, 4)
    function = compiled(NUMBERS[name], dynamic=True, fullgraph=False)
    for each in (x, torch.randn(9, 5), torch.randn(2, 2)):
        assert_same(function(each), NUMBERS[name](each))
    assert count("fallbacks") == 0


def test_numbers_of_an_aten_graph() -> None:
    """What AOTAutograd may hand over though Dynamo rarely does: floats among inputs and constants among outputs."""
    from torch_tile import config
    from torch_tile.frontend.compile import compile_graph

    graph = torch.fx.Graph()
    mode = torch._subclasses.FakeTensorMode()
    x, factor = graph.placeholder("x"), graph.placeholder("factor")
    with mode:
        x.meta["val"] = torch.empty(4)
    factor.meta["val"] = 2.5
    product = graph.call_function(torch.ops.aten.mul.Tensor, (x, factor))
    with mode:
        product.meta["val"] = torch.empty(4)
    graph.output((product, factor, 0.5, True, 3, None))
    gm = torch.fx.GraphModule({}, graph)
    program = compile_graph(gm, [], "inference", config.resolve(None, {"strict": True}))
    value = torch.randn(4)
    result = program([value, 2.5])
    assert_same(result[0], value * 2.5)
    assert list(result[1:]) == [2.5, 0.5, True, 3, None] and type(result[3]) is bool


def test_calls_of_python_take_bools() -> None:
    def by_size(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 3, lambda y: y.sin() + 1, lambda y: y.cos(), (x,))

    function = compiled(by_size, dynamic=True)
    for rows in (6, 9, 2):
        x = torch.randn(rows, 4)
        assert_same(function(x), x.sin() + 1 if rows > 3 else x.cos())
    assert count("fallbacks") == 0


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex32_is_computed_outside() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.complex(x, x + 1).reshape(-1)) * 2 + 1

    x = torch.randn(6, 4, dtype=torch.float16)
    assert_same(compiled(function)(x), function(x))
    assert_same(compiled(lambda z: z.clone())(torch.complex(x, x)), torch.complex(x, x))
    assert count("fallbacks") == 0 and count("kernels") > 0


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"])
def test_rare_floats_are_converted_outside(name: str) -> None:
    dtype = getattr(torch, name)
    x = torch.tensor([1.0, 2.0, 0.5, 4.0])
    assert_same(compiled(lambda x: (x * 2).to(dtype).float() + 1)(x), (x * 2).to(dtype).float() + 1)
    assert count("fallbacks") == 0


def test_pairs_of_small_floats_pass_through() -> None:
    x = torch.arange(8, dtype=torch.uint8)

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).view(torch.float4_e2m1fn_x2).view(torch.uint8) * 2

    assert_same(compiled(function)(x), function(x))
    assert count("fallbacks") == 0


@pytest.mark.filterwarnings("ignore")
def test_jagged_tensors() -> None:
    def function(n: torch.Tensor) -> Any:
        scaled = (n * 2).sin()
        return scaled, scaled.values().sum(1)

    jagged = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(2, 4)], layout=torch.jagged)
    for dynamic in (None, True):
        result, total = compiled(function, dynamic=dynamic)(jagged)
        expected, expected_total = function(jagged)
        assert_same(result.values(), expected.values())
        assert result.shape == expected.shape  # the same ragged length as the input's
        assert_same(total, expected_total)

    weight = torch.randn(4, 4, requires_grad=True)
    values = jagged.values().detach().requires_grad_()
    losses = []
    for call in (lambda n, w: (n @ w).relu(), compiled(lambda n, w: (n @ w).relu())):
        n = torch.nested.nested_tensor_from_jagged(values, jagged.offsets())
        losses.append(torch.autograd.grad(call(n, weight).values().sum(), (values, weight)))
    assert_same(losses[1], losses[0])
    assert count("fallbacks") == 0
