"""The graph text that functions become: ops, casts, sizes, calls outside; and that every line has its FX node."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from tests.compiling import ROOT, tile_only

pytestmark = tile_only


def texts(function: Callable[..., Any], *args: Any, dynamic: bool = False) -> list[Any]:
    """GraphText of every graph of a call, forward and backward."""
    from torch_tile import _C
    from torch_tile.frontend.decompositions import decomposition_table

    found: list[Any] = []

    def keep(gm: torch.fx.GraphModule, _: Any) -> Any:
        found.append(_C.print_graph(gm))
        return make_boxed_func(gm.forward)

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return aot_module_simplified(
            gm, inputs, fw_compiler=keep, decompositions=decomposition_table(), keep_inference_input_mutations=True
        )

    torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)(*args)
    return found


def text_of(function: Callable[..., Any], *args: Any, dynamic: bool = False) -> str:
    (graph,) = texts(function, *args, dynamic=dynamic)
    check_lines(graph)
    return str(graph.text)


def check_lines(graph: Any) -> None:
    rows = graph.text.splitlines()
    named = {line for line, _ in graph.lines}
    assert named == set(range(3, len(rows))), "every op has a node, the header and the last brace have none"


def ops_of(text: str) -> list[str]:
    return re.findall(r"graph\.([a-z_0-9]+)[ (]", "\n".join(text.splitlines()[2:]))


def test_add_broadcasts_and_promotes() -> None:
    text = text_of(lambda a, b: a + b, torch.ones(4, 3, dtype=torch.int32), torch.ones(3))
    assert ops_of(text) == ["cast", "add", "return"]
    assert "graph.cast %0 : (!graph.tensor<[4, 3], i32>) -> !graph.tensor<[4, 3], f32>" in text


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        (torch.ones(2, dtype=torch.float16), torch.ones((), dtype=torch.float64), "f16"),
        (torch.ones(2, dtype=torch.int32), torch.ones((), dtype=torch.int64), "i32"),
        (torch.ones(2, dtype=torch.int32), torch.ones((), dtype=torch.float64), "f64"),
        (torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.uint8), "ui8"),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.float16), "f32"),
    ],
)
def test_promotion_by_category(left: torch.Tensor, right: torch.Tensor, dtype: str) -> None:
    text = text_of(lambda a, b: a * b, left, right)
    assert f"-> !graph.tensor<[2], {dtype}>\n  graph.return" in text


def test_inexact_number_meets_bfloat16_in_float32() -> None:
    text = text_of(lambda a: a * 0.1, torch.ones(4, dtype=torch.bfloat16))
    assert "graph.full {value = 0.1 : f64} : () -> !graph.tensor<[], f32>" in text
    assert "f32" not in text_of(lambda a: a * 0.5, torch.ones(4, dtype=torch.bfloat16))


def test_special_numbers() -> None:
    text = text_of(lambda a: torch.where(a > 1e-30, a, -torch.inf), torch.ones(4))
    assert "value = 1.0e-30 : f64" in text and "value = 0xFFF0000000000000 : f64" in text


def test_softmax_and_layer_norm_stay_whole() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.nn.functional.layer_norm(x, (8,), w), -1)

    assert ops_of(text_of(f, torch.ones(4, 8), torch.ones(8))) == ["layer_norm", "softmax", "return"]


def test_slices_are_normalised() -> None:
    text = text_of(lambda x: x[:, -3:][1:100, ::2], torch.ones(5, 8))
    assert re.findall(r"start = (\d+) : i64", text) == ["5", "1", "0"]
    assert "step = 2 : i64" in text


def test_dynamic_sizes() -> None:
    text = text_of(lambda x: (x[-3:] * x.shape[0]).reshape(-1), torch.ones(5, 6), dynamic=True)
    assert 'symbols = [#graph.symbol<"s0", min = ' in text
    assert 'start = #graph.expr<"s0 - 3">' in text
    assert 'graph.size_value {expr = #graph.expr<"s0">} : () -> !graph.tensor<[], i64>' in text


def test_call_outside_has_every_argument() -> None:
    (graph,) = texts(lambda x: torch.sort(x), torch.ones(4))
    assert 'op = "aten::sort", overload = "", args = [#graph.operand<0>, #graph.expr<"-1">, false]' in graph.text
    assert "-> (!graph.tensor<[4], f32>, !graph.tensor<[4], i64>)" in graph.text
    assert graph.externs == [("sort", "aten::sort", "there is no rule for this operator")]


def test_mutation_and_constants() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * torch.tensor(3.0) + torch.tensor([1.0, 2.0])

    (graph,) = texts(f, torch.ones(2))
    assert "graph.copy_ %0," in graph.text
    assert [tuple(c.shape) for c in graph.constants] == [(2,)]
    assert "value = 3.0 : f64" in graph.text


def test_outputs_that_are_no_tensors() -> None:
    x = torch.ones(4, 4, requires_grad=True)
    graphs = texts(lambda a, n: (a * n).sum(), x, 3.0)
    assert len(graphs) == 1 or "graph.return" in graphs[1].text


class Block(torch.nn.Module):
    """An encoder layer as in BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(16) for _ in range(2))
        self.up, self.down = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norms[0](x + self.attention(x, x, x, need_weights=False)[0])
        y: torch.Tensor = self.norms[1](x + self.down(torch.nn.functional.gelu(self.up(x))))
        return y


@pytest.mark.parametrize("dynamic", [False, True])
def test_block(dynamic: bool) -> None:
    x = torch.randn(2, 6, 16, requires_grad=True)
    for graph in texts(Block(), x, dynamic=dynamic):
        check_lines(graph)
        outside = {op for _, op, _ in graph.externs}
        assert outside <= {"aten::addmm", "aten::mm", "aten::bmm", *(o for o in outside if "attention" in o)}


def _tile_opt() -> str | None:
    return shutil.which("tile-opt", path=str(ROOT / "build" / "bin")) or shutil.which("tile-opt")


@pytest.mark.skipif(_tile_opt() is None, reason="tile-opt is not built")
@pytest.mark.parametrize("dynamic", [False, True])
def test_text_parses(tmp_path: Path, dynamic: bool) -> None:
    for graph in texts(Block(), torch.randn(2, 6, 16, requires_grad=True), dynamic=dynamic):
        file = tmp_path / "graph.mlir"
        file.write_text(graph.text)
        done = subprocess.run([str(_tile_opt()), str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
