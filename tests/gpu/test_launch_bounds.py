"""The assembler, on its own, gives kernels with many loads under way 32 registers a thread: loads wait for each other.

Kernels say how many blocks there may be room for, and are assembled with that where it has happened.
"""

from __future__ import annotations

import re

import pytest

from torch_tile import _C

GRAPH = """graph.func @graph(%x: !graph.tensor<[16, 64, 4194304], f32>) -> (!graph.tensor<[16, 4194304], f32>)
    attributes {symbols = []} {
  %m = graph.amax %x {dims = array<i64: 1>} : (!graph.tensor<[16, 64, 4194304], f32>) -> !graph.tensor<[16, 4194304], f32>
  graph.return %m : !graph.tensor<[16, 4194304], f32>
}
"""  # noqa: E501


def kernels_of(graph: str) -> list[str]:
    stages: dict[str, str] = {}

    def keep(file: str, data: str | bytes) -> None:
        if isinstance(data, str):
            stages[file] = data

    _C.compile_graph(graph, {"target": "sm_90"}, None, 0, keep, [], device="cuda:0", architecture="sm_90")
    return re.findall(r"^  (tile\.kernel .*?^  })$", stages["30-tile.mlir"], flags=re.MULTILINE | re.DOTALL)


def registers_of(kernel: str) -> int:
    made = _C.compile_kernel(kernel, {"target": "sm_90"}, None, "sm_90")
    count = kernel.split(")", 1)[0].count("%arg")
    found = _C.kernel_resources(_C.make_launcher(made, "a" * count))["num_registers"]
    assert found is not None
    return found


@pytest.mark.skipif(_C.assembler() == "driver", reason="needs ptxas or nvJitLink")
def test_loads_are_under_way_together() -> None:
    (kernel,) = kernels_of(GRAPH)
    note = re.search(r"tile\.launch_bound = \d+ : i64, ", kernel)
    assert note is not None and "unroll" in kernel
    usual, bounded = registers_of(kernel.replace(note[0], "")), registers_of(kernel)
    assert usual <= 40 < bounded <= 64


def test_kernels_without_loops_ask_for_nothing() -> None:
    (kernel,) = kernels_of(
        GRAPH.replace("graph.amax %x {dims = array<i64: 1>}", "graph.exp %x").replace(
            "[16, 4194304]", "[16, 64, 4194304]"
        )
    )
    assert "launch_bound" not in kernel
