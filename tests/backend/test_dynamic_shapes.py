"""Sizes that change: one program for all of them, sizes 0 and 1, arithmetic on sizes, floats made of sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from tests.compiling import assert_same, compiled, copy_inputs, gradients


def graphs() -> int:
    return counters["stats"]["unique_graphs"]


def _norm_and_project(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.softmax(F.layer_norm(x, x.shape[-1:]) * weight, dim=-1)


def _pad_and_cat(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([F.pad(x, (1, 2)), x[:, :1].expand(-1, 4)], dim=1)


def _sizes_as_data(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    return x * rows / (columns + 1) + torch.arange(columns) * (rows // 2) - rows**0.5


def _views(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    return x.t().reshape(rows * columns).view(columns, rows)[:, ::2].sum(0)


def _halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    middle = x.shape[1] // 2
    return x[:, :middle].sum(1), x[:, middle:].amax(1)


def _ratio(x: torch.Tensor) -> torch.Tensor:
    ratio = x.shape[0] / x.shape[1]
    return x * ratio + max(x.shape[0], x.shape[1]) - min(x.shape[0], 7)


def _resized(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x[None, None], scale_factor=2.0, mode="nearest")[0, 0]


def _pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x[None], 3, stride=2, padding=1) + F.avg_pool2d(x[None], 3, stride=2, padding=1)


FUNCTIONS = {
    f.__name__.strip("_"): f for f in (_pad_and_cat, _sizes_as_data, _views, _halves, _ratio, _resized, _pooled)
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_graph_for_all_sizes(name: str) -> None:
    if name == "pooled" and torch.__version__ < "2.13":
        pytest.skip("torch compiles three graphs there, whatever the backend")
    function = FUNCTIONS[name]
    program = compiled(function, dynamic=True)
    for rows, columns in ((6, 10), (5, 8), (33, 70), (9, 17)):
        x = torch.randn(rows, columns)
        assert_same(program(x), function(x), check_stride=False)
    assert graphs() == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_with_changing_sizes(name: str) -> None:
    function = FUNCTIONS[name]
    program = compiled(function, dynamic=True)
    for rows, columns in ((6, 10), (9, 17)):
        x = torch.randn(rows, columns)
        assert_same(gradients(program, [x]), gradients(function, [x]), check_stride=False)


def test_mark_dynamic_keeps_the_rest_static() -> None:
    weight = torch.randn(24)
    program = compiled(_norm_and_project, dynamic=None)
    for rows in (4, 7, 128):
        x = torch.randn(rows, 24)
        torch._dynamo.mark_dynamic(x, 0)
        assert_same(program(x, weight), _norm_and_project(x, weight))
    assert graphs() == 1


def test_automatic_dynamic_compiles_twice() -> None:
    weight = torch.randn(24)
    program = compiled(_norm_and_project, dynamic=None)
    for rows in (4, 7, 19, 128):
        x = torch.randn(rows, 24)
        assert_same(program(x, weight), _norm_and_project(x, weight))
    assert graphs() == 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 5), (5, 1), (1, 1), (0, 0)], ids=str)
def test_sizes_zero_and_one(shape: tuple[int, int], dynamic: bool) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2 + x.sum(), x.sum(0), x.sum(1, keepdim=True), x.t().contiguous(), torch.cat([x, x], 0), x.prod(1)

    program = compiled(function, dynamic=dynamic)
    if dynamic:
        program(torch.randn(6, 7))
    x = torch.randn(shape)
    assert_same(program(x), function(x))
    assert_same(gradients(program, [x]), gradients(function, [x]))


def test_symbolic_integers_as_arguments() -> None:
    def function(x: torch.Tensor, n: int, scale: float) -> torch.Tensor:
        return x[:n] * scale + n

    program = compiled(function, dynamic=True)
    x = torch.randn(20, 3)
    for n, scale in ((4, 0.5), (9, 1.25), (17, -2.0)):
        assert_same(program(x, n, scale), function(x, n, scale))
    assert graphs() <= 2


def test_float_of_a_size_reaches_an_operator_outside() -> None:
    """A call that nothing is generated for takes a scale computed from sizes."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._upsample_bilinear2d_aa(x, [x.shape[2] * 2, x.shape[3] * 2], False, None, None) + 1

    program = compiled(function, dynamic=True)
    for size in (4, 6):
        x = torch.randn(1, 2, size, size + 1)
        assert_same(program(x), function(x))


def test_nonzero_in_the_graph() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].exp().sum() + torch.nonzero(x > 1).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        program = compiled(function)
        for _ in range(3):
            x = torch.randn(11, 5)
            assert_same(program(x), function(x), rtol=1e-5, atol=1e-5)


def test_item_as_a_size_and_as_a_number() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return torch.zeros(k) + x.narrow(0, 0, k).sum() * k

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        program = compiled(function)
        x = torch.randn(11)
        for k in (3, 0, 1, 11):
            assert_same(program(x, torch.tensor(k)), function(x, torch.tensor(k)), rtol=1e-5, atol=1e-5)


def test_mutation_with_changing_sizes() -> None:
    def function(cache: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        cache[: row.shape[0]].copy_(row)
        return cache.sum(0)

    program = compiled(function, dynamic=True)
    for rows in (2, 5, 8):
        arguments = (torch.randn(10, 4), torch.randn(rows, 4))
        mine, eager = copy_inputs(arguments), copy_inputs(arguments)
        assert_same(program(*mine), function(*eager))
        assert_same(mine, eager, exact=True)


def test_sizes_that_are_one_by_a_guard() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.narrow(0, 0, max(1, x.shape[0] // 2))
        if y.shape[0] == 1:
            k = torch.arange(x.shape[0])
            row = k[: y.shape[0]]
            written = x.index_put((row, k), x[0, : x.shape[0]])
            return y + x, y.tanh() * x, y.expand(x.shape).contiguous(), x[row, k], written
        return y.cumsum(0), y.cummax(0)[0], y.softmax(0), y.flip(0), y.sum(1), y.logcumsumexp(1)

    call = compiled(function, dynamic=True)
    for rows in (5, 2, 9, 3):
        x = torch.randn(rows, 5)
        assert_same(call(x), function(x))


def test_sizes_that_are_remainders_of_numbers() -> None:
    norm = torch.nn.BatchNorm1d(8)

    def f(x: torch.Tensor, i: int) -> torch.Tensor:
        result: torch.Tensor = norm(x[: 6 + i % 2]).square().mean()
        return result

    x = torch.randn(8, 8)
    compiled = torch.compile(f, backend="tile", options={"strict": True})
    for i in range(4):
        torch.testing.assert_close(compiled(x, i), f(x, i))
