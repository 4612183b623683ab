"""Integers read from tensors of no dimension, which Dynamo keeps in its graphs where the tensor is an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import BACKEND, assert_same, count, tile_only


def _product(x: torch.Tensor, n: torch.Tensor) -> Any:
    return x * n.tolist()  # type: ignore[no-untyped-call]


def _returned(x: torch.Tensor, n: torch.Tensor) -> Any:
    return x + 1, n.tolist()  # type: ignore[no-untyped-call]


def _size(x: torch.Tensor, n: torch.Tensor) -> Any:
    size = n.tolist()  # type: ignore[no-untyped-call]
    return x[:size] * 2, torch.ones(size), size + 1


def _written_after(x: torch.Tensor, n: torch.Tensor) -> Any:
    number = n.tolist()  # type: ignore[no-untyped-call]
    n.add_(1)
    return x * number


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "product": _product,
    "returned": _returned,
    "size": _size,
    "written after": _written_after,
}


@tile_only
@pytest.mark.parametrize("dynamic", [None, False, True], ids=["automatic", "static", "dynamic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_is_that_of_the_call(name: str, dynamic: bool | None) -> None:
    """No graph runs in eager mode, which `strict` would hide: Dynamo breaks a graph at the error."""
    function = FUNCTIONS[name]
    other = torch.compile(function, backend=BACKEND, dynamic=dynamic)
    x = torch.randn(8, requires_grad=True)
    for value in (3, 5, 0, 8):
        n, expected_n = torch.tensor(value), torch.tensor(value)
        expected = function(x, expected_n)
        assert_same((other(x, n), n), (expected, expected_n))
    assert count("fallbacks") == 0
