"""mode="reduce-overhead": records a compiled graph as a CUDA graph and replays it, with torch's CUDA graph trees.

What torch's trees need to know is which inputs keep their addresses; what must not be recorded is said with its reason
and runs as in the default mode.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule

from torch_tile.debug import faults
from torch_tile.frontend.part_writes.into_inputs import written_input

log = logging.getLogger(__name__)
aten = torch.ops.aten


@dataclasses.dataclass
class Recording:
    """What torch's trees ask for, as plain data: a graph of the disk cache has it in its entry."""

    device: str
    kind: str
    static: list[int]
    """Inputs whose addresses never change: parameters and buffers, or what a recorded forward saved."""
    written: list[int]
    placeholders: list[tuple[str, str | None, str | None]]
    """Name, where it comes from, and where it is written, for messages."""
    num_outputs: int

    @classmethod
    def of(cls, gm: GraphModule, device: str, kind: str, frozen: Collection[int] = ()) -> Recording:
        """Of a graph; `frozen` are those of AOTAutograd's inputs that it does not have any more."""
        from torch._inductor.cudagraph_utils import get_placeholder_info

        nodes = gm.graph.find_nodes(op="placeholder")
        output = next(iter(gm.graph.find_nodes(op="output")))
        outputs = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
        written_inputs = {written_input(node) for node in gm.graph.nodes}
        written = [i for i, node in enumerate(nodes) if node in written_inputs]
        placeholders = [(i.name, i.stack_trace, i.mutating_use_stack_trace) for i in get_placeholder_info(gm.graph)]
        return cls(device, kind, _static_inputs(gm, kind, frozen), written, placeholders, len(outputs))


def _static_inputs(gm: GraphModule, kind: str, frozen: Collection[int]) -> list[int]:
    placeholders = gm.graph.find_nodes(op="placeholder")
    if kind == "backward":
        return [i for i, node in enumerate(placeholders) if "tangent" not in node.name]
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    if metadata is None:
        return []
    static = frozenset(metadata.static_input_indices)
    places = [place for place in range(len(placeholders) + len(frozen)) if place not in frozen]
    return [i for i, place in enumerate(places) if place in static]


def reason_against(
    gm: GraphModule, device: str, kind: str, has_pycalls: bool, frozen: Collection[int] = ()
) -> str | None:
    """Why a graph is not recorded; None if it is."""
    if not device.startswith("cuda"):
        return "its kernels run on the CPU"
    if has_pycalls:
        return "it calls Python"
    static = frozenset(_static_inputs(gm, kind, frozen))
    placeholders = gm.graph.find_nodes(op="placeholder")
    for node in gm.graph.nodes:
        if str(node.target) in ("cond", "while_loop", "while_loop_stack_output"):
            return f"'{node.name}' branches or loops on a value"
        values = node.meta.get("val")
        for value in values if isinstance(values, (tuple, list)) else (values,):
            if isinstance(value, torch.Tensor):
                if str(value.device) != device:
                    return f"'{node.name}' is on {value.device}"
                sizes: Sequence[Any] = value.shape
            else:
                sizes = (value,)
            for size in sizes:
                if isinstance(size, torch.SymInt) and torch.fx.experimental.symbolic_shapes.free_unbacked_symbols(size):
                    return f"'{node.name}' has a size that is known at run time only"
        written = written_input(node)
        if written is not None and placeholders.index(written) not in static:
            return f"input '{written.name}' is written"
    return None


def record(program: Callable[..., Any], recording: Recording) -> Callable[..., Any]:
    """A boxed callable that records the program when it is first called, one recording for each set of sizes."""
    from torch._inductor.cudagraph_trees import cudagraphify_impl
    from torch._inductor.cudagraph_utils import PlaceholderInfo

    placeholders = tuple(PlaceholderInfo(name, place, [], written) for name, place, written in recording.placeholders)
    local = threading.local()  # a tree belongs to a thread

    def set_up(inputs: list[Any]) -> Any:
        # Runs nothing yet, so the program can still take these inputs.
        try:
            faults.point("cudagraphs")
            return cudagraphify_impl(
                program,
                inputs,
                recording.static,
                device_index=torch.device(recording.device).index or 0,
                stack_traces=[None] * recording.num_outputs,
                is_backward=recording.kind == "backward",
                is_inference=recording.kind == "inference",
                constants=(),
                placeholders=placeholders,
                mutated_input_idxs=tuple(recording.written),
            )
        except Exception as error:
            warnings.warn(f"torch_tile: a graph is not recorded as a CUDA graph: {error}", stacklevel=2)
            return program

    def call(inputs: list[Any]) -> Any:
        recorded = getattr(local, "recorded", None)
        if recorded is None:
            recorded = local.recorded = set_up(inputs)
        return recorded(inputs)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
