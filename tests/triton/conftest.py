"""Triton's kernels need Triton, and no GPU: where one is, Triton runs them there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

if torch.cuda.is_available():
    pytest.skip("a GPU's driver is active, so Triton does not use the CPU backend", allow_module_level=True)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels are compiled by every test: what an older build left behind is no evidence."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    yield
