"""Compiled kernels on disk, by the hash of their text, options and compiler."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from torch_tile import _C, config
from torch_tile.language.places import TracedKernel
from torch_tile.language.stages import dump_to


@functools.cache
def _version() -> str:
    return str(_C.version())


def _folder() -> Path | None:
    folder = config.resolve().cache_dir()
    return None if folder is None else Path(folder) / "language"


def _read(path: Path) -> bytes | None:
    """An entry that this user wrote and that is whole; entries are code, so others are not trusted."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(file, "rb") as stream:
        facts = os.fstat(stream.fileno())
        if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            return None
        data = stream.read()
    digest, code = data[:32], data[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Other processes see the whole entry or none. A disk that is full or read-only costs nothing but the entry."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(hashlib.sha256(code).digest() + code)
        os.replace(name, path)
    except OSError:
        pass


def compile_kernel(name: str, traced: TracedKernel, options: dict[str, str], architecture: str = "") -> bytes:
    """The bytes of a standalone kernel, from disk if they are there; `architecture` is that of a GPU."""
    text = traced.text
    folder = _folder()
    facts = [_version(), *(f"{k}={v}" for k, v in sorted(options.items())), *([architecture] if architecture else [])]
    key = hashlib.sha256("\0".join([*facts, text]).encode())
    path = None if folder is None else folder / key.hexdigest()
    dump = dump_to(name)
    if path is not None and dump is None and not config.get("force_compile"):
        found = _read(path)
        if found is not None:
            return found
    compile_text: Any = getattr(_C, "compile_kernel")  # noqa: B009
    if dump is not None:
        dump("05-trace.mlir", traced.located)
    code = bytes(compile_text(traced.located, options, dump, architecture))
    if path is not None:
        _write(path, code)
    return code
