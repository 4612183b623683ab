"""Dynamic sizes that are short where vectors lie have a kernel of their own beside that for all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
from tests.compiling import assert_same, compiled, copy_inputs, gradients, tile_only

pytestmark = tile_only
ROWS = 20000

PROGRAMS: dict[str, Callable[..., Any]] = {
    "flipped": lambda x: x.flip(1) * 2,
    "normed": lambda x: x / x.norm(dim=-1, keepdim=True),
    "softmax": lambda x: x.softmax(-1),
    "summed": lambda x: (x.sum(1), x.amax(0)),
    "joined": lambda x: torch.cat([x[:, 1:], x], 1),
    "rolled": lambda x: x.roll((1, 1), (0, 1)),
    "transposed": lambda x: x.t().contiguous() + 1,
    "padded": lambda x: torch.nn.functional.pad(x, (1, 2)),
    "places": lambda x: (x.argmax(1), x.argmin(0)),
    "running": lambda x: x.cumsum(1),
    "two results": lambda x: (x + 1, x.repeat_interleave(2, 1)),
    "distances": lambda x: (x[:, None] - x[None, :9]).square().sum(-1).sqrt(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_as_seen_and_others(name: str) -> None:
    function = PROGRAMS[name]
    run = compiled(function, dynamic=True)
    for rows, columns in ((ROWS, 3), (ROWS, 4), (50, 3), (70, 17), (ROWS, 2), (9, 300), (ROWS + 7, 3)):
        x = torch.randint(-20, 20, (rows, columns)).float() + 0.5
        assert_same(run(x), function(x))


def test_writes_and_scatters() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        x[:, 1:] += 1
        return torch.zeros_like(x).index_add_(0, index, x)

    run = compiled(function, dynamic=True)
    for rows, columns in ((ROWS, 3), (ROWS, 5), (60, 3), (ROWS, 2)):
        arguments = (torch.randint(-9, 9, (rows, columns)).float(), torch.randint(0, rows, (rows,)))
        mine = copy_inputs(arguments)
        expected = function(*arguments)
        assert_same(run(*mine), expected)
        assert torch.equal(mine[0], arguments[0])


def test_gradients() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.softmax(-1) * x).sum(0)

    run = compiled(function, dynamic=True)
    for rows, columns in ((ROWS, 3), (ROWS, 6), (400, 3)):
        x = torch.randn(rows, columns, dtype=torch.float64, requires_grad=True)
        assert_same(gradients(run, (x,)), gradients(function, (x,)))


def test_one_kernel_is_counted() -> None:
    with torch_tile.expect(kernels=1):
        compiled(lambda x: x.flip(1) * 2, dynamic=True)(torch.randn(ROWS, 3))
    (graph,) = torch_tile.explain(lambda x: x.flip(1) * 3, torch.randn(ROWS, 3), dynamic=True).graphs
    (kernel,) = graph.kernels
    assert kernel.name.endswith("_s1_3") and kernel.launches == 1


def test_small_and_long_ones_have_none() -> None:
    for shape in ((20, 3), (ROWS, 40)):
        (graph,) = torch_tile.explain(lambda x: x.flip(1) * 3, torch.randn(shape), dynamic=True).graphs
        assert [kernel.name for kernel in graph.kernels] == ["fused_flip_mul"]
