"""Python numbers that the dtype of a tensor does not hold: eager mode refuses them, or rounds and wraps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled

Function = Callable[[torch.Tensor, Any], Any]

PLACES = torch.tensor([0, 2])
FUNCTIONS: dict[str, Function] = {
    "add": lambda x, n: x + n,
    "add_alpha": lambda x, n: torch.add(x, x, alpha=n),
    # Dynamo replaces torch.addcdiv.
    "addcdiv": lambda x, n: torch.ops.aten.addcdiv(x, x, x + 1, value=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "addr": lambda x, n: torch.addr(torch.outer(x, x), x, x, alpha=n),
    "celu": lambda x, n: F.celu(x, n),
    "clamp": lambda x, n: x.clamp(1, n),
    "clamp_method_max": lambda x, n: x.clamp_max(n),
    "clamp_method_min": lambda x, n: x.clamp_min(n),
    "clamp_max": lambda x, n: x.clamp(max=n),
    "clamp_min": lambda x, n: x.clamp(min=n),
    "compare": lambda x, n: x < n,
    "elu": lambda x, n: F.elu(x, n),
    "fill": lambda x, n: x.clone().fill_(n),
    "foreach_add": lambda x, n: torch._foreach_add([x], [x], alpha=n),
    "full": lambda x, n: torch.full((3,), n, dtype=x.dtype) + x[0],
    "full_like": lambda x, n: torch.full_like(x, n),
    "index_add": lambda x, n: x.index_add(0, PLACES, x[:2], alpha=n),
    "index_fill": lambda x, n: x.index_fill(0, PLACES, n),
    "hardtanh": lambda x, n: F.hardtanh(x, min(n, 0), max(n, 1)),
    "leaky_relu": lambda x, n: F.leaky_relu(x, n),
    "lerp": lambda x, n: x.lerp(x * 2, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "multiply": lambda x, n: x * n,
    "new_full": lambda x, n: x.new_full((2,), n),
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "pow": lambda x, n: x**n,
    "rsub_alpha": lambda x, n: torch.rsub(x, x, alpha=n),
    "scatter": lambda x, n: x.scatter(0, PLACES, n),
    "scatter_add": lambda x, n: x.scatter(0, PLACES, n, reduce="add"),
    "setitem": lambda x, n: _with_first(x, n),
    "softplus": lambda x, n: F.softplus(x, n),
    "sub_alpha": lambda x, n: torch.sub(x, x, alpha=n),
    "threshold": lambda x, n: F.threshold(x, 1, n),
    "threshold_bound": lambda x, n: F.threshold(x, n, 1),
    "where": lambda x, n: torch.where(x > 1, x, n),
    "where_first": lambda x, n: torch.where(x > 1, n, x),
}
NUMBERS: list[tuple[torch.dtype, Any]] = [
    (torch.int8, 300),
    (torch.int8, -129),
    (torch.uint8, -1),
    (torch.uint8, 256),
    (torch.int16, 2**40),
    (torch.int32, 2**31),
    (torch.int64, 1e20),
    (torch.float16, 7e4),
    (torch.float16, -1e9),
    (torch.bfloat16, 1e39),
    (torch.float32, 1e300),
    (torch.float32, float("inf")),
    (torch.float16, float("-inf")),
]


def _with_first(x: torch.Tensor, number: Any) -> torch.Tensor:
    y = x.clone()
    y[0] = number
    return y


@pytest.mark.parametrize(("dtype", "number"), NUMBERS, ids=[f"{n}_{str(d)[6:]}" for d, n in NUMBERS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_number_beyond_the_dtype(name: str, dtype: torch.dtype, number: Any) -> None:
    x = torch.tensor([0, 1, 2, 3, 100]).to(dtype)
    program = compiled(lambda x: FUNCTIONS[name](x, number))
    try:
        expected = FUNCTIONS[name](x, number)
    except (RuntimeError, NotImplementedError):
        with pytest.raises((RuntimeError, NotImplementedError)):
            program(x)
        return
    assert_same(program(x), expected)


@pytest.mark.parametrize("number", [2**62 + 1, -(2**53) - 1, 2**63 - 1])
def test_padding_with_wide_integers(number: int) -> None:
    """Not all integers of 64 bits are numbers of float64."""
    x = torch.arange(3)
    function = compiled(lambda x: torch.constant_pad_nd(x, (1, 1), number))
    assert_same(function(x), torch.constant_pad_nd(x, (1, 1), number))


@pytest.mark.parametrize(
    "dtype, number", [(torch.int8, 300), (torch.int16, 1 << 20), (torch.float16, 1 << 17)], ids=str
)
@pytest.mark.parametrize("name", ["fill", "clamp_max", "full_like", "masked_fill", "pad"])
def test_number_of_a_call_beyond_the_dtype(name: str, dtype: torch.dtype, number: int) -> None:
    """A number that differs from call to call is no constant of the graph."""
    function = compiled(FUNCTIONS[name], dynamic=True)
    x = torch.arange(3).to(dtype)
    for each in (5, 7, 9):
        assert_same(function(x, each), FUNCTIONS[name](x, each))
    with pytest.raises(RuntimeError, match="without overflow"):
        FUNCTIONS[name](x, number)
    with pytest.raises(RuntimeError, match="without overflow"):
        function(x, number)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: ((torch.arange(8) * n) >= 0) & (x > 0),
        lambda x, n: (torch.arange(8) * n) // n + x,
        lambda x, n: (x + n * 4) - torch.arange(8) * n,
    ],
    ids=["compared", "divided", "multiplied"],
)
def test_integer_beyond_any_size(function: Any) -> None:
    """An argument that is no size has no bound that memory sets; its products wrap, as in eager mode."""

    def guarded(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n < 1 else function(x, n)

    compiled = torch.compile(guarded, backend="tile", dynamic=True)
    x = torch.ones(8, dtype=torch.int64)
    for n in (5, 2**61 + 1):
        assert torch.equal(compiled(x, n), guarded(x, n))
