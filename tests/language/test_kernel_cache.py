"""Kernels of the tile language on disk: the store, and the rules, of everything else there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from torch_tile import _C, config
from torch_tile.language import kernel_cache


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels that were compiled, and not found on disk."""
    names: list[str] = []
    compile_text: Any = _C.compile_kernel

    def spy(text: str, options: Any, dump: Any, architecture: str) -> bytes:
        names.append(options.get("distinct_arguments", ""))
        return bytes(compile_text(text, options, dump, architecture))

    monkeypatch.setattr(kernel_cache._C, "compile_kernel", spy)
    return names


def run() -> None:
    """As a new process would: a kernel that nothing in this one knows."""

    @torch_tile.jit
    def double(x_ptr: Any, n: Any, B: tl.constexpr) -> None:
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

    x = torch.ones(100)
    double[(2,)](x, 100, B=64)
    assert x.eq(2).all()
    _C.flush_disk_cache()


def test_hit(cache_dir: Path, compiled: list[str]) -> None:
    run()
    run()
    assert len(compiled) == 1
    (entry,) = (cache_dir / "language").iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600


_damages: dict[str, Callable[[Path], object]] = {
    "truncated": lambda entry: entry.write_bytes(entry.read_bytes()[:-1]),
    "foreign": lambda entry: entry.write_bytes(b"no entry"),
    "writable by everyone": lambda entry: entry.chmod(0o666),
    "former format": lambda entry: entry.write_bytes(entry.read_bytes()[88:]),
}


@pytest.mark.parametrize("damage", _damages)
def test_damaged_entries_are_made_anew(cache_dir: Path, compiled: list[str], damage: str) -> None:
    run()
    (entry,) = (cache_dir / "language").iterdir()
    sound = entry.read_bytes()
    _damages[damage](entry)
    run()
    assert len(compiled) == 2
    assert entry.read_bytes() == sound
    run()
    assert len(compiled) == 2


def test_off(cache_dir: Path, compiled: list[str]) -> None:
    """By our knob, and by torch's."""
    with config.patch(cache=False):
        run()
    with torch.compiler.config.patch(force_disable_caches=True):
        run()
    assert len(compiled) == 2
    assert not cache_dir.exists()


def test_forced(cache_dir: Path, compiled: list[str]) -> None:
    run()
    with config.patch(force_compile=True):
        run()
    assert len(compiled) == 2
    assert len(list((cache_dir / "language").iterdir())) == 1


def test_layers(cache_dir: Path, tmp_path: Path, compiled: list[str]) -> None:
    with config.patch(cache_dir=str(tmp_path / "baked")):
        run()
    with config.patch(cache_layers=str(tmp_path / "baked")):
        run()
    assert len(compiled) == 1
    assert not cache_dir.exists()
