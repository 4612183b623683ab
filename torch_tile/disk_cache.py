"""Folders and messages of the disk cache. The store itself is csrc/runtime/cache."""

from __future__ import annotations

import atexit
import hashlib
import logging

from torch_tile import _C, config
from torch_tile.config import Settings

log = logging.getLogger(__name__)


def open_cache(settings: Settings) -> _C.DiskCache | None:
    """The cache of one compile; None where it is off. Without a folder of the user there are still layers."""
    folder, layers = settings.cache_dir(), settings.cache_layers()
    if folder is None and not layers:
        return None
    return _C.DiskCache(folder or "", settings["cache_limit_bytes"], layers)


def key_of(*parts: str) -> bytes:
    """A key of texts; the sizes keep them apart."""
    return hashlib.sha256("".join(f"{len(part)}\n{part}" for part in parts).encode()).digest()


def report() -> None:
    """Says what came up since the last time, each thing once a process."""
    named = config.named_folder(config.get("cache_dir"))
    for is_warning, text in _C.cache_notices():
        # Whoever names a folder wants it to be used; in the user's own one a read-only disk is nobody's mistake.
        if not is_warning and named and text.startswith(f"cache folder {named}"):
            is_warning = True
            text += "; every process compiles anew: make it writable, or set TORCH_TILE_CACHE_DIR to another folder"
        log.log(logging.WARNING if is_warning else logging.INFO, "%s", text)


@atexit.register
def _report_at_exit() -> None:
    _C.flush_disk_cache()
    report()
