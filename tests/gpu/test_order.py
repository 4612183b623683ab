"""Writes that keep an order are left to torch on a GPU: read from the printed graph, so no device is needed. Folds but
sums keep it always, sums and other writes where torch is asked for deterministic algorithms.

Scans keep an order too: their kernels are the GPU's own (test_scans.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from torch_tile import _C
from torch_tile.frontend.deterministic import deterministic as deterministically

aten = torch.ops.aten


def outside(
    function: Callable[..., Any], *shapes: tuple[tuple[int, ...], torch.dtype], deterministic: bool = False
) -> list[str]:
    with deterministically(deterministic), FakeTensorMode(allow_non_fake_inputs=True):
        arguments = [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in shapes]
        graph = make_fx(function, tracing_mode="fake")(*arguments)
        return [op for _, op, _ in _C.print_graph(graph).externs]


def _reduce(how: str) -> Callable[..., torch.Tensor]:
    return lambda x, i, y: x.scatter_reduce(0, i, y, how)


f32, f64, bf16, i32, i64, i16 = (
    getattr(torch, name) for name in ("float32", "float64", "bfloat16", "int32", "int64", "int16")
)
LINES = ((8, 9), (4, 9), (4, 9))


def _lines(dtype: torch.dtype) -> list[Any]:
    return [(shape, kind) for shape, kind in zip(LINES, (dtype, i64, dtype), strict=True)]


@pytest.mark.parametrize(
    "function, shapes, expected",  # in default mode, and deterministic
    [
        (lambda x: x.cumsum(0), [((8, 9), f32)], (False, False)),
        (lambda x, i, y: x.scatter_add(0, i, y), _lines(f32), (False, True)),
        (lambda x, i, y: x.scatter_add(0, i, y), _lines(bf16), (False, True)),
        (lambda x, i, y: x.scatter_add(0, i, y), _lines(f64), (False, True)),
        (lambda x, i, y: x.scatter_add(0, i, y), _lines(i32), (False, True)),
        (lambda x, i, y: x.scatter_add(0, i, y), _lines(i16), (True, True)),  # there is no such atomic update
        (_reduce("mean"), _lines(f32), (False, True)),
        (_reduce("prod"), _lines(f32), (True, True)),
        (_reduce("amax"), _lines(f32), (False, True)),
        (lambda x, i, y: x.scatter(0, i, y, reduce="multiply"), _lines(f32), (True, True)),
        (lambda x, i, y: x.index_add(0, i, y), [((8, 9), f32), ((4,), i64), ((4, 9), f32)], (False, True)),
        (lambda g, i: aten.embedding_dense_backward(g, i, 9, -1, False), [((4, 9), f32), ((4,), i64)], (False, True)),
        (lambda x, i, y: x.index_put((i,), y, True), [((8, 9), f32), ((4,), i64), ((4, 9), f32)], (False, True)),
        (lambda x, i, y: x.index_put((i,), y), [((8, 9), f32), ((4,), i64), ((4, 9), f32)], (False, False)),
        (lambda x, i, y: x.index_copy(0, i, y), [((8, 9), f32), ((4,), i64), ((4, 9), f32)], (False, False)),
        (lambda x, i, y: x.index_copy(0, i, y), [((8000, 9), f32), ((4000,), i64), ((4000, 9), f32)], (False, True)),
    ],
    ids=[
        *("cumsum", "scatter_add", "of bf16", "of f64", "of i32", "of i16", "mean", "prod", "amax", "multiply"),
        *("index_add", "embedding", "accumulate", "set few", "copy few", "copy many"),
    ],
)
@pytest.mark.parametrize("deterministic", [False, True])
def test_order(function: Any, shapes: Any, expected: tuple[bool, bool], deterministic: bool) -> None:
    assert bool(outside(function, *shapes, deterministic=deterministic)) == expected[deterministic]
