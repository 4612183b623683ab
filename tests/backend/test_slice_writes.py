"""Assignments to parts of tensors: values as in eager mode, and no more memory written than the part."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import torch_tile
from tests.compiling import assert_same, compiled, copy_inputs, count, fresh, tile_only
from torch_tile.frontend.part_writes import at_indices, into_inputs

CACHE = (2, 4, 512, 32)


def row(cache: torch.Tensor, x: torch.Tensor, p: int) -> torch.Tensor:
    cache[:, :, p : p + 1] = x
    return cache[:, :, p] * 2


def selected(cache: torch.Tensor, x: torch.Tensor, p: int) -> torch.Tensor:
    cache[:, 1, p] = x[:, 1, 0]
    return cache.sum(2)


def added(cache: torch.Tensor, x: torch.Tensor, p: int) -> torch.Tensor:
    cache[:, :, p : p + 3] += x
    return x + 1


def twice(cache: torch.Tensor, x: torch.Tensor, p: int) -> torch.Tensor:
    cache[:, :, p : p + 1] = x
    y = cache[:, :, p] * 2
    cache[:, :, p + 1 : p + 2] = x * 3
    return y + cache[:, :, p + 1]


def indexed(cache: torch.Tensor, x: torch.Tensor, p: int) -> torch.Tensor:
    cache[:, :, torch.tensor([5])] = x
    return cache[:, :, 0] * 2


def multiplied(cache: torch.Tensor, x: torch.Tensor, p: int) -> torch.Tensor:
    for k in range(3):
        cache[0, 0, k + 1] = cache[0, 0, k] @ x.new_ones(32, 32)
    return x + 1


@tile_only
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [row, selected, added, twice, indexed, multiplied])
def test_part_of_an_input(function: Callable[..., Any], dynamic: bool) -> None:
    """A cache of keys and values takes a row in place: nothing of its size is made."""
    inputs = torch.randn(CACHE), torch.randn(2, 4, 1, 32), 7
    mine, theirs = copy_inputs(inputs), copy_inputs(inputs)
    fresh()
    assert_same(compiled(function, dynamic=dynamic)(*mine), function(*theirs), rtol=1e-5, atol=1e-4)
    assert_same(mine[0], theirs[0], rtol=1e-5, atol=1e-4)
    explained = torch_tile.explain(compiled(function, dynamic=dynamic), *copy_inputs(inputs))
    assert explained.peak_bytes < inputs[0].nbytes // 2


def strided(x: torch.Tensor) -> torch.Tensor:
    x[::2].mul_(2)
    return x


def columns(x: torch.Tensor) -> torch.Tensor:
    for k in range(5):
        x[:, 40 * k : 40 * k + 40] *= k
    return x[0] + 1


def both_ways(x: torch.Tensor) -> torch.Tensor:
    x[5, :] = 0
    x[:, 7] = x[:, 9]
    return x.t()


def parts_of_parts(x: torch.Tensor) -> torch.Tensor:
    y = x[3:90]
    y[5:60, ::3][2:9] += 1
    return y.sum()


def shifted(x: torch.Tensor) -> torch.Tensor:
    x[1:100] = x[0:99] + 1
    return x[:3] * 2


def diagonal(x: torch.Tensor) -> torch.Tensor:
    x.diagonal().add_(1)
    return x[0] * 2


def diagonals(x: torch.Tensor) -> torch.Tensor:
    x.diagonal(2).mul_(2)
    x.diagonal(-3, 1, 0)[4:9] = 0
    x[10:60, 20:90].diagonal(1).exp_()
    return x.sum(1)


def read_later(x: torch.Tensor) -> torch.Tensor:
    old = x[10:20]
    old = old + 0 if x.shape[1] == 7 else old.clone()
    x[10:30].exp_()
    return old - x[10:20]


@tile_only
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "function", [strided, columns, both_ways, parts_of_parts, shifted, diagonal, diagonals, read_later]
)
def test_parts_alone_are_written(function: Callable[..., Any], dynamic: bool) -> None:
    inputs = (torch.randn(100, 200),)
    mine, theirs = copy_inputs(inputs), copy_inputs(inputs)
    fresh()
    call = compiled(function, dynamic=dynamic)
    assert_same(call(*mine), function(*theirs), rtol=1e-5, atol=1e-5)
    assert_same(mine, theirs, rtol=1e-5, atol=1e-5)
    explained = torch_tile.explain(call, *copy_inputs(inputs))
    assert not any("cat" in k.name or "where" in k.name for g in explained.graphs for k in g.kernels)
    assert explained.peak_bytes < inputs[0].nbytes or function is shifted
    more = (torch.randn(131, 203),)
    mine, theirs = copy_inputs(more), copy_inputs(more)
    assert_same(call(*mine), function(*theirs), rtol=1e-5, atol=1e-5)
    assert_same(mine, theirs, rtol=1e-5, atol=1e-5)


def columns_of_rows(x: torch.Tensor) -> None:
    x.t()[3].fill_(1)
    x.transpose(0, 1)[5:7] *= 2


def flattened(x: torch.Tensor) -> None:
    x.view(-1)[::7].zero_()
    x.view(x.shape[0] * x.shape[1])[5:20].add_(1)


def blocks(x: torch.Tensor) -> None:
    x.unflatten(0, (10, -1))[3, :, 5].zero_()
    x.unflatten(0, (10, -1)).permute(1, 0, 2)[7].mul_(2)


def filled_diagonal(x: torch.Tensor) -> None:
    x.fill_diagonal_(2.0)


def any_strides(x: torch.Tensor) -> None:
    x.as_strided((30, 2), (5, 2)).add_(1)


def more_dimensions(x: torch.Tensor) -> None:
    x[None, :, :, None].squeeze()[4].zero_()
    x.unsqueeze(1)[7, 0] = 5


def pieces(x: torch.Tensor) -> None:
    first, second = x.split(50)[:2]
    first[1].zero_()
    second[2].fill_(3)
    x.chunk(4, 1)[2][5].zero_()
    x[60:64].unbind(0)[1].mul_(2)


VIEWS = (columns_of_rows, flattened, blocks, filled_diagonal, any_strides, more_dimensions, pieces)


@tile_only
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", VIEWS)
def test_views_alone_are_written(function: Callable[..., Any], dynamic: bool) -> None:
    """However the part is named: `x.t()[3]` is a column."""
    mine = torch.randn(100, 200)
    theirs = mine.clone()
    fresh()
    call = compiled(function, dynamic=dynamic)
    call(mine)
    function(theirs)
    assert_same(mine, theirs)
    if function is blocks and dynamic:
        return  # nothing proves that ten blocks of a tenth of the rows are all rows
    # An offset counts from the storage, of which the program does not know where the input begins.
    assert count("externs") == (function is filled_diagonal)
    explained = torch_tile.explain(call, mine)
    assert explained.kernel_bytes < mine.nbytes and explained.peak_bytes == 0


@tile_only
def test_writes_with_steps_in_branches() -> None:
    def function(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        def ones(x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y[::2] += 1
            return y

        def zeros(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y[1::3] = 0
            return y

        return torch.cond(p.sum() > 0, ones, zeros, (x,))

    call, x = compiled(function), torch.randn(9, 4)
    for p in (torch.ones(2), -torch.ones(2)):
        fresh()
        assert_same(call(x, p), function(x, p))
        assert count("externs") == 0


@tile_only
def test_writes_of_a_part_in_training() -> None:
    """What the backward pass needs is saved before it is written."""

    def function(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        y = (cache[::2].clone() * x).sin()
        cache[::2] = x.detach() * 3
        return y * cache[1::2]

    x, cache = torch.randn(8, 30), torch.randn(16, 30)
    gradients = []
    for call in (compiled(function), function):
        leaf, written = x.clone().requires_grad_(), cache.clone()
        result = call(leaf, written)
        result.square().sum().backward()
        gradients.append((result.detach(), leaf.grad, written))
    assert_same(*gradients, rtol=1e-5, atol=1e-5)


@tile_only
def test_rows_of_a_result() -> None:
    """Each row of a buffer is written once, however many there are."""

    def function(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        h, rows = torch.zeros_like(a), torch.empty_like(x)
        for k in range(x.shape[0]):
            h = h * a + x[k]
            rows[k] = h
        return rows

    inputs = torch.randn(24, 4000), torch.rand(4000)
    fresh()
    assert_same(compiled(function)(*inputs), function(*inputs), rtol=1e-5, atol=1e-5)
    kernels = [k for g in torch_tile.explain(compiled(function), *inputs).graphs for k in g.kernels]
    assert sum(k.launches for k in kernels if "index_put" in k.name) >= 24
    assert not any("cat" in k.name for k in kernels), "each row as one choice among all"


def layouts(chosen: random.Random, sizes: Sequence[int]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Views of a dense tensor, of all or some of its elements, one after the other."""
    given = torch.empty(list(sizes))
    ways: list[Callable[[torch.Tensor], torch.Tensor]] = []
    for _ in range(chosen.choice((0, 0, 0, 1, 1, 2, 3))):
        x = functools.reduce(lambda value, way: way(value), ways, given)
        a, b = (chosen.randrange(x.dim()) if x.dim() else 0 for _ in range(2))
        size = x.shape[a] if x.dim() else 1
        possible: list[Callable[[torch.Tensor], torch.Tensor]] = [
            lambda x, a=a: x.unsqueeze(a),
            lambda x: x.squeeze(),
            lambda x: x[None, ..., None].squeeze(0),
        ]
        if x.dim():
            length = chosen.randint(1, size)
            possible += [
                lambda x, a=a, b=b: x.transpose(a, b),
                lambda x: x.permute(*reversed(range(x.dim()))),
                lambda x, a=a, n=length: x.split(n, a)[0],
                lambda x, a=a, n=length: x.split(n, a)[-1],
                lambda x, a=a: x.unbind(a)[-1],
                lambda x, a=a, n=length: x.narrow(a, 0, n),
            ]
        if x.is_contiguous() and x.dim():
            factor = next(n for n in range(2, size + 2) if size % n == 0 or n > size)
            possible.append(lambda x: x.view(-1))
            if factor <= size:
                possible.append(lambda x, a=a, n=factor: x.unflatten(a, (n, -1)))
        if x is given:
            skipped = chosen.randrange(2)
            possible.append(lambda x, n=skipped: x.as_strided((x.shape[0] - n,), (x.stride(0),), n * x.stride(0)))
        ways.append(chosen.choice(possible))
    return lambda x: functools.reduce(lambda value, way: way(value), ways, x)


