"""Sizes that are known only when the graph runs: what calls return, and the conditions they must meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from tests.compiling import BACKEND, IS_TILE, assert_same, compiled, count, gradients

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)


pytestmark = pytest.mark.usefixtures("captured")


def prefix_sum(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    count = n.item()
    torch._check(count >= 0)
    torch._check(count <= x.size(0))
    return x[:count].sum() + torch.zeros(count).sum()


def two_parts(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = n.tolist()
    torch._check(first >= 0)
    torch._check(second >= 0)
    torch._check(first + second == x.size(0))
    left, right = x.split([first, second])
    return left.sum() * 2, right * 3


def same_count(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    first, second = n.tolist()
    torch._check(first >= 0)
    torch._check(first == second)
    return torch.full((first,), 2.0) * x.sum() + second


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "mask": (lambda x: x[x > 0].sum(), (torch.randn(9),)),
    "mask, pointwise": (lambda x: x[x > 0] * 2 + 1, (torch.randn(9),)),
    "nonzero": (lambda x: torch.nonzero(x > 0).float().sum(0), (torch.randn(9, 5),)),
    "size of nonzero": (lambda x: x + torch.nonzero(x > 0).size(0), (torch.randn(9),)),
    "unique": (lambda x: torch.unique(x) + 1, (torch.tensor([3, 1, 3, 0]),)),
    "repeat": (lambda x, r: torch.repeat_interleave(x, r) * 2, (torch.randn(3), torch.tensor([1, 0, 3]))),
    "slice up to an item": (lambda x, n: x[: n.item()] * 2, (torch.randn(9), torch.tensor(5))),
    "slice from the end": (lambda x, n: x[: n.item()] * 2, (torch.randn(9), torch.tensor(-2))),
    "item as size": (lambda x, n: torch.arange(n.item()) + x.sum(), (torch.randn(9), torch.tensor(5))),
    "prefix": (prefix_sum, (torch.randn(9), torch.tensor(5))),
    "two parts": (two_parts, (torch.randn(9), torch.tensor([5, 4]))),
    "same count": (same_count, (torch.randn(9), torch.tensor([5, 5]))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_equals_eager(name: str, dynamic: bool) -> None:
    function, arguments = CASES[name]
    f = compiled(function, dynamic=dynamic)
    for _ in range(2):
        assert_same(f(*arguments), function(*arguments))


@pytest.mark.parametrize(
    "name,bad", [("prefix", 10), ("prefix", -1), ("two parts", [5, 5]), ("two parts", [10, -1]), ("same count", [5, 4])]
)
def test_condition_that_fails(name: str, bad: Any) -> None:
    """A condition is checked when the graph runs, also where torch has drawn conclusions from it."""
    function, (x, good) = CASES[name]
    f = compiled(function)
    f(x, good)
    with pytest.raises(RuntimeError):
        f(x, torch.tensor(bad))
    assert_same(f(x, good), function(x, good))


def test_random_calls_keep_their_order() -> None:
    """Calls that draw from torch's generator happen in the order in which the program makes them."""

    def draw(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.multinomial(p, 4)
        second = torch.multinomial(p, 4)
        return second * 2, first + second.sum()

    p = torch.ones(50)
    torch.manual_seed(3)
    expected = draw(p)
    f = compiled(draw, fallback_random=True)
    torch.manual_seed(3)
    assert_same(f(p), expected)


FLOATS: dict[str, Callable[[torch.Tensor], Any]] = {
    "group_norm": lambda x: torch.nn.functional.group_norm(x[:, :, None], 3),
    "quotient": lambda x: x * (x.size(0) / x.size(1)) + x.size(0) ** 0.5,
    "chain": lambda x: (x / float(x.size(0)), x.size(0) * 0.25 + x, x + (x.size(0) // 3) / 2),
    "integers": lambda x: torch.arange(4) * (x.size(0) / x.size(1)),
    "clamp": lambda x: torch.clamp(x, max=x.size(0) / 8),
    "full": lambda x: torch.full((3,), x.size(0) / 3),
    "where": lambda x: torch.where(x > 0, x.size(0) / 3, x),
    "round": lambda x: x * round(x.size(0) / 3, 2) + round(x.size(0) * 37 / 3, -1),
    "sine": lambda x: x * math.sin(x.size(0)) - math.exp(-x.size(0) / 4) * abs(x.size(0) - 5.5),
    "bool": lambda x: torch.full((3,), x.size(0) > x.size(1)),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_that_depend_on_sizes(name: str) -> None:
    f = compiled(FLOATS[name], dynamic=True)
    for rows in (4, 7):
        x = torch.randn(rows, 6)
        assert_same(f(x), FLOATS[name](x))


ITEMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "clamp": lambda x, y: torch.clamp(x, -y.item(), y.item()),
    "chain": lambda x, y: x * y.item() + y.sum().item() ** 2 / 3,
    "fill": lambda x, y: torch.full((3,), y.item()) + x.sum(),
    "bfloat16": lambda x, y: x.bfloat16() * y.bfloat16().item(),
    "outside": lambda x, y: torch.ops.aten.cholesky_solve(x.exp(), torch.eye(6)) * y.view(1, 1).item(),
}


@pytest.mark.parametrize("name", ITEMS)
def test_float_items(name: str) -> None:
    f = compiled(ITEMS[name])
    for number in (0.5, 1.25):
        x, y = torch.randn(6, 6), torch.tensor(number)
        assert_same(f(x, y), ITEMS[name](x, y))


SIZES: dict[str, Callable[[torch.Tensor], Any]] = {
    "scaled": lambda x: x.new_zeros(int(x.size(0) * 0.3) + 1, 3) + x.sum(),
    "a third": lambda x: x[: int(x.size(0) * (1 / 3)), 1:] * 2,
    "floor of a quotient": lambda x: x[:, : math.floor(x.size(0) / 3.5)].sum(0),
    "ceil": lambda x: x.repeat(math.ceil(x.size(0) * 0.15), 1) + 1,
    "round": lambda x: torch.arange(round(x.size(0) * 0.5)) * round(x.size(0) / 4 + 0.25),
    "square root": lambda x: x.new_ones(int(x.size(0) ** 0.5), 2) * x.size(0) ** 0.5,
    "largest": lambda x: x[: int(max(2.0, x.size(0) * 0.5))] - int(min(7.5, x.size(0) - 0.5)),
    "nearest": lambda x: F.interpolate(x[None, None], scale_factor=1.5, mode="nearest"),
    "bilinear": lambda x: F.interpolate(x[None, None], scale_factor=(0.7, 1.3), mode="bilinear") + 1,
    "recomputed": lambda x: F.interpolate(
        x[None, None], scale_factor=0.37, mode="bilinear", recompute_scale_factor=True
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_go_through_floats(name: str) -> None:
    """One graph, whose kernels take such a size as any other."""
    f = compiled(SIZES[name], dynamic=True)
    for rows in (12, 9, 17, 30):
        x = torch.randn(rows, 11)
        assert_same(f(x), SIZES[name](x))
    assert counters["stats"]["unique_graphs"] == 1


# Powers of two, squares, and their neighbours. No function below gives 0 or 1, for which torch makes other graphs.
ROWS = (4, 8, 9, 15, 16, 17, 31, 32, 33, 1000, 1024)
FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "log2": lambda x: x.new_ones(int(math.log2(x.size(0)))),
    "ceil log2": lambda x: x.new_ones(math.ceil(math.log2(x.size(0)))),
    "next power of two": lambda x: x.new_ones(2 ** math.ceil(math.log2(x.size(0)))),
    "padded": lambda x: torch.nn.functional.pad(x, (0, 0, 0, 2 ** math.ceil(math.log2(x.size(0))) - x.size(0))),
    "floor sqrt": lambda x: x.new_ones(math.floor(math.sqrt(x.size(0)))),
    "sqrt of another": lambda x: x.new_ones(int(math.sqrt(x.size(1)))),
    "sines": lambda x: x.new_ones(int(9 * math.sin(x.size(0)) + 12), int(9 * math.cos(x.size(0)) + 12)),
    "tangents": lambda x: x.new_ones(int(9 * math.tanh(x.size(0) / 16) + 2), round(math.tan(1 / x.size(0)) * 9 + 3)),
    "hyperbolic": lambda x: x.new_ones(int(math.sinh(x.size(0) ** 0.25) + 2), int(math.cosh(x.size(0) ** 0.25))),
    "inverse": lambda x: x.new_ones(
        int(9 * math.asin(1 / x.size(0)) + 2), int(9 * math.acos(1 / x.size(0))), math.trunc(9 * math.atan(x.size(0)))
    ),
    "decimal": lambda x: x.new_ones(int(round(x.size(0) / 3, 1) * 10), int(round(x.size(0) / 3, -1)) + 2),
    "rounding": lambda x: x.new_ones(round(x.size(0) / 4) + 2, math.trunc(x.size(0) / 3) + 2),
    "slice": lambda x: x[: int(math.log2(x.size(0)))] * math.log2(x.size(0)),
    "view": lambda x: x[: int(math.sqrt(x.size(0))) ** 2].view(int(math.sqrt(x.size(0))), -1) + 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_that_are_functions_of_floats(name: str) -> None:
    """As Python computes them, also at the powers of two and beside them."""
    f = compiled(FUNCTIONS[name], dynamic=True)
    for rows in ROWS:
        x = torch.randn(rows, rows + 5)
        assert_same(f(x + 1), FUNCTIONS[name](x + 1))
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("function", [math.log, lambda n: math.log(n, 2), math.log10, lambda n: math.exp(n / 512)])
def test_functions_that_make_a_graph_for_each_size(function: Callable[[int], float]) -> None:
    """torch has no symbol for them."""
    f = compiled(lambda x: x.new_ones(int(function(x.size(0)))), dynamic=True)
    for rows in (10, 1000, 1024):
        assert f(torch.randn(rows)).shape == (int(function(rows)),)


FLOAT_ITEMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "size": lambda x, n: x.new_zeros(int(n.item())) + x.sum(),
    "slice": lambda x, n: x[: int(n.item())] * 2,
    "scaled": lambda x, n: x.new_ones(int(n.item() * 1.5) + 1, 2) * 2,
    "ceil": lambda x, n: x.new_ones(math.ceil(n.item() / 2), 3) + x.sum(),
    "root": lambda x, n: x.new_ones(int(math.sqrt(n.item()))) + x.sum(),
    "of a sum": lambda x, n: x.new_ones(int((n * 2).bfloat16().item() + n.sum().item()), 2) * x[0, 0],
    "size and value": lambda x, n: x.new_ones(int(n.item())) * n.item() + int(x.sum().item()),
    "value": lambda x, n: x * int(n.item()),
    "log2": lambda x, n: x.new_ones(math.ceil(math.log2(n.item())), 2) + x.sum(),
    "decimal": lambda x, n: x.new_ones(int(round(n.item(), 1) * 10)) + x.sum(),
    "integer item": lambda x, n: x.new_ones(int(n.long().item() * 0.5)) + x.sum(),
    "result": lambda x, n: (x + 1, int(n.item()), n.item()),
}


@pytest.mark.parametrize("name", FLOAT_ITEMS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_that_are_float_items(name: str, dynamic: bool) -> None:
    """The host reads the number; the graph is compiled, once."""
    f = compiled(FLOAT_ITEMS[name], dynamic=dynamic)
    x = torch.arange(132.0).view(12, 11)
    for number in (5.25, 9.0, 4.75):
        n = torch.tensor(number)
        assert_same(f(x, n), FLOAT_ITEMS[name](x, n))
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("number", [-3.5, math.nan, math.inf, 1e300])
def test_float_items_that_are_no_sizes(number: float) -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(int(n.item())) + x.sum()

    f = compiled(function)
    x = torch.ones(3)
    assert_same(f(x, torch.tensor(2.5)), function(x, torch.tensor(2.5)))
    with pytest.raises(Exception):  # noqa: B017  eager's ValueError, OverflowError or RuntimeError
        f(x, torch.tensor(number))
    assert_same(f(x, torch.tensor(4.5)), function(x, torch.tensor(4.5)))


def test_gradient_through_a_float_item() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        count = int(n.item())
        torch._check(count >= 0)
        torch._check(count <= x.size(0))
        return (x[:count] * 2).exp()

    f = compiled(function, strict=False)  # the backward graph may be left to eager mode
    for number in (3.5, 5.0):
        arguments = [torch.randn(6, 3), torch.tensor(number)]
        assert_same(gradients(f, arguments, constants=[1]), gradients(function, arguments, constants=[1]))


def test_gradient_through_a_scaled_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=1.5, mode="bilinear").tanh()

    f = compiled(function, dynamic=True)
    for size in (6, 9, 8):
        x = torch.randn(1, 2, size, size + 1)
        assert_same(gradients(f, [x]), gradients(function, [x]), rtol=1e-5, atol=1e-5)


UNKNOWN: dict[str, Callable[..., Any]] = {
    "masked_scatter": lambda x, found: x.masked_scatter(x > 0, found),
    "put": lambda x, found: x.put(torch.arange(found.shape[0]), found * 2),
    "search": lambda x, found: (torch.bucketize(found, x[0].sort()[0]), torch.searchsorted(found.sort()[0], x)),
    "windows": lambda x, found: F.pad(found, (0, 9))[None, None].expand(1, 2, -1).unfold(-1, 2, 2) * 2,
    "repeat": lambda x, found: found.abs().to(torch.int64).repeat_interleave(2) + 1,
    "norm": lambda x, found: (torch.dist(found, found * 2), found.norm(3)),
    "embedding": lambda x, found: F.embedding(found.abs().long() % 6, x).sum(0),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_operators_on_results_of_unknown_size(name: str) -> None:
    """A decomposition that must know the size leaves the operator whole."""

    def function(x: torch.Tensor) -> Any:
        return UNKNOWN[name](x, x.masked_select(x > 0))

    f = compiled(function)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6, 7)
        assert_same(f(x), function(x))


def test_gradient_of_masked_select() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.masked_select(x > 0) * 3

    x = torch.randn(6, 7)
    assert_same(gradients(compiled(function), [x]), gradients(function, [x]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x[n.tolist()[0] : n.tolist()[1]] * 2,
        lambda x, n: x[n[0].item() : n[1].item()] * 2,
        lambda x, n: torch.cat([x[k : k + 1] for k in n.tolist()]),
        lambda x, n: x.narrow(0, n[0].item(), 3) * 2,
        lambda x, n: x * abs(n[0].item() - n[1].item()),
        lambda x, n: x * (n[1].item() & 5) + (n[0].item() | 6) - (n[1].item() ^ 9),
    ],
    ids=["list", "items", "loop", "narrow", "magnitude", "bits"],
)
def test_numbers_of_a_tensor(function: Callable[..., Any]) -> None:
    other = torch.compile(function, backend=BACKEND)
    x = torch.randn(8, 6)
    for numbers in ((1, 4), (2, 7), (-3, 70), (5, 6)):
        n = torch.tensor(numbers)
        assert_same(other(x, n), function(x, n))
    assert count("fallbacks") == 0


def _read_at(x: torch.Tensor, at: int) -> torch.Tensor:
    return x[at] + 1


def _written_at(x: torch.Tensor, at: int) -> torch.Tensor:
    y = x.clone()
    y[at] = 0
    return y


@pytest.mark.parametrize("function", [_read_at, _written_at], ids=["read", "written"])
@pytest.mark.parametrize("sign", [1, -1])
def test_index_that_depends_on_data(set_config: Any, function: Any, sign: int) -> None:
    """No guard of torch's holds such an index within the tensor; of writes its trace asserts it."""
    set_config(torch._dynamo.config, "capture_scalar_outputs", True)

    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        at = i.sum().item()
        torch._check(at >= 0 if sign > 0 else at < 0)
        return function(x, at)

    compiled = torch.compile(program, backend="tile", options={"strict": True})
    x = torch.randn(10, 8)
    for at in (3, 9, 0) if sign > 0 else (-1, -10, -4):
        assert torch.equal(compiled(x, torch.tensor([at])), program(x, torch.tensor([at])))
    for at in (10, 1000000, 2**62) if sign > 0 else (-11, -1000000, -(2**62)):
        with pytest.raises((IndexError, RuntimeError), match=r"out of range|Runtime assertion failed"):
            compiled(x, torch.tensor([at]))
