"""The assembler, on its own, gives kernels with many loads under way 32 registers a thread: loads wait for each other.

Kernels say how many blocks there may be room for, and are assembled with that where it has happened.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_tile.language as tl
from tests.gpu.test_simulated_products import product
from tests.language.conftest import has_compiler
from torch_tile import _C

needs_assembler = pytest.mark.skipif(_C.assembler() == "driver", reason="needs ptxas or nvJitLink")

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


@needs_assembler
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
    assert "tile.launch_bound" not in kernel


def ptx_with_room(values: int, threads: int, blocks: int, note: str = "if more fit") -> str:
    """A kernel that has so many numbers in registers at once, and shared memory for so many blocks."""
    loads = "".join(f"\tld.volatile.global.f32 %f{k}, [%rd1+{4 * k}];\n" for k in range(values))
    stores = "".join(f"\tst.volatile.global.f32 [%rd1+{4 * k}], %f{k};\n" for k in reversed(range(values)))
    return f"""//
.version 7.8
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 argument)
.maxntid {threads}
// {note}: .minnctapersm {blocks}
{{
\t.reg .f32 %f<{values}>;
\t.reg .b64 %rd<2>;
\tld.param.u64 %rd1, [argument];
{loads}{stores}\tret;
}}
"""


def resources_of(values: int, threads: int, blocks: int, note: str = "if more fit") -> tuple[int | None, int | None]:
    found = _C.assembled_resources(ptx_with_room(values, threads, blocks, note), "sm_90")
    return found["num_registers"], found["local_bytes"]


# An assembler that takes more registers if it is told of no number of blocks: it assembles another text.
WASTEFUL = """#!/bin/sh
grep -q '^.minnctapersm' "$2" || cp {folder}/wasteful.ptx "$2"
exec {ptxas} "$@"
"""
FIND_WASTEFUL = """
from tests.gpu.test_launch_bounds import resources_of
from torch_tile import _C
assert _C.assembler() == "ptxas", _C.assembler()
for arguments in {arguments}:
    print(*resources_of(*arguments))
"""


def resources_of_wasteful(folder: Path, wasteful: str, arguments: list[tuple[int | str, ...]]) -> list[tuple[int, ...]]:
    """`resources_of` of each of `arguments` with an assembler that assembles `wasteful` where no bound is told."""
    (folder / "bin").mkdir()
    script = folder / "bin" / "ptxas"
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    script.write_text(WASTEFUL.format(ptxas=ptxas, folder=folder))
    script.chmod(0o755)
    (folder / "wasteful.ptx").write_text(wasteful)
    environment = {**os.environ, "CUDA_HOME": str(folder)}
    command = [sys.executable, "-c", FIND_WASTEFUL.format(arguments=arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


needs_ptxas_alone = pytest.mark.skipif(_C.assembler() != "ptxas", reason="needs ptxas, and no nvJitLink")


@needs_ptxas_alone
def test_room_for_more_blocks(tmp_path: Path) -> None:
    text = ptx_with_room(140, 256, 1).replace("// if more fit: .minnctapersm 1", ".maxnreg 152")
    usual, two, three = resources_of_wasteful(tmp_path, text, [(112, 256, blocks) for blocks in (1, 2, 3)])
    assert 140 < usual[0] <= 152  # one block of 256 threads
    assert two == three == (128, 0)  # three would leave 80 registers


@needs_ptxas_alone
def test_nests_of_a_graph_take_a_smaller_gain(tmp_path: Path) -> None:
    """Three blocks become four in a kernel that waits for memory, and not in one of products."""
    text = ptx_with_room(70, 256, 1).replace("// if more fit: .minnctapersm 1", ".maxnreg 80")
    arguments = [(40, 256, 8, "no note"), (40, 256, 4, "if more fit"), (40, 256, 4, "if it waits less")]
    usual, products, waits = resources_of_wasteful(tmp_path, text, arguments)
    assert products == usual and 70 < usual[0] <= 80  # three blocks of 256 threads
    assert waits[0] <= 64 and waits[1] == 0


def test_kernels_of_a_graph_say_that_they_wait() -> None:
    stages: dict[str, str] = {}

    def keep(file: str, data: str | bytes) -> None:
        if isinstance(data, str):
            stages[file] = data

    _C.compile_graph(GRAPH, {"target": "sm_90"}, None, 0, keep, [], device="cuda:0", architecture="sm_90")
    assert "tile.takes_launch_bound" in stages["30-tile.mlir"]
    assert re.search(r"^// if it waits less: \.minnctapersm \d+$", stages["60-kernel.ptx"], flags=re.MULTILINE)


@needs_assembler
def test_registers_are_not_spilled_for_more_blocks() -> None:
    usual = resources_of(138, 144, 1)
    assert usual[0] is not None and usual[0] > 138 and usual[1] == 0  # two blocks
    assert resources_of(138, 144, 3) == usual


@needs_assembler
def test_text_that_is_no_ptx() -> None:
    with pytest.raises(ValueError, match=r"ptxas|nvJitLink"):
        _C.assembled_resources("// no kernel\n.version 7.8\n.target sm_90\nnonsense\n", "sm_90")


@pytest.mark.skipif(not has_compiler(), reason="needs the compiler library")
def test_pipelined_kernels_say_what_there_is_room_for() -> None:
    def note(**options: int) -> str | None:
        a = torch.zeros(256, 256, dtype=torch.bfloat16)
        blocks = {"BM": 128, "BN": 128, "BK": 64}
        arguments = (a, a, torch.zeros(256, 256), 256, 256, 256, 256, 1, 256, 1)
        compiled = product.warmup(*arguments, target="sm_90a", SUM=tl.float32, **blocks, **options)
        found = re.search(r"^// if more fit: \.minnctapersm (\d+)$", compiled.asm["ptx"], flags=re.MULTILINE)
        return found[1] if found else None

    assert note(num_warps=8, num_stages=3) == "2"  # of 96 KB
    assert note(num_warps=8, num_stages=6) is None  # 192 KB
    assert note(num_warps=8, num_stages=3, maxnreg=168) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_two_blocks_have_registers() -> None:
    a = torch.randn(256, 256, dtype=torch.bfloat16, device="cuda")
    c = torch.zeros(256, 256, device="cuda")
    blocks = {"BM": 128, "BN": 128, "BK": 64, "num_warps": 8, "num_stages": 3}
    compiled = product[2, 2](a, a, c, 256, 256, 256, 256, 1, 256, 1, SUM=tl.float32, **blocks)
    assert compiled.n_spills == 0 and compiled.occupancy == 2
    torch.testing.assert_close(c.double(), a.double() @ a.double(), rtol=1e-3, atol=1e-3)
