"""Tensors beyond 2^31 elements (int8) and 2^31 bytes (float32): the last elements come out right.

Run: pointwise, copies and views that begin past 2^31, gathers and writes at indices past it, sums and extrema of whole
tensors and of long rows, static and with symbolic sizes. At most 5.5 GiB of memory; skipped where 8 GiB are not free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.compiling import compiled

BEYOND = 2**31 + 77
CHUNK = 1 << 24


def _free_bytes() -> int:
    with open("/proc/meminfo") as file:
        lines = dict(line.split(":") for line in file)
    return int(lines["MemAvailable"].split()[0]) * 1024


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_free_bytes() < 8 << 30, reason="8 GiB of memory are not free"),
]


@pytest.fixture(autouse=True)
def give_memory_back() -> Iterator[None]:
    yield
    torch.compiler.reset()
    import torch_tile

    torch_tile.empty_cache()


@pytest.fixture(scope="module")
def bytes_beyond() -> Iterator[torch.Tensor]:
    """2^31 + 77 numbers of one byte, no two neighbours equal, their period no power of two."""
    x = torch.empty(BEYOND, dtype=torch.int8)
    pattern = (torch.arange(CHUNK + 251) % 251 - 125).to(torch.int8)
    for begin in range(0, BEYOND, CHUNK):
        shift = begin % 251
        count = min(CHUNK, BEYOND - begin)
        x[begin : begin + count] = pattern[shift : shift + count]
    yield x


def assert_pieces(result: torch.Tensor, expected: Callable[[int, int], torch.Tensor]) -> None:
    """Equal to `expected(begin, end)` everywhere, without another tensor of that size."""
    for begin in range(0, result.shape[0], CHUNK):
        end = min(begin + CHUNK, result.shape[0])
        piece = expected(begin, end)
        assert torch.equal(result[begin:end], piece), f"in [{begin}, {end})"


@pytest.mark.parametrize("dynamic", [False, True])
def test_pointwise(bytes_beyond: torch.Tensor, dynamic: bool) -> None:
    x = bytes_beyond
    result = compiled(lambda x: x * 2 + 1, dynamic=dynamic)(x)
    assert_pieces(result, lambda begin, end: x[begin:end] * 2 + 1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_views_that_begin_past_the_limit(bytes_beyond: torch.Tensor, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        return (
            x[-9:] + 1,
            x[2**31 :: 5] * 2,
            x.flip(0)[:7] + 1,
            x.roll(3)[:5] + 1,
            x.unflatten(0, (25, -1))[-1, -4:] * 3,
        )

    x = bytes_beyond
    x = x[: BEYOND - BEYOND % 25]
    results = compiled(function, dynamic=dynamic)(x)
    expected = (
        x[-9:] + 1, x[2**31 :: 5] * 2, x[-7:].flip(0) + 1, torch.cat([x[-3:], x[:2]]) + 1, x[-4:] * 3,
    )  # fmt: skip
    for result, wanted in zip(results, expected, strict=True):
        assert torch.equal(result, wanted)


@pytest.mark.parametrize("dynamic", [False, True])
def test_reductions(bytes_beyond: torch.Tensor, dynamic: bool) -> None:
    x = bytes_beyond
    x[BEYOND - 3] = 127
    total, largest, place = compiled(lambda x: (x.sum(dtype=torch.int64), x.amax(), x.argmax()), dynamic=dynamic)(x)
    pieces = range(0, BEYOND, CHUNK)
    assert total.item() == sum(int(x[k : k + CHUNK].sum(dtype=torch.int64)) for k in pieces)
    assert largest.item() == 127 and place.item() == BEYOND - 3


@pytest.mark.parametrize("dynamic", [False, True])
def test_indices(bytes_beyond: torch.Tensor, dynamic: bool) -> None:
    x = bytes_beyond
    at = torch.tensor([0, 2**31 - 1, 2**31, BEYOND - 1, -1, -BEYOND, 5])
    assert torch.equal(compiled(lambda x, i: x[i] + 1, dynamic=dynamic)(x, at), x[at] + 1)
    positions = at.clamp_min(0)
    assert torch.equal(compiled(lambda x, i: x.gather(0, i) + 1, dynamic=dynamic)(x, positions), x[positions] + 1)
    with pytest.raises(IndexError):
        compiled(lambda x, i: x[i] + 1, dynamic=dynamic)(x, torch.tensor([BEYOND]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_writes_in_place(bytes_beyond: torch.Tensor, dynamic: bool) -> None:
    x = bytes_beyond
    at = torch.tensor([3, 2**31 + 1, BEYOND - 2])
    before, tail = x[at].clone(), x[-40:-30].clone()

    def function(x: torch.Tensor, i: torch.Tensor) -> None:
        x[-40:-30].add_(1)
        x.index_put_((i,), torch.tensor(7, dtype=torch.int8))

    compiled(function, dynamic=dynamic)(x, at)
    assert x[at].tolist() == [7, 7, 7] and torch.equal(x[-40:-30], tail + 1)
    x[at], x[-40:-30] = before, tail


def test_positions_that_no_tensor_holds() -> None:
    """An expanded number, and positions counted past 2^31: nothing of that size is in memory."""
    one = torch.ones(1, dtype=torch.int32)
    assert compiled(lambda x: x.expand(BEYOND).sum())(one).item() == BEYOND
    result = compiled(lambda x: (torch.arange(BEYOND) * 3)[-4:] + x)(one)
    assert torch.equal(result, torch.arange(BEYOND - 4, BEYOND) * 3 + 1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_bytes_of_float32(dynamic: bool) -> None:
    """2 GiB in rows that end past 2^31 bytes; their columns are as far apart as 32 bits hold."""
    rows, columns = 3, (1 << 28) // 3 * 2 + 5
    x = torch.empty(rows, columns)
    for k in range(rows):
        x[k] = k + 1
        x[k, -1] = 50 + k
    assert x.numel() * 4 > 2**31

    def function(x: torch.Tensor) -> Any:
        return x.amax(-1), x.sum(0)[-3:], x.t()[-2:] * 2, x[-1, -3:] + 1, (x > 40).sum(-1)

    largest, columns_sum, turned, end, count = compiled(function, dynamic=dynamic)(x)
    assert largest.tolist() == [50, 51, 52] and count.tolist() == [1, 1, 1]
    assert columns_sum.tolist() == [6, 6, 153]
    assert turned.tolist() == [[2, 4, 6], [100, 102, 104]] and end.tolist() == [4, 4, 53]
