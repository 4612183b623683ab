"""Results of the steps of a scan that its backward reads, which torch would return from a step twice.

The forward of a scan's step returns what the backward reads beside the results. Of inputs among these torch makes
copies (`ScanAutogradImpl`, torch 2.13), of results it does not, and then refuses the step because two of its outputs
share memory. Eager mode meets this where a result is an operand of another one; where `detach` is decomposed, it also
is each result that its own derivative is computed of, as of tanh.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from torch_tile.frontend.common_subexpressions import storage_of

_scan: Any = importlib.import_module("torch._higher_order_ops.scan")  # the package names its function so
_implementation: Any = getattr(_scan, "ScanAutogradImpl", None)  # private parts of torch


_optimize: Any = getattr(_implementation, "_optimize_forward_intermediates", None)
_tracing = threading.local()


@contextlib.contextmanager
def copied() -> Iterator[None]:
    """While AOTAutograd traces on this thread, what the backward reads is copied where it is a result, or shares its
    memory."""
    if _optimize is not None:
        _implementation._optimize_forward_intermediates = _optimize_copies  # stays: it asks who traces
    before, _tracing.copies = getattr(_tracing, "copies", False), True
    try:
        yield
    finally:
        _tracing.copies = before


def _optimize_copies(implementation: Any) -> None:
    if getattr(_tracing, "copies", False):
        _copy_results(implementation.hop_partitioned_graph.fw_gm, implementation.hop_partitioned_graph.n_fw_outputs)
    _optimize(implementation)


def _copy_results(step: torch.fx.GraphModule, num_kept: int) -> None:
    """Each output shares memory with none before it; the first ones stay as they are."""
    output = step.graph.output_node()
    results: Any = output.args[0]
    seen, outputs = set[Any](), []
    for number, result in enumerate(results):
        storage = _storage_of(result)
        if number >= num_kept and storage in seen:
            with step.graph.inserting_before(output):
                copy = step.graph.call_function(torch.ops.aten.clone.default, (result,))
            copy.meta.update(result.meta)
            result = copy
        elif storage is not None:
            seen.add(storage)
        outputs.append(result)
    if outputs != [*results]:
        output.args = (tuple(outputs),)
        step.recompile()


def _storage_of(result: Any) -> Any:
    value = result.meta.get("val") if isinstance(result, Node) else None
    return storage_of(value) if isinstance(value, torch.Tensor) else None
