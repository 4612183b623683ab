"""A call that raises for an index out of range has not written element 0 in its place."""

from collections.abc import Callable

import pytest
import torch

import torch_tile

BAD = 10**6


def _index_add(x, i, v):
    return x.index_add_(0, i, v)


def _index_put(x, i, v):
    x[i] = v
    return x


def _index_put_accumulate(x, i, v):
    return x.index_put_((i,), v, accumulate=True)


def _index_copy(x, i, v):
    return x.index_copy_(0, i, v)


def _index_fill(x, i, v):
    return x.index_fill_(0, i, 7.0)


def _scatter(x, i, v):
    return x.scatter_(0, i.view(-1, *[1] * (x.dim() - 1)).expand_as(v), v)


def _scatter_add(x, i, v):
    return x.scatter_add_(0, i.view(-1, *[1] * (x.dim() - 1)).expand_as(v), v)


def _scatter_reduce(x, i, v):
    return x.scatter_reduce_(0, i.view(-1, *[1] * (x.dim() - 1)).expand_as(v), v, "amax")


WRITES = [
    _index_add,
    _index_put,
    _index_put_accumulate,
    _index_copy,
    _index_fill,
    _scatter,
    _scatter_add,
    _scatter_reduce,
]


@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 40), (4, 33, 5)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__[1:])
def test_element_0_is_left_alone(write: Callable, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    size = shape[0]
    x = torch.full(shape, 1).to(dtype)
    # The bad index comes last, and none of the others is 0.
    indices = torch.arange(1, size).repeat(3)[: 2 * size - 2].contiguous()
    if write is _index_put or write is _index_copy or write is _scatter:
        indices = torch.arange(1, size)
    indices = torch.cat([indices, torch.tensor([BAD])])
    values = torch.full((len(indices), *shape[1:]), 5).to(dtype)

    def call(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return write(x, i + 0, v * 1)

    with torch_tile.expect(fallbacks=0):
        compiled = torch.compile(call, backend="tile", fullgraph=True)
        with pytest.raises((IndexError, RuntimeError)):
            compiled(x, indices, values)
    assert bool((x[0] == 1).all())


def test_an_index_that_is_one_number() -> None:
    def call(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x[i] += v
        return x

    x = torch.ones(20, 17)
    compiled = torch.compile(call, backend="tile", fullgraph=True)
    with pytest.raises((IndexError, RuntimeError)):
        compiled(x, torch.tensor(BAD), torch.ones(17))
    assert torch.equal(x, torch.ones(20, 17))
    compiled(x, torch.tensor(3), torch.ones(17))
    assert bool((x[3] == 2).all()) and float(x.sum()) == 21 * 17
