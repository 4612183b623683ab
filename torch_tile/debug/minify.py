"""torch's minifier. Behind AOTAutograd it is ours: TORCHDYNAMO_REPRO_AFTER=aot, with levels 1 to 4, as torch has it for
Inductor. Behind Dynamo it is torch's, which asks something of backends.

A graph that fails, or (level 4) differs from eager mode, is written as a script that makes it smaller until nothing
more can go. The script is the one of torch's minifier for Dynamo's graphs, which works for any backend: operators of
ATen are functions like others to it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

log = logging.getLogger(__name__)

Compile = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def is_wanted() -> bool:
    """Whether graphs are to be looked at behind AOTAutograd."""
    return torch._dynamo.config.repro_after == "aot"


def are_run_at_once() -> bool:
    """Whether torch runs what the backend returns, forward and backward, before the graph of Dynamo's is done:
    TORCHDYNAMO_REPRO_AFTER=dynamo. A backward graph that is compiled in its first call is too late then: torch counts
    compilations one after the other."""
    return torch._dynamo.config.repro_after == "dynamo"


def as_module(compiled: Callable[..., Any], gm: Any) -> Callable[..., Any]:
    """What torch can compare with `gm` where it runs compiled graphs at once: it asks both for their parameters."""
    if not are_run_at_once() or not isinstance(gm, GraphModule):
        return compiled

    def call(*arguments: Any) -> Any:
        return compiled(*arguments)

    for name in ("zero_grad", "named_parameters", "named_buffers"):
        setattr(call, name, getattr(gm, name))
    call._boxed_call = getattr(compiled, "_boxed_call", False)  # type: ignore[attr-defined]
    return call


def _write(gm: GraphModule, inputs: Sequence[Any], is_minified: bool) -> None:
    from torch._dynamo.repro import after_dynamo

    if is_minified:
        after_dynamo.dump_to_minify_after_dynamo(gm, inputs, "tile")
    else:
        after_dynamo.dump_backend_state(gm, inputs, "tile", torch._dynamo.config.repro_level == 4)


def checked(compile: Compile, gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """What `compile` makes of a graph; where torch asks for it, the first failure or wrong result is written down.

    Raises:
        AccuracyError: by the function returned, at level 4: its results are not eager's.
    """
    if not is_wanted():
        return compile(gm, inputs)
    from torch._dynamo.debug_utils import AccuracyError, same_two_models

    config: Any = torch._dynamo.config
    original = GraphModule(gm, copy.deepcopy(gm.graph))
    try:
        compiled = compile(gm, inputs)
    except Exception:
        if config.repro_level in (1, 2):
            _write(original, inputs, config.repro_level == 2)
        raise
    is_seen = False

    def call(arguments: list[Any]) -> Any:
        nonlocal is_seen
        if is_seen:
            return compiled(arguments)
        is_seen = True
        given = [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]
        # The comparison may compile something itself.
        with config.patch(repro_after=None):
            if config.repro_level == 3:
                _write(original, given, True)
            if config.repro_level == 4:
                same: Any = same_two_models
                if not same(original, compiled, given, only_fwd=True, ignore_non_fp=config.repro_ignore_non_fp):
                    log.warning("a graph behind AOTAutograd differs from eager mode")
                    _write(original, given, True)
                    raise AccuracyError("Bad accuracy detected")
                return compiled(arguments)
            try:
                return compiled(arguments)
            except Exception:
                _write(original, given, config.repro_level == 2)
                raise

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
