"""Option `max_autotune`: an inference graph on the CPU runs with each library for matrix products, on random inputs of
the sizes at hand, and keeps the fastest. Kernels are the same in all of them, so nothing else is compiled again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from torch_tile import _C
from torch_tile.config import Settings
from torch_tile.frontend.sizes import hint_of

log = logging.getLogger(__name__)

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linear")
_LIBRARIES = ("aten", "onednn")
_NUM_ROUNDS = 5


def _is_timed(gm: GraphModule, graph: _C.GraphText, program: _C.Program, kind: str, settings: Settings) -> bool:
    calls = [str(node.target).split(".") for node in gm.graph.nodes if node.op == "call_function"]
    return (
        bool(settings["max_autotune"])
        and settings["matmul_library"] == "auto"
        and kind == "inference"
        and graph.device == "cpu"
        and not (graph.pycalls or graph.constants or graph.number_inputs or program.writes_inputs)
        and any(call[0] == "aten" and call[1] in _PRODUCTS for call in calls)
        and all(call[0] in ("aten", "prims", "torch_tile") or len(call) == 1 for call in calls)
    )


def made_input(value: Any) -> Any:
    """Like a fake tensor, on its device: random floats, zeros of all other dtypes. Of a size its hint."""
    if not isinstance(value, torch.Tensor):
        return hint_of(value)
    sizes, strides = [hint_of(n) for n in value.shape], [hint_of(n) for n in value.stride()]
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))  # elements may overlap
    memory = torch.zeros(extent if 0 not in sizes else 0, dtype=value.dtype, device=value.device)
    if value.dtype.is_floating_point and value.dtype.itemsize > 1:
        memory.normal_()
    return memory.as_strided(sizes, strides)


def fastest(
    gm: GraphModule,
    graph: _C.GraphText,
    program: _C.Program,
    kind: str,
    settings: Settings,
    compile_with: Callable[[str], _C.Program],
) -> tuple[_C.Program, str]:
    """The program to keep, and its library.

    Args:
        gm: the graph.
        graph: its text.
        program: of the library that the processor's table names.
        kind: forward, backward or inference.
        settings: of this torch.compile call.
        compile_with: makes the program for a library.
    """
    if not _is_timed(gm, graph, program, kind, settings):
        return program, settings["matmul_library"]
    try:
        programs = {library: compile_with(library) for library in _LIBRARIES}
        with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            inputs = [made_input(node.meta["val"]) for node in gm.graph.find_nodes(op="placeholder")]
            times = dict.fromkeys(programs, float("inf"))
            for _ in range(_NUM_ROUNDS):
                for library, each in programs.items():
                    start = time.perf_counter()
                    each(list(inputs))
                    times[library] = min(times[library], time.perf_counter() - start)
    except Exception as error:  # inputs of random numbers are not what the graph expects
        log.info("libraries are not timed: %s", error)
        return program, settings["matmul_library"]
    chosen = min(times, key=times.__getitem__)
    log.info("max_autotune: %s", ", ".join(f"{library} {1e6 * t:.0f} us" for library, t in times.items()))
    return programs[chosen], chosen
