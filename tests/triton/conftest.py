"""Triton's kernels need Triton, and no GPU: where one is, Triton runs them there."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

collect_ignore_glob = []
if importlib.util.find_spec("triton") is None or torch.cuda.is_available():
    collect_ignore_glob.append("test_*.py")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels are compiled by every test: what an older build left behind is no evidence."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    yield
