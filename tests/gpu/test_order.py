"""Writes that keep an order are left to torch on a GPU: read from the printed graph, so no device is needed. Sums by
index keep it always, other writes where torch is asked for deterministic algorithms.

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


def outside(
    function: Callable[..., Any], *shapes: tuple[tuple[int, ...], torch.dtype], deterministic: bool = False
) -> list[str]:
    with deterministically(deterministic), FakeTensorMode(allow_non_fake_inputs=True):
        arguments = [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in shapes]
        graph = make_fx(function, tracing_mode="fake")(*arguments)
        return [op for _, op, _ in _C.print_graph(graph).externs]


f32, i64 = torch.float32, torch.int64


@pytest.mark.parametrize(
    "function, shapes, expected",  # in default mode, and deterministic
    [
        (lambda x: x.cumsum(0), [((8, 9), f32)], (False, False)),
        (lambda x, i, y: x.scatter_add(0, i, y), [((8, 9), f32), ((4, 9), i64), ((4, 9), f32)], (True, True)),
        (lambda x, i, y: x.index_put((i,), y, True), [((8, 9), f32), ((4,), i64), ((4, 9), f32)], (True, True)),
        (lambda x, i, y: x.index_put((i,), y), [((8, 9), f32), ((4,), i64), ((4, 9), f32)], (False, False)),
        (lambda x, i, y: x.index_copy(0, i, y), [((8, 9), f32), ((4,), i64), ((4, 9), f32)], (False, False)),
        (lambda x, i, y: x.index_copy(0, i, y), [((8000, 9), f32), ((4000,), i64), ((4000, 9), f32)], (False, True)),
    ],
    ids=["cumsum", "scatter_add", "accumulate", "set few", "copy few", "copy many"],
)
@pytest.mark.parametrize("deterministic", [False, True])
def test_order(function: Any, shapes: Any, expected: tuple[bool, bool], deterministic: bool) -> None:
    assert bool(outside(function, *shapes, deterministic=deterministic)) == expected[deterministic]
