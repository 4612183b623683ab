"""The operator suite compiled for a GPU on a machine without one: every graph down to a cubin, none of it run.

    TORCH_TILE_NVJITLINK=.../libnvJitLink.so.13 python -m tests.gpu.compile_only [sm_90] [substring of a case's name]

Prints what does not compile, and why.
"""

from __future__ import annotations

import collections
import sys
import warnings
from typing import Any

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func

from tests.ops.cases import CASES
from tests.ops.inputs import Inputs
from torch_tile import _C
from torch_tile.errors import TileError
from torch_tile.frontend import compile as frontend

target = sys.argv[1] if len(sys.argv) > 1 else "sm_90"
wanted = sys.argv[2] if len(sys.argv) > 2 else ""
failures: dict[str, list[str]] = collections.defaultdict(list)
current = ""
kernels = 0


def compile_for_gpu(gm: Any, inputs: Any, kind: str, settings: Any) -> Any:
    global kernels
    graph = _C.print_graph(gm)
    try:
        program = _C.compile_graph(
            graph.text, {"target": target}, None, 0, None, [None] * 64, device="cuda:0", architecture=target
        )
        kernels += program.num_kernels
    except TileError as error:
        failures[str(error).splitlines()[0][:160]].append(current)
    return make_boxed_func(gm.forward)


def main() -> int:
    warnings.simplefilter("ignore")
    import torch_tile.frontend.aot as aot

    aot.compile_graph = compile_for_gpu  # type: ignore[assignment]
    assert frontend
    for case in CASES:
        if wanted not in case.name:
            continue
        for dtype in case.dtypes:
            if dtype not in (torch.float32, torch.bfloat16, torch.int64, torch.float64):
                continue
            current_name = f"{case}-{dtype}"
            globals()["current"] = current_name
            for arguments in case.samples(Inputs(dtype))[:2]:
                torch.compiler.reset()
                try:
                    torch.compile(case.function, backend="tile", dynamic=False)(*arguments)
                except Exception as error:
                    failures[f"raised {type(error).__name__}: {str(error)[:100]}"].append(current_name)
    for reason, names in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):4} {reason}\n       {' '.join(dict.fromkeys(names))[:300]}")
    print(f"{kernels} kernels for {target}, assembled by {_C.assembler()}, {sum(map(len, failures.values()))} failures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
