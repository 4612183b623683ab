"""Gradients that are sparse tensors are made of what the program returns; the rest of the graph is compiled."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import torch_tile
from tests.compiling import run_python
from torch_tile.frontend.sparse_results import without_sparse_results


def gradients(module: nn.Module, compiled: Any, *arguments: torch.Tensor) -> list[torch.Tensor]:
    module.zero_grad()
    compiled(*arguments).sin().sum().backward()
    return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]


def compared(module: nn.Module, batches: list[tuple[torch.Tensor, ...]], **options: Any) -> None:
    other = copy.deepcopy(module)
    compiled = torch.compile(module, backend="tile", fullgraph=True, options={"strict": True}, **options)
    for batch in batches:
        for one, two in zip(gradients(other, other, *batch), gradients(module, compiled, *batch), strict=True):
            assert one.layout == two.layout and one.shape == two.shape
            assert not one.is_sparse or one.is_coalesced() == two.is_coalesced()
            torch.testing.assert_close(two.to_dense(), one.to_dense())
    assert torch_tile.counters["fallbacks"] == 0


class TwoTables(nn.Module):
    def __init__(self, sparse: bool = True) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(50, 8, sparse=True), nn.Embedding(50, 8, sparse=sparse)
        self.rest = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))

    def forward(self, at: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.rest(self.first(at) * self.second(at + 1))
        return result


@pytest.mark.parametrize("sparse", [True, False])
def test_tables(sparse: bool) -> None:
    compared(TwoTables(sparse), [(torch.randint(0, 49, (6, 5)),) for _ in range(2)])


def test_one_table_for_two_lookups() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 8, sparse=True)

        def forward(self, at: torch.Tensor) -> torch.Tensor:
            return self.table(at).sin() + self.table(at.flip(0)).cos()

    compared(Shared(), [(torch.randint(0, 50, (7,)),)])


def test_dynamic_batches() -> None:
    compared(TwoTables(), [(torch.randint(0, 49, (n, 5)),) for n in (6, 9, 2)], dynamic=True)


def test_a_bag() -> None:
    compared(nn.EmbeddingBag(50, 8, mode="sum", sparse=True), [(torch.randint(0, 50, (6, 5)),)])


_PROGRAM = """
import torch, torch_tile
from torch import nn
torch.manual_seed(0)
module = nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Linear(8, 4), nn.GELU())
torch.compile(module, backend="tile")(torch.arange(6)).sum().backward()
print(module[0].weight.grad.is_sparse, float(module[0].weight.grad.to_dense().sum()), torch_tile.counters["fallbacks"])
"""


def test_a_second_process(cache_dir: Any) -> None:
    first, second = (run_python(_PROGRAM) for _ in range(2))
    assert first == second and first.startswith("True") and first.strip().endswith(" 0")


def test_operands_that_are_written_afterwards() -> None:
    """The rest is not split off then."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor]:
        made = x.to_sparse()
        x.add_(1)
        return (made,)

    graph = make_fx(program, tracing_mode="fake")(torch.eye(3))
    assert without_sparse_results(graph) is None
    graph = make_fx(lambda x: (x.sin().to_sparse(),), tracing_mode="fake")(torch.eye(3))
    apart = without_sparse_results(graph)
    assert apart is not None
    rest, results_of = apart
    assert torch.equal(results_of(rest(torch.eye(3)))[0].to_dense(), torch.eye(3).sin())
