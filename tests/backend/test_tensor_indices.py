"""Indices that are integer tensors of no dimension: `cache[position]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import BACKEND, assert_same, count, fresh, tile_only


def _set(x: torch.Tensor, i: torch.Tensor) -> Any:
    x[i] = 5.0
    return x * 2


def _set_column(x: torch.Tensor, i: torch.Tensor) -> Any:
    x[..., i] = x[..., 0] * 2
    return x + 1


def _set_chosen(x: torch.Tensor, i: torch.Tensor) -> Any:
    x[i, :, torch.tensor([1, 2])] = 7.0
    return x + 1


def _add_in_place(x: torch.Tensor, i: torch.Tensor) -> Any:
    x[i] += 1
    x[i, 0] *= 2
    return x * 1


def _loop(x: torch.Tensor, i: torch.Tensor) -> Any:
    for k in range(3):
        x[i - k % 2, k] = x[i, k] * 2
    return x.sum(0)


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "read": lambda x, i: x[i] * 2,
    "computed": lambda x, i: x[i - 1] * 2,
    "of 32 bits": lambda x, i: x[i.int()] * 2,
    "a view": lambda x, i: x[i],
    "two": lambda x, i: x[i, i - 2] + 1,
    "behind a slice": lambda x, i: x[:, i, None] + 1,
    "before an ellipsis": lambda x, i: x[None, i, 2, ..., 1:3] * 2,
    "beside a tensor": lambda x, i: x[i, :, torch.tensor([1, 2])] * 2,
    "behind a tensor": lambda x, i: x[torch.tensor([1, 2]), i, ..., 0] * 2,
    "behind a mask": lambda x, i: x[torch.ones(4, 5, dtype=torch.bool), i] * 2,
    "in a list": lambda x, i: x[torch.stack([i, i])] * 2,
    "slice": lambda x, i: x[i - 1 : i + 1] * 2,
    "position of the largest": lambda x, i: x[(x[:, 0, 0, 0] * i).argmax()] * 2,
    "set": _set,
    "set column": _set_column,
    "set chosen": _set_chosen,
    "in place": _add_in_place,
    "loop": _loop,
}


@tile_only
@pytest.mark.parametrize("captures", [False, True], ids=["", "captured"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_index(name: str, captures: bool) -> None:
    function = FUNCTIONS[name]
    with torch._dynamo.config.patch(capture_scalar_outputs=captures):
        fresh()
        other = torch.compile(function, backend=BACKEND)
        for value in (2, 1, 2):
            x, i = torch.randn(4, 5, 6, 4), torch.tensor(value)
            y = x.clone()
            assert_same((other(y, i), y), (function(x, i), x))
    assert count("fallbacks") == 0


@tile_only
def test_negative_and_outside() -> None:
    other = torch.compile(lambda x, i: x[i + 1] * 2, backend=BACKEND)
    x = torch.randn(8, 3)
    for value in (0, -1, -9, 6):
        assert_same(other(x, torch.tensor(value)), x[value + 1] * 2)
    for value in (7, -10):
        with pytest.raises(IndexError, match=f"index {value + 1} is out of bounds for dimension 0 with size 8"):
            other(x, torch.tensor(value))
    assert count("fallbacks") == 0


@tile_only
def test_gradient() -> None:
    other = torch.compile(lambda x, i: (x[i] ** 2).sum(), backend=BACKEND)
    for value in (1, 3, -2):
        x = torch.randn(4, 5, requires_grad=True)
        (grad,) = torch.autograd.grad(other(x, torch.tensor(value)), x)
        (expected,) = torch.autograd.grad((x[value] ** 2).sum(), x)
        assert_same(grad, expected)
    assert count("fallbacks") == 0
