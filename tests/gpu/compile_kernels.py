"""Kernels of the tile language compiled for a GPU on a machine without one: what the tests of the language launch on
the CPU goes down to PTX as well, and through ptxas where there is one on the PATH; none of it runs.

    PATH=.../triton/backends/nvidia/bin:$PATH python -m pytest -p tests.gpu.compile_kernels tests/language/test_ops.py

Prints what does not compile, and why, and which kernels take local memory. TORCH_TILE_TEST_TARGET names
another target than sm_90.
"""

from __future__ import annotations

import collections
import os
from typing import Any

import torch  # noqa: F401 - its libraries are those of _C

from torch_tile import _C
from torch_tile.errors import TileError
from torch_tile.language import compile as language

TARGET = os.environ.get("TORCH_TILE_TEST_TARGET", "sm_90")
failures: dict[str, list[str]] = collections.defaultdict(list)
seen: set[str] = set()
compiled = 0
resources: list[tuple[int | None, int | None, str]] = []  # local bytes and registers of a thread, and whose
compile_bound: Any = language.compile_bound


def compile_for_both(kernel: Any, bound: dict[str, Any], num_arguments: int, *others: Any) -> Any:
    global compiled
    result = compile_bound(kernel, bound, num_arguments, *others)
    text = result.traced.text
    if text not in seen:
        seen.add(text)
        try:
            code = _C.compile_kernel(text, {"target": TARGET, "distinct_arguments": "true"}, None, TARGET)
            needs = _C.kernel_resources(_C.make_launcher(code, "-"))
            compiled += 1
            test = os.environ.get("PYTEST_CURRENT_TEST", "?").split(" ")[0]
            resources.append((needs["local_bytes"], needs["num_registers"], f"{kernel.fn.__name__} of {test}"))
        except TileError as error:
            test = os.environ.get("PYTEST_CURRENT_TEST", "?").split(" ")[0]
            failures[str(error).splitlines()[0][:300]].append(f"{kernel.fn.__name__} of {test}")
    return result


language.compile_bound = compile_for_both


def pytest_terminal_summary(terminalreporter: Any) -> None:
    write = terminalreporter.write_line
    for reason, names in sorted(failures.items(), key=lambda item: -len(item[1])):
        write(f"{len(names):4} {reason}\n       {', '.join(dict.fromkeys(names))[:300]}")
    known = [(local, registers, name) for local, registers, name in resources if local is not None]
    if known:
        spilling = sorted((k for k in known if k[0]), reverse=True)
        most = max(registers or 0 for _, registers, _ in known)
        write(f"{len(known)} kernels take up to {most} registers; {len(spilling)} take local memory")
        for local, registers, name in spilling[:20]:
            write(f"{local:6} bytes, {registers} registers: {name}")
    write(f"{compiled} of {len(seen)} kernels compile for {TARGET}, assembled by {_C.assembler()}")
