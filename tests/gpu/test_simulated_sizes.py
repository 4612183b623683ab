"""Dynamic sizes on a simulated GPU: kernels made for small sizes, then called with larger ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiling import assert_same
from tests.gpu import simulator
from tests.gpu.simulated_backend import Counts, simulated

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

# Each takes a matrix. A tile over two reduced axes holds the whole of one, so that its length must be known.
PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "argmax of columns first": lambda x: (x.t().argmax(), x.t() * 2),
    "sum of columns first": lambda x: (x.t().contiguous().sum(), x.t() + 1),
    "turned": lambda x: (x.roll(1, 1).argmax(), x.roll(1, 1).relu()),
    "rows": lambda x: (x.softmax(1), x.amax(1)),
    "columns": lambda x: (x.softmax(0), x.sum(0)),
    "transposed": lambda x: x.t().contiguous() + 1,
    "variance": lambda x: torch.var_mean(x, 0),
    "reflected": lambda x: torch.nn.functional.pad(x[None], (2, 2), mode="reflect").sum((1, 2)),
    "running sum": lambda x: x.cumsum(0),
    "long running sum": lambda x: (x.repeat(9, 1) * 2).cumsum(0) + 1,
    "long running maximum": lambda x: x.repeat(9, 1).cummax(0),
    "places along columns": lambda x: x.argmin(0),
    "halves": lambda x: torch.cat([x[: x.shape[0] // 2].sum(0), x[x.shape[0] // 2 :].amax(0)]),
}
SIZES = [(16, 12), (48, 52), (130, 66), (33, 200), (300, 7)]


@pytest.fixture
def counts_of_graphs() -> Iterator[type[Counts]]:
    torch.compiler.reset()
    with simulated() as counts:
        counts.simulated = counts.left_out = 0
        yield counts
    torch.compiler.reset()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sizes_beyond_the_first(counts_of_graphs: type[Counts], name: str, dtype: torch.dtype) -> None:
    function = PROGRAMS[name]
    compiled = torch.compile(function, backend="tile", dynamic=True, fullgraph=True, options={"strict": True})
    for rows, columns in SIZES:
        x = torch.randint(-99, 99, (rows, columns), generator=torch.Generator().manual_seed(rows)).to(
            dtype
        )  # exact sums
        assert_same(compiled(x), function(x))
    assert counts_of_graphs.simulated == 1 and counts_of_graphs.left_out == 0


def test_graphs_in_the_cache_of_the_cpu() -> None:
    compiled = torch.compile(PROGRAMS["running sum"], backend="tile", dynamic=True, fullgraph=True)
    x = torch.ones(16, 12)
    compiled(x)
    torch.compiler.reset()
    with simulated() as counts:
        counts.simulated = 0
        compiled(x)
        assert counts.simulated == 1
    torch.compiler.reset()


def test_two_reduced_axes_of_views(counts_of_graphs: type[Counts]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        turned = x.roll((1, -1), (1, -3))
        place = turned.argmax() * 2
        return torch.fmin(turned.relu(), place), place * -2

    compiled = torch.compile(function, backend="tile", dynamic=True, fullgraph=True, options={"strict": True})
    for n, m in ((16, 5), (48, 7), (20, 9)):
        x = torch.randint(0, 256, (n, m, m, n), dtype=torch.uint8)
        assert_same(compiled(x), function(x))
    assert counts_of_graphs.simulated == 1
