"""Entries of the disk cache within `torch.compiler.save_cache_artifacts()` and `load_cache_artifacts()`.

torch loads what it knows the types of: `import torch_tile`, after torch, before `load_cache_artifacts`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
from typing_extensions import override

if TYPE_CHECKING:
    from torch_tile import _C

log = logging.getLogger(__name__)
_TYPE = "torch_tile"


@CacheArtifactFactory.register
class TileCacheArtifact(CacheArtifact):
    """One entry. Its key is "kind/name"; the content is read when torch asks for it, so recording costs nothing."""

    def __init__(self, key: str, content: bytes | _C.DiskCache) -> None:
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "_content", content)

    _content: bytes | _C.DiskCache

    @property
    def content(self) -> bytes:
        if isinstance(self._content, bytes):
            return self._content
        kind, name = self.key.split("/")
        return self._content.read(kind, bytes.fromhex(name)) or b""  # evicted since

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TileCacheArtifact) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"TileCacheArtifact({self.key})"

    @staticmethod
    @override
    def encode(content: Any) -> Any:
        return content

    @override
    def populate_cache(self) -> None:
        # Here, so that registering the type does not load the extension.
        from torch_tile import config, disk_cache

        cache = disk_cache.open_cache(config.of_process())
        try:
            if cache is not None and self.content:
                kind, name = self.key.split("/")
                cache.write(kind, bytes.fromhex(name), self.content)
        except (ValueError, RuntimeError) as error:
            log.warning("cache artifact %s is left out: %s", self.key, error)

    @staticmethod
    @override
    def type() -> str:
        return _TYPE


def record(cache: _C.DiskCache | None, keys: Iterable[str]) -> None:
    """Notes that entries ("kind/name") were made or used."""
    if cache is not None:
        for key in keys:
            CacheArtifactManager.record_artifact(_TYPE, key, cache)
