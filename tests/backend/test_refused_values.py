"""Values and sizes that eager mode refuses: empty reductions without an identity, indices, probabilities."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled, tile_only

Function = Callable[..., Any]


def assert_refused(program: Function, function: Function, *arguments: Any, same_class: bool = True) -> None:
    """As by eager mode, with its message."""
    with pytest.raises((RuntimeError, IndexError)) as expected:
        function(*arguments)
    message = re.escape(str(expected.value).splitlines()[0])
    with pytest.raises(expected.type if same_class else (RuntimeError, IndexError), match=message):
        program(*arguments)


# ===-- reductions --------------------------------------------------------------------------------------------------===

EXTREMA: dict[str, Function] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "max_of_integers": lambda x: x.int().max(),
    "max_of_bools": lambda x: (x > 0).max(),
    "max_dim": lambda x: x.max(0),
    "min_dim": lambda x: x.min(-1),
}


@pytest.mark.parametrize("name", EXTREMA)
def test_extremum_of_nothing(name: str) -> None:
    """torch finds out about the others (amax, argmax, aminmax, infinity norms) while it traces."""
    function = EXTREMA[name]
    assert_refused(compiled(function), function, torch.empty(0))


@pytest.mark.parametrize("name", EXTREMA)
def test_extremum_of_what_turns_out_to_be_nothing(name: str, set_config: Any) -> None:
    set_config(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)

    def function(x: torch.Tensor, mask: torch.Tensor) -> Any:
        return EXTREMA[name](x[mask])

    x = torch.randn(5)
    program = compiled(function)
    program(x, x == x)
    assert_refused(program, function, x, x != x)


def test_positions_of_extrema_are_checked(set_config: Any) -> None:
    """torch checks sizes that it does not know, too, with a message of its own."""
    set_config(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
    x = torch.randn(5)
    for reduce in (torch.argmax, torch.amin, torch.aminmax):
        program = compiled(lambda x, mask, reduce=reduce: reduce(x[mask]))
        program(x, x == x)
        with pytest.raises((RuntimeError, IndexError)):
            program(x, x != x)


# ===-- indices -----------------------------------------------------------------------------------------------------===

PLACE = torch.tensor([0, 0])
INDEXED: dict[str, Function] = {
    "index": lambda x: x[PLACE],
    "gather": lambda x: x.gather(0, PLACE),
    "index_select": lambda x: x.index_select(0, PLACE),
    "scatter": lambda x: x.scatter(0, PLACE, 1.0),
    "scatter_add": lambda x: x.scatter_add(0, PLACE, torch.ones(2)),
    "index_add": lambda x: x.index_add(0, PLACE, torch.ones(2)),
    "index_put": lambda x: x.index_put((PLACE,), torch.ones(2)),
    "embedding": lambda x: F.embedding(PLACE, x.unsqueeze(-1).expand(-1, 3)),
}


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", INDEXED)
def test_index_into_nothing(name: str, is_known: bool, set_config: Any) -> None:
    """No element is read in the place of one that is not there."""
    set_config(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
    x = torch.randn(5)
    if is_known:
        with pytest.raises((RuntimeError, IndexError), match=r"out of bounds for dimension|empty|Expected"):
            compiled(INDEXED[name])(torch.empty(0))
        return
    program = compiled(lambda x, mask: INDEXED[name](x[mask]))
    program(x, x == x)
    with pytest.raises((RuntimeError, IndexError), match=r"out of bounds for dimension|empty|Expected"):
        program(x, x != x)


def test_no_index_into_nothing() -> None:
    function = compiled(lambda x, i: (x[i], x.gather(0, i), x.scatter(0, i, 1.0)))
    for result in function(torch.empty(0), torch.empty(0, dtype=torch.int64)):
        assert result.shape == (0,)


@tile_only
@pytest.mark.parametrize("is_cached", [False, True], ids=["compiled", "from_the_cache"])
def test_message_names_dimension_and_line(is_cached: bool) -> None:
    def function(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        y = (x * 2)[rows]
        return y.sum(0) + x.gather(1, columns).sum()

    arguments = torch.randn(10, 5), torch.tensor([3, 4]), torch.tensor([[1]])
    program = compiled(function)
    program(*arguments)
    if is_cached:
        torch.compiler.reset()
        program = compiled(function)
    with pytest.raises(IndexError, match="index 12 is out of bounds for dimension 0 with size 10") as error:
        program(arguments[0], torch.tensor([3, 12]), arguments[2])
    assert re.search(r"test_refused_values.py:\d+: y = \(x \* 2\)\[rows\]", "".join(error.value.__notes__))
    with pytest.raises(RuntimeError, match="index 7 is out of bounds for dimension 1 with size 5") as error:
        program(arguments[0], arguments[1], torch.tensor([[7]]))
    assert re.search(r"test_refused_values.py:\d+: .*x.gather\(1, columns\)", "".join(error.value.__notes__))


# ===-- values ------------------------------------------------------------------------------------------------------===

HALF = torch.tensor([0.5, 0.5])
VALUES: dict[str, tuple[Function, torch.Tensor]] = {
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x, HALF), torch.tensor([1.5, 0.2])),
    "binary_cross_entropy_nan": (lambda x: F.binary_cross_entropy(x, HALF), torch.tensor([0.2, torch.nan])),
    "binary_cross_entropy_weight": (lambda x: F.binary_cross_entropy(x, HALF, HALF), torch.tensor([0.2, -0.1])),
    "binary_cross_entropy_target": (lambda x: F.binary_cross_entropy(HALF, x), torch.tensor([0.2, 2.0])),
    "bernoulli": (torch.bernoulli, torch.tensor([0.2, 1.5])),
    "nll_loss": (lambda x: F.nll_loss(torch.zeros(2, 3), x.long()), torch.tensor([3.0, 1.0])),
    "cross_entropy": (lambda x: F.cross_entropy(torch.zeros(2, 3), x.long()), torch.tensor([-1.0, 1.0])),
    "embedding": (lambda x: F.embedding(x.long(), torch.zeros(3, 2)), torch.tensor([-1.0, 1.0])),
    "one_hot": (lambda x: F.one_hot(x.long(), 3), torch.tensor([5.0, 1.0])),
    "masked_scatter": (lambda x: torch.zeros(3).masked_scatter(x > 0, HALF), torch.tensor([1.0, 1.0, 2.0])),
    "multinomial": (lambda x: torch.multinomial(x, 1), torch.tensor([-1.0, 1.0])),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_value_out_of_range(name: str) -> None:
    function, values = VALUES[name]
    with pytest.raises((RuntimeError, IndexError)) as expected:
        function(values)
    with pytest.raises((RuntimeError, IndexError)) as refused:
        compiled(function)(values)
    assert type(refused.value) is type(expected.value)
    if name.startswith("bi"):
        assert str(refused.value).splitlines()[0][:45] == str(expected.value).splitlines()[0][:45]


@pytest.mark.parametrize("repeats", [[1, 2], [2, 4], [0, 0]])
def test_repeats_that_are_not_the_size_asked_for(repeats: list[int]) -> None:
    def function(x: torch.Tensor, repeats: torch.Tensor) -> torch.Tensor:
        return torch.repeat_interleave(x, repeats, output_size=4)

    x, program = torch.randn(2), compiled(function)
    torch.testing.assert_close(program(x, torch.tensor([3, 1])), function(x, torch.tensor([3, 1])))
    assert_refused(program, function, x, torch.tensor(repeats))


def test_value_out_of_range_in_training() -> None:
    x, target = torch.tensor([0.3, 1.2], requires_grad=True), torch.tensor([0.0, 1.0])
    program = compiled(lambda x: F.binary_cross_entropy(x, target))
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        program(x)
    inside = torch.tensor([0.3, 1.0], requires_grad=True)
    results = [
        torch.autograd.grad(f(inside), inside)[0] for f in (program, lambda x: F.binary_cross_entropy(x, target))
    ]
    torch.testing.assert_close(*results)


# ===-- pads --------------------------------------------------------------------------------------------------------===

PADS: dict[str, Function] = {
    "cut_and_padded": lambda x: F.pad(x, (-8, 9)),
    "cut_at_both_ends": lambda x: F.pad(x, (-4, -4)),
    "cut_at_the_end": lambda x: F.pad(x, (3, -8)),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", PADS)
@pytest.mark.filterwarnings("ignore:torch_tile. graph")
def test_pads_that_cut_more_than_there_is(name: str, dynamic: bool) -> None:
    program = torch.compile(PADS[name], backend="tile", dynamic=dynamic)
    assert_refused(program, PADS[name], torch.randn(1, 2, 7))
    x = torch.randn(1, 2, 11)
    assert torch.equal(program(x), PADS[name](x))
