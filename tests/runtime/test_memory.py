"""Memory of a process that compiles again and again: nothing of a program stays once nobody holds it."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

import pytest
import torch

from torch_tile import _C, config

if not sys.platform.startswith("linux"):
    pytest.skip("reads /proc", allow_module_level=True)

TEXT = """graph.func @graph(%0: !graph.tensor<[{rows}, 16], f32>) -> (!graph.tensor<[{rows}, 16], f32>, !graph.tensor<[16], f32>)
    attributes {{symbols = []}} {{
  %1 = graph.exp %0 : (!graph.tensor<[{rows}, 16], f32>) -> !graph.tensor<[{rows}, 16], f32>
  %2 = graph.sum %1 {{dims = array<i64: 0>}} : (!graph.tensor<[{rows}, 16], f32>) -> !graph.tensor<[16], f32>
  %3 = graph.div %1, %2 : (!graph.tensor<[{rows}, 16], f32>, !graph.tensor<[16], f32>) -> !graph.tensor<[{rows}, 16], f32>
  graph.return %3, %2 : !graph.tensor<[{rows}, 16], f32>, !graph.tensor<[16], f32>
}}
"""  # noqa: E501


def _private_kilobytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1])


def _mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_programs_leave_nothing_behind() -> None:
    options = config.resolve(None, {}).compiler_options()

    def compile_and_run(rows: int) -> None:
        program = _C.compile_graph(TEXT.format(rows=rows), options, None, 0, None, [], force_compile=True)
        x = torch.ones(rows, 16)
        result, total = program([x])
        assert torch.allclose(result * total, x.exp())

    for rows in range(1000, 1050):
        compile_and_run(rows)
    before, mapped = _private_kilobytes(), _mappings()
    for rows in range(2000, 2150):
        compile_and_run(rows)
    # A kernel's code alone takes a page; a program and its records several.
    assert _private_kilobytes() - before < 150 * 6
    assert _mappings() - mapped < 20
