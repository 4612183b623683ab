"""The extension fits one minor version of torch; beside another, the import says what to do."""

from __future__ import annotations

import pytest
import torch


def test_another_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    build = pytest.importorskip("torch_tile._build", reason="built without CMake")
    torch_tile = pytest.importorskip("torch_tile")
    assert torch_tile.__getattr__("_C") is torch_tile._C
    monkeypatch.setattr(build, "TORCH", "2.10.1")
    with pytest.raises(ImportError) as error:
        torch_tile.__getattr__("_C")
    text = str(error.value)
    assert "built for torch 2.10," in text and f"this is torch {torch.__version__}" in text
    assert 'pip install "torch==2.10.*"' in text
