"""AOTAutograd around the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import disable
from torch._dynamo.utils import counters as dynamo_counters
from torch._dynamo.utils import flatten_graph_inputs
from torch._functorch.aot_autograd import aot_module_simplified

from torch_tile.config import Settings
from torch_tile.frontend.compile_fx import compile_aten_graph
from torch_tile.frontend.decompositions import decompositions
from torch_tile.frontend.fx_passes import replace_random
from torch_tile.frontend.partition import partition

Compiled = Callable[..., Any]


def compile_dynamo_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> Compiled:
    """Compile a graph of Dynamo's: forward and, when asked for, backward.

    The backward graph is compiled when the first backward pass needs it, on autograd's thread.
    """
    if any(isinstance(value, (list, tuple, dict)) for value in example_inputs):
        return flatten_graph_inputs(gm, example_inputs, functools.partial(compile_dynamo_graph, settings=settings))

    def backward(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        return disable(
            disable(compile_aten_graph, reason="the backward compiler is not traced")(
                graph, inputs, settings, "backward"
            ),
            reason="a compiled backward pass is not traced",
        )

    def inference(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        if not settings.fallback_random:
            replace_random(graph)
        return compile_aten_graph(graph, inputs, settings, "inference")

    dynamo_counters["aot_autograd"]["total"] += 1
    try:
        compiled = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=lambda graph, inputs: compile_aten_graph(graph, inputs, settings, "forward"),
            bw_compiler=backward,
            inference_compiler=inference,
            partition_fn=functools.partial(partition, settings=settings),
            decompositions=decompositions(),
            keep_inference_input_mutations=True,
        )
    except Exception:
        dynamo_counters["aot_autograd"]["not_ok"] += 1
        raise
    dynamo_counters["aot_autograd"]["ok"] += 1
    return disable(compiled, reason="a compiled graph is not traced")
