"""Floats of 8 bits: constants, comparisons, choices and shapes, compiled as the interpreter has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

TYPES = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@torch_tile.jit
def pointwise(x_ptr, o_ptr, F: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(o_ptr + i, F(tl.load(x_ptr + i)))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "maximum": lambda v: tl.maximum(v, 0),
    "minimum": lambda v: tl.minimum(v, 1.0),
    "clamp": lambda v: tl.clamp(v, -1.0, 1.0),
    "less": lambda v: v < 1,
    "equal": lambda v: v == 0.0,
    "condition": lambda v: v.to(tl.int1),
    "zeros_like": tl.zeros_like,
    "zeros": lambda v: tl.zeros([64], v.dtype),
    "full": lambda v: tl.full([64], 1, v.dtype),
    "where": lambda v: tl.where(v != 0, v, tl.full([64], 2.0, v.dtype)),
    "integers": lambda v: v.to(tl.int8),
    "transpose": lambda v: tl.reshape(tl.trans(tl.reshape(v, [8, 8])), [64]),
    "flip": tl.flip,
    "same": lambda v: v,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t).split("_", 1)[1])
def test_as_interpreted(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (torch.randn(64) * torch.tensor([1.0, 100.0, 0.0, 1e-3]).repeat(16)).to(dtype)
    for out in (torch.float32, dtype, torch.bool):
        compiled, interpreted = torch.zeros(64, dtype=out), torch.zeros(64, dtype=out)
        pointwise[(1,)](x, compiled, F=FUNCTIONS[name])
        pointwise.interpret[(1,)](x, interpreted, F=FUNCTIONS[name])
        torch.testing.assert_close(compiled.float(), interpreted.float(), rtol=0, atol=0, equal_nan=True)


@torch_tile.jit
def rows_of_one(x_ptr, o_ptr):
    v = tl.broadcast_to(tl.load(x_ptr + tl.arange(0, 8))[:, None], [8, 4])
    tl.store(o_ptr + tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4)[None, :], v)


@torch_tile.jit
def scalar_to_all(x_ptr, o_ptr):
    tl.store(o_ptr + tl.arange(0, 64), tl.load(x_ptr))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t).split("_", 1)[1])
def test_spread(dtype: torch.dtype) -> None:
    x, o = torch.arange(1.0, 9).to(dtype), torch.empty(8, 4)
    rows_of_one[(1,)](x, o)
    assert torch.equal(o, x.float()[:, None].expand(8, 4))
    o = torch.zeros(64, dtype=dtype)
    scalar_to_all[(1,)](x, o)
    assert (o.float() == 1).all()


@torch_tile.jit
def through_integers(x_ptr, o_ptr, TYPE: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(TYPE).to(tl.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("to", [tl.int8, tl.uint8, tl.int16, tl.uint16], ids=str)
def test_integers_keep_their_range(to: Any, dtype: torch.dtype) -> None:
    """Out of range a conversion gives the low bits of a wider integer, never a number that the type does not have."""
    x = torch.tensor([-1.0, -4.8, 300.0, 7.0, -300.0, 40000.0, float("nan"), float("inf")]).to(dtype)
    compiled, interpreted = torch.empty(8, dtype=torch.int64), torch.empty(8, dtype=torch.int64)
    through_integers[(1,)](x, compiled, TYPE=to)
    through_integers.interpret[(1,)](x, interpreted, TYPE=to)
    assert torch.equal(compiled, interpreted)


@torch_tile.jit
def larger(p, q):
    return p if p > q else q


@torch_tile.jit
def larger_by_steps(p, q):
    if p > q:
        chosen = p * 2 - p
    else:
        chosen = q * 1
        chosen = chosen + 0.0
    return chosen


@torch_tile.jit
def fold_columns(x_ptr, o_ptr, F: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 64)[:, None] * 4 + tl.arange(0, 4)[None, :])
    tl.store(o_ptr + tl.arange(0, 4), tl.reduce(x, 0, F))


@torch_tile.jit
def not_zero(p, q):
    return tl.where(p != 0, p, q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_choice_in_a_combiner(dtype: torch.dtype) -> None:
    """Of bfloat16 LLVM makes a rounding that is a call, if the processor has none."""
    x, o = torch.zeros(64, 4, dtype=dtype), torch.empty(4, dtype=dtype)
    x[[3, 9, 40], [0, 2, 3]] = torch.tensor([1.5, -2.0, 3.0], dtype=dtype)
    fold_columns[(1,)](x, o, F=not_zero)
    assert torch.equal(o, x.sum(0))


@torch_tile.jit
def farther(p, i, q, j):
    if p > q:
        return p, i
    return q, j


@torch_tile.jit
def fold_pairs(x_ptr, o_ptr, i_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64)[:, None] * 4 + tl.arange(0, 4)[None, :])
    place = tl.broadcast_to(tl.arange(0, 64)[:, None], [64, 4])
    most, where = tl.reduce((x, place), 0, farther)
    tl.store(o_ptr + tl.arange(0, 4), most)
    tl.store(i_ptr + tl.arange(0, 4), where)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("combine", [larger, larger_by_steps])
@pytest.mark.parametrize("interpreted", [False, True])
def test_combiner_with_branches(combine: Any, interpreted: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, o = torch.randn(64, 4).to(dtype), torch.empty(4, dtype=dtype)
    kernel: Any = fold_columns.interpret if interpreted else fold_columns
    kernel[(1,)](x, o, F=combine)
    assert torch.equal(o, x.amax(0))


@pytest.mark.parametrize("interpreted", [False, True])
def test_combiner_of_pairs_with_branches(interpreted: bool) -> None:
    torch.manual_seed(0)
    x, o, places = torch.randn(64, 4), torch.empty(4), torch.empty(4, dtype=torch.int32)
    kernel: Any = fold_pairs.interpret if interpreted else fold_pairs
    kernel[(1,)](x, o, places)
    assert torch.equal(o, x.amax(0)) and torch.equal(places.long(), x.argmax(0))


def plain_choice(p: Any, q: Any) -> Any:
    return p if p > q else q


def test_plain_helper_that_branches() -> None:
    """The advice names the helper: its own `if` is Python's."""

    @torch_tile.jit
    def kernel(x_ptr, o_ptr):
        tl.store(o_ptr, plain_choice(tl.load(x_ptr), tl.load(x_ptr + 1)))

    with pytest.raises(torch_tile.InvalidKernelError, match=r"decorate plain_choice with @torch_tile\.jit"):
        kernel[(1,)](torch.randn(2), torch.empty(1))
