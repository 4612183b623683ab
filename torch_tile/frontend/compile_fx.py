"""One ATen graph through the extension: import, compile or load, and what happens when that fails."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tile import _C
from torch_tile.config import Settings
from torch_tile.counters import counters
from torch_tile.errors import TileError

log = logging.getLogger(__name__)


def compile_aten_graph(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], settings: Settings, kind: str
) -> Callable[..., Any]:
    """Compile an ATen-level graph with boxed calling.

    Args:
        graph: functional ATen graph with ``meta["val"]`` on every node.
        inputs: fake inputs, in the order of the placeholders.
        settings: knobs.
        kind: ``forward``, ``backward`` or ``inference``, for dumps.

    Returns:
        A callable that takes one list, which it empties, and returns a list of outputs. When compilation fails, the graph in eager mode, with a warning (an
        error under ``strict``).
    """
    from torch_tile.debug.record import GraphRecord

    record = GraphRecord.begin(graph, inputs, settings, kind)
    start = time.perf_counter()
    try:
        program = _compile(graph, settings, record)
    except TileError as error:
        place = record.failed(error)
        if settings.strict:
            raise
        counters.add("fallbacks")
        warnings.warn(
            f"backend 'tile' runs a {kind} graph in eager mode: {error}. {place} Set options={{'strict': True}} for an error instead.",
            stacklevel=2,
        )
        return _boxed_eager(graph)
    counters.add("graphs")
    counters.add("graphs_from_disk", program.loaded_from == "disk")
    counters.add("kernels", program.num_kernels)
    counters.add("launches", program.num_launches)
    counters.add("externs", program.num_externs)
    counters.add("pycalls", program.num_pycalls)
    counters.add("compile_ms", 1e3 * (time.perf_counter() - start))
    log.info(
        "%s graph of %d nodes: %d kernels in %d launches, %d extern calls, %s in %.1f ms",
        kind, len(graph.graph.nodes), program.num_kernels, program.num_launches, program.num_externs, program.loaded_from, 1e3 * (time.perf_counter() - start),
    )  # fmt: skip
    return _with_constants(program, record.text.constants)


def _compile(graph: torch.fx.GraphModule, settings: Settings, record: Any) -> _C.Program:
    text = record.text = _C.print_graph(graph)
    program = _C.compile_graph(
        text.text,
        settings.compiler_options(),
        settings.cache_dir if settings.cache and not text.pycalls else None,
        settings.cache_limit_bytes,
        record.dump,
        list(text.pycalls),
        settings.force_compile,
        settings.poison,
    )
    record.compiled(program)
    return program


def _with_constants(program: _C.Program, constants: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """Tensors that the graph holds itself are its last inputs."""
    if not constants:
        return program
    held = list(constants)

    def call(args: list[Any]) -> Any:
        args.extend(held)
        return program(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _boxed_eager(graph: torch.fx.GraphModule) -> Callable[..., Any]:
    def call(args: list[Any]) -> Any:
        values = list(args)
        args.clear()
        return torch.fx.Interpreter(graph).boxed_run(values)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
