"""Blocks of the kernels of `flex_attention`, by what the score function takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torch_tile.frontend.flex.blocks import Blocks, choose
from torch_tile.frontend.flex.functions import ElementFunction

SHORT: dict[str, Callable[..., Any]] = {
    "distance": lambda s, b, h, i, j: s + (j - i) * 0.01,
    "causal": lambda s, b, h, i, j: torch.where(i >= j, s, -torch.inf),
    "window": lambda s, b, h, i, j: torch.where((i - j).abs() < 64, s * 2, s - 1),
}
LONG: dict[str, Callable[..., Any]] = {
    "soft cap": lambda s, b, h, i, j: 20 * torch.tanh(s / 20),
    "exponential": lambda s, b, h, i, j: s + torch.exp2(-h * 0.5),
    "many": lambda s, b, h, i, j: ((((s * 2 + i) * 3 - j) * 4 + i) * 5 - j) * 6 + i * j,
    "captured": lambda s, b, h, i, j, bias: s + torch.ops.aten.index.Tensor(bias, [h]),
}


def function(source: Callable[..., Any], *captured: torch.Tensor) -> ElementFunction:
    values = [torch.zeros(()), *(torch.zeros((), dtype=torch.int32) for _ in range(4))]
    return ElementFunction(make_fx(source, tracing_mode="fake")(*values, *captured), len(values))


@pytest.mark.parametrize("name", SHORT)
def test_short_functions(name: str) -> None:
    assert function(SHORT[name]).is_short()


@pytest.mark.parametrize("name", LONG)
def test_long_functions(name: str) -> None:
    captured = [torch.zeros(8)] if name == "captured" else []
    assert not function(LONG[name], *captured).is_short()


@pytest.mark.parametrize("width", [64, 128])
def test_few_scores_in_a_thread(width: int) -> None:
    """Of what a function reads for each score, a thread has 32 at most: with 64 it took five times as long."""

    def forward(is_long: bool) -> Blocks:
        mask, lengths = (128, 128), (2048, 2048)
        return choose("forward", width, torch.bfloat16, {}, mask, lengths, 227 << 10, is_long=is_long)

    long, short = forward(True), forward(False)
    assert long.rows * long.keys == 32 * 32 * long.num_warps
    assert short.rows * short.keys >= long.rows * long.keys
