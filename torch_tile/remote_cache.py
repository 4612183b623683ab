"""Entries of the disk cache shared by machines, through the interface of `torch._inductor.remote_cache`.

With `options={"remote_cache": True}` what the disk cache lacks is asked for, and written to the disk where it is found;
what is compiled is given. A key of the disk cache says everything that decides an entry (versions, processor, options,
text), so machines of other kinds never see each other's.

    graphs/<key>     the graph and all its kernels, as one value
    autograd/<key>   what AOTAutograd made of a graph
    language/<key>   a kernel of the tile language
    tuning/<key>     a choice of autotuning

An entry is taken as it is: who may write to the remote cache may run code here, as with torch's own.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from torch_tile import _C, disk_cache
from torch_tile.config import Settings
from torch_tile.counters import counters

log = logging.getLogger(__name__)
_PREFIX = "torch_tile/1/"
_make: Callable[[], Any] | None = None
_remote: Any = None
_has_failed = False


def use(make: Callable[[], Any] | None) -> None:
    """Make the remote cache by this function from now on; None: torch's Redis.

    Args:
        make: gives a `torch._inductor.remote_cache.RemoteCache`, or anything with its `get(key)` and `put(key, value)`,
            whose values are what JSON can say.
    """
    global _make, _remote, _has_failed
    if make is not None and not callable(make):
        raise TypeError(
            f"use expects a function that makes the remote cache, or None, got {type(make).__name__}; "
            "for an object that is there: use(lambda: cache)"
        )
    _make, _remote, _has_failed = make, None, False


def _redis() -> Any:
    from torch._inductor import remote_cache

    if not os.environ.get("TORCHINDUCTOR_REDIS_URL"):
        raise RuntimeError("TORCHINDUCTOR_REDIS_URL is not set, and torch_tile.remote_cache.use was not called")
    backend = remote_cache.RedisRemoteCacheBackend(_PREFIX.rstrip("/"))
    return remote_cache.RemoteCache(backend, remote_cache.RemoteCacheJsonSerde())


def _open(settings: Settings) -> Any:
    """The remote cache; None where it is off or has failed: a compile never waits twice for one that is down."""
    global _remote
    if not settings["remote_cache"] or _has_failed or disk_cache.open_cache(settings) is None:
        return None
    if _remote is None:
        _guarded(_connect)
    return _remote


def _connect() -> None:
    global _remote
    _remote = (_make or _redis)()


def _guarded(action: Callable[[], Any]) -> Any:
    """What the action gives; None, and no remote cache from now on, where it fails."""
    global _remote, _has_failed
    try:
        return action()
    except Exception as error:
        _remote, _has_failed = None, True
        log.warning("the remote cache is not used any more: %s: %s", type(error).__name__, error)
        return None


def fetch(settings: Settings, name: str) -> None:
    """Writes an entry ("kind/hexadecimal key") to the disk if only the remote cache has it."""
    remote = _open(settings)
    cache = disk_cache.open_cache(settings)
    if remote is None or cache is None or cache.contains(*_parts(name)):
        return
    found = _guarded(lambda: remote.get(_PREFIX + name))
    if not isinstance(found, dict):
        counters.add("remote_misses")
        return
    try:
        entries = [(_parts(each), base64.b64decode(payload, validate=True)) for each, payload in found.items()]
    except (TypeError, ValueError) as error:
        log.warning("an entry of the remote cache is left out: %s: %s", name, error)
        return
    counters.add("remote_hits")
    for (kind, key), payload in entries:
        cache.write(kind, key, payload)
    _C.flush_disk_cache()


def store(settings: Settings, name: str, parts: Iterable[str]) -> None:
    """Gives the remote cache an entry that has just been made, with all that belongs to it."""
    remote = _open(settings)
    cache = disk_cache.open_cache(settings)
    if remote is None or cache is None:
        return
    _C.flush_disk_cache()
    bundle = {}
    for part in parts:
        payload = cache.read(*_parts(part))
        if payload is None:
            return  # evicted, or not written
        bundle[part] = base64.b64encode(payload).decode()
    _guarded(lambda: remote.put(_PREFIX + name, bundle))


def _parts(name: str) -> tuple[str, bytes]:
    kind, _, key = name.partition("/")
    digest = bytes.fromhex(key)
    if kind not in ("graphs", "kernels", "autograd", "language", "tuning") or len(digest) != 32:
        raise ValueError(f"{name!r} is no entry of a cache")
    return kind, digest
