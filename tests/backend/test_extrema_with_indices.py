"""Maxima and minima with their indices, beside others of the same values: one search may give several results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "both results": lambda x: x.max(-1),
    "a maximum before": lambda x: (x.amax(-1), x.max(-1)),
    "a minimum before": lambda x: (x.amin(0), x.min(0)),
    "of log_softmax": lambda x: (x.log_softmax(-1), x.max(-1, keepdim=True)),
    "aminmax before": lambda x: (torch.aminmax(x, dim=-1)[1], x.max(-1)),
    "both ends": lambda x: (x.log_softmax(-1), x.min(-1, True), x.max(-1, True)),
    "one search, two readers": lambda x: (x.max(-1), x.max(-1), x.argmax(-1)),
    "other values": lambda x: (x.log_softmax(-1).argmax(-1, True), x.amax(-1, True), x.argmax(-1, True)),
    "only indices": lambda x: (x.max(-1)[1], x.argmin(-1)),
    "only values": lambda x: (x.max(-1)[0], x.amax(-1)),
    "with a median": lambda x: [x.amax(0, True), x.median(0, True)[0], x.max(0, True)[0]],
    "of a flattened tensor": lambda x: (x.max(), x.argmax(), x.flatten().max(0)),
}


def written_between(x: torch.Tensor) -> Any:
    most, shifted = x.amax(1), x.sin()
    x.add_(shifted)
    return most, x.argmax(1), x.max(1)


FUNCTIONS["written between"] = written_between


@pytest.mark.parametrize("shape", [(8, 16), (5000, 2), (16, 1)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_eager(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    function, x = FUNCTIONS[name], torch.randn(shape)
    compiled = torch.compile(function, backend="tile", options={"strict": True})
    for one, other in zip(tree_leaves(compiled(x.clone())), tree_leaves(function(x.clone())), strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()


def test_not_a_number_and_ties() -> None:
    x = torch.tensor([[1.0, float("nan"), 3.0, float("nan")], [0.0, -0.0, 0.0, -1.0], [-float("inf")] * 4])
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        values, places = torch.compile(lambda x: x.max(1), backend="tile", options={"strict": True})(x.to(dtype))
        torch.testing.assert_close(values, x.to(dtype).max(1)[0], equal_nan=True)
        assert places.tolist() == [1, 0, 0]
