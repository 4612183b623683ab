"""Elements of one tensor that lie far from each other."""

from collections.abc import Callable

import pytest
import torch

from tests.compiling import compiled

FAR: dict[str, tuple[torch.dtype, int, Callable[[torch.Tensor], torch.Tensor]]] = {
    "three of int8": (torch.int8, 2**28 + 1, lambda x: x[:: 2**27] + 1),
    "two of int8": (torch.int8, 2**28 + 1, lambda x: x[:: 2**28] + 1),
    "three of int16": (torch.int16, 2**28 + 1, lambda x: x[:: 2**27] + 1),
    "sum of int8": (torch.int8, 2**29 + 1, lambda x: x[:: 2**27].sum()),
    "a column of int8": (torch.int8, 2**30, lambda x: x.view(4, 2**28)[:, 5] + 1),
    "a write to int8": (torch.int8, 2**28 + 1, lambda x: x[:: 2**27].add_(1)),
}


@pytest.mark.parametrize("name", FAR)
def test_equals_eager(name: str) -> None:
    dtype, elements, function = FAR[name]
    x = torch.empty(elements, dtype=dtype)  # pages that nobody touches take no memory
    places = torch.arange(0, elements, 2**27)
    x[places] = torch.arange(len(places)).to(dtype)
    x[places[: elements // 2**28] * 2 + 5] = 7
    expected = function(x.clone()) if name == "a write to int8" else function(x)
    assert torch.equal(compiled(function)(x), expected)
