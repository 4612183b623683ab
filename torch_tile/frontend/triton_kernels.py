"""Triton kernels inside graphs.

Dynamo records a launch as a higher-order op that names its kernel by an index into a table of this process. The op is
functional: it returns new tensors in place of those that the kernel writes.

On CPU, and with the option `triton_compiler="tile"` on a GPU, a launch becomes a kernel of the graph's own program: the
kernel is traced for the types of its arguments and goes along with the graph as text of the tile dialect, so it is
compiled, cached and launched as the kernels of the graph are. What such a launch cannot say (descriptors, tuples,
hooks), and every other launch on a GPU, becomes a call of a Python function that holds the kernel, which Triton
compiles.

A tensor is copied for a kernel that writes it only where somebody can tell: not if nobody has written or needs it, nor
if it is a graph input that receives the result anyway.
"""

from __future__ import annotations

import logging

from torch.fx import GraphModule

from torch_tile.config import Settings
from torch_tile.counters import counters
from torch_tile.debug.record import LAUNCH_NOTES
from torch_tile.errors import TileError
from torch_tile.frontend.launches.embed_kernels import Rewriter, own_copy
from torch_tile.frontend.launches.launch import (
    Launch,
    NotNative,
    call_function_instead,
    identify,
    is_functional,
    is_launch,
)

__all__ = ["identify", "is_launch", "replace_triton_kernels"]

log = logging.getLogger(__name__)


def replace_triton_kernels(gm: GraphModule, settings: Settings) -> GraphModule:
    """The graph with launches of Triton kernels as something that can be compiled; as it is if there are none."""
    if not any(is_functional(n) for n in gm.graph.nodes):
        return gm
    gm = own_copy(gm)
    rewriter = Rewriter(gm, settings)
    refused = gm.meta[LAUNCH_NOTES] = []
    for node in reversed([n for n in gm.graph.nodes if is_functional(n)]):
        launch = Launch(node)
        try:
            rewriter.rewrite(launch)
            continue
        except NotNative as error:
            reason = str(error)
        except TileError as error:
            if not _is_tile_asked_for(launch, settings):
                raise
            reason = str(error).splitlines()[0]
        except Exception as error:
            # Other types than those of this trace may suit the kernel: Triton decides at the launch.
            reason = f"tracing it failed: {_message_of(error)}"
            log.debug("tracing %s failed", launch.function_name, exc_info=True)
        if _is_tile_asked_for(launch, settings):
            counters.add("triton_refusals")
            refused.append(f"triton_compiler=tile: {launch.function_name} is Triton's, {reason}")
            log.warning("triton_compiler=tile: kernel %s is compiled by Triton: %s", launch.function_name, reason)
        else:
            log.info("Triton kernel %s is launched through Python: %s", launch.function_name, reason)
        call_function_instead(gm, launch)
    return gm


def _message_of(error: BaseException) -> str:
    """The first line of what the error behind this one says, and where. Triton's own texts begin with the source."""
    lines = [getattr(getattr(error, "node", None), "lineno", None)]
    while error.__cause__ is not None:
        error = error.__cause__
        lines.append(getattr(getattr(error, "node", None), "lineno", None))
    message = getattr(error, "error_message", None) or str(error) or type(error).__name__
    known = [line for line in lines if line is not None]
    return str(message).splitlines()[0] + (f" (line {known[-1]} of the kernel)" if known else "")


def _is_tile_asked_for(launch: Launch, settings: Settings) -> bool:
    """Whether Triton stands in for us: on a GPU, where it has been told not to."""
    is_on_gpu = any(device.type == "cuda" for device in launch.devices)
    return is_on_gpu and bool(settings["triton_compiler"] == "tile")
