"""The object behind torch.compile(backend="tile"): checks mode and options, then hands over to AOTAutograd."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class TileBackend:
    """Called by Dynamo with one FX graph and its example inputs."""

    __name__ = "tile"

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile a graph.

        Args:
            gm: the graph as Dynamo captured it.
            example_inputs: tensors and sizes it was captured with.
            mode: a mode of torch.compile.
            options: knobs of torch_tile.config for this call.

        Raises:
            torch_tile.errors.OptionError: unknown mode or option.
            torch_tile.errors.TileError: the graph cannot be compiled and `strict` is set.
        """
        from torch_tile import config
        from torch_tile.frontend.aot import compile_with_autograd

        return compile_with_autograd(gm, example_inputs, config.resolve(mode, options))

    def reset(self) -> None:
        """Called by torch.compiler.reset(), several times; graphs belong to Dynamo, so there is nothing to forget."""


def _explain_untraceable_launches() -> None:
    """Says why where Dynamo walks into Triton's own code for a launch: it does so only if torch finds no device for
    Triton's kernels, and then stops at something that tells nobody anything."""
    for module, name in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.autotuner", "Autotuner")):
        run = getattr(getattr(sys.modules.get(module), name, None), "run", None)
        if run is not None and not hasattr(run, "_torchdynamo_disable"):
            # What torch.compiler.disable sets, without importing Dynamo.
            run._torchdynamo_disable = True
            run._torchdynamo_disable_msg = (
                "a Triton kernel can be part of a graph only where torch.utils._triton.has_triton() says yes: Triton "
                "needs a backend for a device that is there. torch-tile registers one for the CPU when it is installed "
                "(entry point `cpu` of `triton.backends`)"
            )


if "torch" in sys.modules:
    # torch.compiler.load_cache_artifacts refuses what it does not know.
    from torch_tile import cache_artifacts  # noqa: F401

_explain_untraceable_launches()
tile = TileBackend()
