"""Branches, loops, maps, scans and shared regions are steps of the program: results, gradients, no call of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import associative_scan, while_loop
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import scan as scan_over
from torch.utils import _pytree as pytree

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh, gradients, tile_only

Tensors = tuple[torch.Tensor, ...]
close = {"rtol": 1e-5, "atol": 1e-6}


def _check(function: Callable[..., Any], *arguments: Any, pycalls: int = 0, **options: Any) -> Any:
    program = compiled(function, **options)
    assert_same(program(*arguments), function(*arguments), **close)
    if IS_TILE:
        assert count("pycalls") == pycalls and count("fallbacks") == 0
    return program


def _check_gradients(function: Callable[..., Any], *arguments: Any) -> None:
    program = compiled(function)
    assert_same(gradients(program, list(arguments)), gradients(function, list(arguments)), **close)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


#: branches


def _branches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (
        torch.cond(x.sum() > 0, lambda x, y: x.sin() * y, lambda x, y: (x - y).cos().sum(0) * x.cumsum(-1), (x, y)) + 1
    )


def test_cond() -> None:
    program = _check(_branches, torch.rand(3, 5), torch.rand(3, 5))
    for x in (-torch.rand(3, 5), torch.full((3, 5), float("nan"))):
        y = torch.rand(3, 5)
        assert_same(program(x, y), _branches(x, y), **close)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradient_of_cond(sign: float) -> None:
    _check_gradients(_branches, torch.rand(3, 5) * sign, torch.rand(3, 5))


def _normalized_branches(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """torch's decompositions of norms are written with views of `prims`."""

    def normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.group_norm(x, 2, weight).relu() + F.instance_norm(x) + F.layer_norm(x, x.shape[1:])

    return torch.cond(x.sum() > 0, normalized, lambda x, weight: x * weight[:, None], (x, weight))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradient_of_norms_in_branches(sign: float) -> None:
    _check_gradients(_normalized_branches, torch.rand(3, 4, 5) * sign, torch.rand(4))


