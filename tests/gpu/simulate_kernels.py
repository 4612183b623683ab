"""The CPU's tests of the tile language with code for a GPU, simulated (tests/gpu/simulator.py). So the lowering to
threads is tested on machines without a GPU.

    python -m pytest -p tests.gpu.simulate_kernels tests/language/test_ops.py -k compile

Needs LLVM's clang. Arithmetic is the CPU's. Between barriers threads run in the order of their numbers, with
TORCH_TILE_SIMULATE_REVERSED=1 in the opposite one: where a barrier is missing, one of them gives other results.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.gpu.simulator import SimulatedKernel
from torch_tile import _C
from torch_tile.language import compile as language


def _simulate(text: str, is_distinct: bool, multiples: tuple[int, ...]) -> SimulatedKernel:
    files: dict[str, str] = {}
    options = {"target": "sm_90", "distinct_arguments": str(is_distinct).lower()}
    options["argument_multiples"] = ",".join(map(str, multiples))
    _C.compile_kernel(text, options, files.__setitem__)
    return SimulatedKernel(files["50-kernel.ll"], text)


_kernels: dict[str, SimulatedKernel] = {}


def _run(self: Any, x: int, y: int, z: int, flat: list[Any]) -> None:
    storages = [v.untyped_storage().data_ptr() for v in flat if isinstance(v, torch.Tensor)]
    is_distinct = len(set(storages)) == len(storages)
    multiples = language.known_multiples(flat)
    key = f"{is_distinct} {multiples} {self.traced.text}"
    if key not in _kernels:
        _kernels[key] = _simulate(self.traced.text, is_distinct, multiples)
    _kernels[key].run(x, y, z, flat)


language.CompiledKernel.run = _run  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{len(_kernels)} kernels for a GPU were simulated")
