from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.compiling import fresh


@pytest.fixture
def captured() -> Iterator[None]:
    """Sizes and numbers that are known only when the graph runs do not break it."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        fresh()
        yield


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the graphs that the front end printed; none where an entry was used."""
    from torch_tile.frontend import aot

    names: list[str] = []
    compile_graph = aot.compile_graph

    def spy(gm: Any, inputs: Any, kind: str, settings: Any) -> Any:
        names.append(kind)
        return compile_graph(gm, inputs, kind, settings)

    monkeypatch.setattr(aot, "compile_graph", spy)
    yield names