def test_cond_on_a_size_and_nested() -> None:
    def function(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        def large(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x[0, 0] > 0, lambda x: x * scale + x.shape[0], lambda x: -x.cumsum(0), (x,))

        return torch.cond(x.shape[0] > 4, large, lambda x: x.exp(), (x,))

    program = compiled(function, dynamic=True)
    scale = torch.randn(3)
    for rows in (3, 4, 5, 7, 9):
        for sign in (1.0, -1.0):
            x = torch.rand(rows, 3) * sign
            assert_same(program(x, scale), function(x, scale), **close)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


def test_branches_with_constants_strides_and_types() -> None:
    """The constants of one branch are passed to the other, too; what a branch gives has the strides of the graph."""

    def function(flag: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def one(x: torch.Tensor) -> Tensors:
            return x * torch.tensor([1.0, 2.0, 3.0]), x.to(torch.float64).sum(0).to(torch.int64)

        def other(x: torch.Tensor) -> Tensors:
            return (x + torch.tensor([[0.5], [0.25]])) * torch.tensor([4.0, 5.0, 6.0]), torch.arange(3)

        return torch.cond(flag, one, other, (x,))

    x = torch.randn(3, 2).T
    program = _check(function, torch.tensor(True), x)
    assert_same(program(torch.tensor(False), x), function(torch.tensor(False), x), **close)


#: loops


def _loop(x: torch.Tensor, limit: torch.Tensor) -> Tensors:
    def goes_on(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (i < limit) & (x.abs().max() < 100)

    def body(i: torch.Tensor, x: torch.Tensor) -> Tensors:
        return i + 1, (x @ x.T).tanh() @ x * 1.5 + 1

    return while_loop(goes_on, body, (torch.zeros((), dtype=torch.int64), x))


def test_while_loop() -> None:
    x = torch.randn(4, 3)
    program = _check(_loop, x, torch.tensor(5))
    for limit in (0, 1, 9):
        assert_same(program(x, torch.tensor(limit)), _loop(x, torch.tensor(limit)), **close)
    result = program(x, torch.tensor(0))[1]
    assert result.data_ptr() != x.data_ptr(), "a loop without iterations gives a copy"


def test_while_loop_over_an_integer() -> None:
    def function(x: torch.Tensor) -> tuple[int, torch.Tensor]:
        return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 1.5 + i), (0, x))

    _check(function, torch.randn(4))


@pytest.mark.parametrize("rows", [1, 6])
def test_scan(rows: int) -> None:
    def function(init: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            carry = torch.tanh(carry @ weight + x)
            return carry, {"sum": carry.sum(-1), "double": (carry * 2).to(torch.float64)}

        return scan_over(step, init, x, dim=1, reverse=True)

    _check(function, torch.randn(2, 3), torch.randn(2, rows, 3), torch.randn(3, 3))


def test_gradient_of_scan() -> None:
    def function(init: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        def step(carry: torch.Tensor, x: torch.Tensor) -> Tensors:
            carry = torch.tanh(carry @ weight + x)
            return carry.clone(), carry * 2

        last, all_steps = scan_over(step, init, x)
        return (last * last).sum() + all_steps.pow(2).sum()

    _check_gradients(function, torch.randn(2, 3), torch.randn(5, 2, 3), torch.randn(3, 3))


Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Tensors]
_RESULTS_READ_BY_THE_BACKWARD: dict[str, Step] = {
    "carry": lambda carry, row, weight: ((carry @ weight + row).tanh(), carry + row),
    "output": lambda carry, row, weight: (carry * 2 + row, (carry @ weight).softmax(-1)),
    "both": lambda carry, row, weight: ((carry * weight[0] + row).sigmoid(), (carry + row).exp()),
    "operand of another": lambda carry, row, weight: ((given := carry * weight[0] + row), given * given),
    "view of an operand": lambda carry, row, weight: ((given := carry @ weight + row) * 1, given.view(3, 2).exp()),
    "branch": lambda carry, row, weight: (
        torch.cond(row.sum() > 0, lambda a, b: (a + b).tanh(), lambda a, b: (a * b).exp(), (carry, row)),
        carry.sin(),
    ),
}


@tile_only
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("step", _RESULTS_READ_BY_THE_BACKWARD.values(), ids=_RESULTS_READ_BY_THE_BACKWARD)
def test_gradient_of_scan_whose_backward_reads_results(step: Step, dynamic: bool) -> None:
    """torch refuses some of these itself: a step would return one tensor twice."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        last, rows = scan_over(lambda carry, row: step(carry, row, weight), torch.ones(2, 3), x)
        return (last * last).sum() + rows.pow(2).sum()

    program = compiled(function, dynamic=dynamic)
    for rows in (4, 7) if dynamic else (4,):
        arguments = [torch.randn(rows, 2, 3), torch.randn(3, 3)]
        assert_same(gradients(program, arguments), gradients(function, arguments), **close)
    assert count("pycalls") == 0 and count("fallbacks") == 0


def test_map() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_over(lambda x, y: (x @ y).softmax(-1), x, y).sum(-1)

    _check(function, torch.randn(3, 2, 4), torch.randn(4, 5))
    _check_gradients(function, torch.randn(3, 2, 4), torch.randn(4, 5))


def test_dynamic_sizes_of_map_and_scan() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mapped = map_over(lambda row: row * row.shape[0] + row.flip(0), x)
        return scan_over(lambda carry, row: (carry + row, carry * row), torch.zeros_like(x[0]), mapped)

    program = compiled(function, dynamic=True)
    for shape in ((3, 4), (5, 6), (2, 7)):
        x = torch.randn(shape)
        assert_same(program(x), function(x), **close)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0 and count("graphs") == 1


def test_associative_scan() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic")

    _check(function, torch.rand(7, 3) + 0.5)


#: shared regions


class _Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.outer(torch.nn.functional.gelu(self.inner(self.norm(x))))


def test_equal_layers_share_one_body() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[_Layer(8) for _ in range(4)])
    x = torch.randn(3, 8)
    expected = model(x)
    program = compiled(model)
    with torch.no_grad():
        assert_same(program(x), expected, **close)
    if not IS_TILE:
        return
    assert count("pycalls") == 0 and count("fallbacks") == 0
    # As many launches as one layer has: they stand in the program once.
    assert count("launches") <= 5


def test_training_through_shared_regions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[_Layer(8) for _ in range(3)])
    x = torch.randn(3, 8)

    def loss(function: Any) -> list[torch.Tensor]:
        model.zero_grad()
        function(x).pow(2).sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    expected = loss(model)
    assert_same(loss(compiled(model)), expected, rtol=1e-4, atol=1e-5)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


#: operators with effects


_log: list[float] = []


def test_effects_keep_their_order() -> None:
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    @torch.library.custom_op("control_flow_test::note", mutates_args=())
    def note(x: torch.Tensor, factor: float) -> torch.Tensor:
        _log.append(float(x.sum()) * factor)
        return x * factor

    @note.register_fake
    def _(x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.empty_like(x)

    handle = _register_effectful_op(torch.ops.control_flow_test.note.default, _EffectType.ORDERED)
    try:

        def function(x: torch.Tensor) -> torch.Tensor:
            note(x, 1.0)
            y = note(x + 1, 10.0)
            note(x * 0, 100.0)
            return y.sin()

        x = torch.ones(3)
        result = compiled(function)(x)
        assert _log == [3.0, 60.0, 0.0]
        assert_same(result, torch.full((3,), 20.0).sin(), **close)
        if IS_TILE:
            assert count("pycalls") == 0 and count("fallbacks") == 0
    finally:
        if handle is not None:
            handle.destroy()


#: what is the program's


@tile_only
def test_bodies_are_on_disk(tmp_path: Any) -> None:
    x, limit = torch.randn(4, 3), torch.tensor(3)
    for is_warm in (False, True):
        fresh()
        assert_same(compiled(_loop, cache_dir=str(tmp_path))(x, limit), _loop(x, limit), **close)
        assert count("graphs_from_disk") == is_warm and count("pycalls") == 0


def test_a_body_fails_as_eager_does() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return map_over(lambda i, x: x.index_select(0, i.view(1)) * 2, index, x)

    x = torch.randn(4)
    program = compiled(function)
    assert_same(program(x, torch.tensor([1, 3])), function(x, torch.tensor([1, 3])), exact=True)
    with pytest.raises((IndexError, RuntimeError)):
        program(x, torch.tensor([1, 4]))
    assert_same(program(x, torch.tensor([0, 2])), function(x, torch.tensor([0, 2])), exact=True)


def test_results_that_are_operands() -> None:
    """What a subgraph hands back unchanged is the operand itself or a copy, never memory that goes back to the pool."""

    def function(flag: torch.Tensor, x: torch.Tensor) -> Any:
        y = x * 2
        a, b = torch.cond(flag, lambda y: (y.clone(), y.sum(0)), lambda y: (y + 1, y.cumsum(0)[-1] + 2), (y,))
        return pytree.tree_map(lambda t: t.sum(), (a, b)), a, y

    _check(function, torch.tensor(True), torch.randn(3, 3))
