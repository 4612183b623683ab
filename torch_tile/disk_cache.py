"""Folders and messages of the disk cache. The store itself is csrc/runtime/cache."""

from __future__ import annotations

import atexit
import hashlib
import logging
import re

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
    for is_warning, text in _C.cache_notices():
        found = re.match(r"cache (folder|entry) (.*?) (?:ignored|takes no entries): ", text, re.DOTALL)
        what, path = found.groups() if found else ("", "")
        if config.is_of_layer(path):
            text = of_layer(text)
        if not is_warning and (advice := _advice(what, path, text)) is not None:
            is_warning, text = True, text + advice
        log.log(logging.WARNING if is_warning else logging.INFO, "%s", text)


def of_layer(text: str) -> str:
    """A message about a layer, which others than its owner may read."""
    return re.sub(r"expected 0[67]00$", "expected a layer that its owner alone can write (chmod -R go-w)", text)


def _advice(what: str, path: str, text: str) -> str | None:
    """What ends the message about something that somebody has asked for, or has to look at. None for the rest: in the
    user's own folder a read-only disk is nobody's mistake."""
    if what == "entry":
        return "" if "it is no regular file" in text else None
    if config.is_of_layer(path):
        return "; this layer is not used: make it readable for this user (chmod -R a+rX)"
    if config.is_named_cache(path):
        return "; every process compiles anew: make it writable, or set TORCH_TILE_CACHE_DIR to another folder"
    return None


@atexit.register
def _report_at_exit() -> None:
    _C.flush_disk_cache()
    report()
