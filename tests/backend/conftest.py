from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.compiling import fresh


@pytest.fixture
def captured() -> Iterator[None]:
    """Sizes and numbers that are known only when the graph runs do not break it."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        fresh()
        yield
