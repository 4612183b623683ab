"""``torch.compile(..., backend="tile")``. torch finds ``tile`` by entry point."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torch_tile import config

log = logging.getLogger(__name__)


class TileBackend:
    """The callable that Dynamo hands its graphs to."""

    __name__ = "tile"

    def __init__(self) -> None:
        self._modes_mentioned: set[str] = set()

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile one Dynamo graph.

        Args:
            gm: the graph, with ATen and Python-level calls.
            example_inputs: its inputs; tensors and SymInts.
            mode: one of torch.compile's modes.
            options: knobs of :mod:`torch_tile.config` by name.

        Raises:
            OptionError: an unknown mode or option.
        """
        settings = config.resolve(mode, options)
        if mode in config.MODES_WITHOUT_EFFECT and mode not in self._modes_mentioned:
            self._modes_mentioned.add(mode)
            log.warning("mode=%r changes nothing for backend 'tile' on this device yet", mode)
        from torch_tile.frontend.aot import compile_dynamo_graph

        return compile_dynamo_graph(gm, example_inputs, settings)

    def reset(self) -> None:
        """Forget what torch.compiler.reset() asks to forget. Compiled kernels belong to the callables that Dynamo drops."""
        self._modes_mentioned.clear()


tile = TileBackend()