def program(seed: int) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Writes of parts, reads before, between and behind them, of one input or a tensor of the function."""
    chosen = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    sizes = [chosen.randint(3, 7) for _ in range(chosen.randint(1, 3))]
    steps: list[Callable[[dict[str, Any]], None]] = []

    def part() -> Callable[[torch.Tensor], torch.Tensor]:
        lay = layouts(chosen, sizes)
        shape = lay(torch.empty(sizes)).shape
        index: list[Any] = []
        for size in shape[: chosen.randint(1, max(len(shape), 1))]:
            begin = chosen.randrange(size)
            kind = chosen.randrange(4)
            index.append(
                begin - size * chosen.randint(0, 1) if kind == 0
                else slice(None) if kind == 1
                else slice(begin, chosen.randint(begin, size), chosen.choice((None, None, 2, 3)))
            )  # fmt: skip
        return lambda x: lay(x)[tuple(index)]

    for _ in range(chosen.randint(1, 9)):
        kind, where, source = chosen.randrange(8), part(), part()
        if kind < 3:
            value = chosen.random()
            steps.append(lambda s, w=where, v=value: w(s["x"]).copy_(w(s["y"]) * v + w(s["x"])))
        elif kind == 3:
            steps.append(
                lambda s, w=where: w(s["x"]).copy_(w(s["x"]).flip(0)) if w(s["x"]).dim() else w(s["x"]).fill_(3)
            )
        elif kind == 4:
            steps.append(lambda s, w=where, f=source: w(s["x"]).copy_(f(s["x"]).sum() * 0.5))
        elif kind == 5:
            steps.append(lambda s, w=where: s["results"].append(w(s["x"]) * 2))
        elif kind == 6:
            steps.append(lambda s: s.update(old=s["x"] + 0))
        else:
            steps.append(lambda s: s["results"].append(s["old"] - s["x"]))
    is_input, is_returned = chosen.random() < 0.6, chosen.random() < 0.3

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        state: dict[str, Any] = {"x": x if is_input else x.clone(), "y": y, "old": y, "results": []}
        for step in steps:
            step(state)
        return state["results"], state["x"] if is_returned or not is_input else y.sum()

    return function, [torch.rand(sizes, generator=generator), torch.rand(sizes, generator=generator)]


@tile_only
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("block", range(4))
def test_random_writes_of_parts(block: int, dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As writes of their own wherever the passes may, whatever they cost."""
    monkeypatch.setattr(at_indices, "_ELEMENTS_PER_WRITE", -(10**6))
    monkeypatch.setattr(at_indices, "_FEW_CHOICES", 0)
    monkeypatch.setattr(into_inputs, "_is_worth_it", lambda chain: True)
    chosen: list[int] = []
    at, into = at_indices.write_at_indices, into_inputs._write
    monkeypatch.setattr("torch_tile.frontend.compile.write_at_indices", lambda *args: chosen.append(at(*args)))
    monkeypatch.setattr(into_inputs, "_write", lambda *args: (chosen.append(1), into(*args))[1])
    # torch takes three times as long to trace with symbols.
    for seed in range(block * 15, block * 15 + 15, 3 if dynamic else 1):
        function, inputs = program(seed)
        mine, theirs = copy_inputs(inputs), copy_inputs(inputs)
        fresh()
        with torch_tile.config.patch(cache=False):
            result = compiled(function, dynamic=dynamic)(*mine)
        assert_same(result, function(*theirs), rtol=1e-5, atol=1e-5)
        assert_same(mine, theirs, rtol=1e-5, atol=1e-5)
    assert sum(chosen) >= (1 if dynamic else 4)
