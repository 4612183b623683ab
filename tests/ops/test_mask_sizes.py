"""Writes through masks whose values, or whose mask, have sizes that do not fit: eager mode's exception, no read beyond
the values. Torch traces them without a look at sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch


def _set(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[mask] = values
    return x


def _set_columns(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, mask] = values
    return x


def _put(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.index_put(x, (mask,), values)


def _add(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.index_put(x, (mask,), values, accumulate=True)


FUNCTIONS: list[Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = [_set, _set_columns, _put, _add]
SIZES: list[tuple[int, ...]] = [(), (2,), (3,), (8,), (0,), (2, 8), (3, 5), (1, 1)]
MASKS = [
    ((3, 8), torch.tensor([True, False, True])),
    ((3, 8), torch.ones(4, dtype=torch.bool)),
    ((2, 3), torch.tensor([True, False, True])),
    ((3, 2, 5), torch.tensor([[True, False], [True, True], [False, False]])),
    ((1, 1), torch.ones(1, 1, dtype=torch.bool)),
]


def _outcome(function: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> Any:
    try:
        return function(*arguments)
    except (RuntimeError, IndexError):
        return "raises"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore")  # what cannot be traced runs in eager mode
def test_sizes_that_may_not_fit(function: Callable[..., torch.Tensor], dynamic: bool) -> None:
    for shape, mask in MASKS:
        x = torch.randn(shape)
        for sizes in SIZES:
            torch.compiler.reset()
            values = torch.randn(sizes)
            expected = _outcome(function, x, mask, values)
            found = _outcome(torch.compile(function, backend="tile", dynamic=dynamic), x, mask, values)
            same = torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected
            assert same, (shape, sizes, found, expected)


def test_a_later_call_that_does_not_fit() -> None:
    """Of one program with dynamic sizes, after a call that fits."""
    compiled = torch.compile(_set, backend="tile", dynamic=True, options={"strict": True})
    mask = torch.tensor([True, False, True, False])
    for columns in (8, 9):
        x, values = torch.randn(4, columns), torch.randn(columns)
        assert torch.equal(compiled(x, mask, values), _set(x, mask, values))
    for columns in (7, 4, 2):
        with pytest.raises(RuntimeError, match=r"does not fit its places|shape mismatch"):
            compiled(torch.randn(4, 9), mask, torch.randn(columns))


def test_a_gradient_that_does_not_fit(set_config: Callable[[Any, str, Any], None]) -> None:
    """Torch's trace takes as many gradients of the values as the mask has true elements, eager mode one."""
    set_config(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)

    def first_of_others(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[mask] = x[~mask][:1]
        return y

    compiled = torch.compile(first_of_others, backend="tile")
    mask = torch.tensor([True, False, True, False, False, True])
    x = torch.randn(6, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"expected a size of|doesn't match"):
        compiled(x, mask).sum().backward()
    mask = torch.tensor([False, False, True, False, False, False])
    compiled(x, mask).sum().backward()
    expected = torch.ones(6)
    expected[0], expected[2] = 2, 0
    assert x.grad is not None and torch.equal(x.grad, expected)
