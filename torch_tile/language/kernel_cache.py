"""Compiled kernels on disk, by the hash of their text, options and compiler."""

from __future__ import annotations

import functools
from typing import Any

from torch_tile import _C, cache_artifacts, config, disk_cache, remote_cache
from torch_tile.language.places import TracedKernel
from torch_tile.language.stages import dump_to


@functools.cache
def _version() -> str:
    return str(_C.version())


def compile_kernel(name: str, traced: TracedKernel, options: dict[str, str], architecture: str = "") -> bytes:
    """The bytes of a standalone kernel, from disk if they are there; `architecture` is that of a GPU."""
    settings = config.resolve()
    cache = disk_cache.open_cache(settings)
    facts = [_version(), *(f"{k}={v}" for k, v in sorted(options.items())), architecture]
    key = disk_cache.key_of(*facts, traced.text)
    entry = f"language/{key.hex()}"
    dump = dump_to(name)
    is_forced = bool(config.get("force_compile"))
    if cache is not None and dump is None and not is_forced:
        remote_cache.fetch(settings, entry)
        found = cache.read("language", key)
        disk_cache.report()
        if found is not None:
            cache_artifacts.record(cache, [entry])
            return found
    compile_text: Any = getattr(_C, "compile_kernel")  # noqa: B009
    if dump is not None:
        dump("05-trace.mlir", traced.located)
    code = bytes(compile_text(traced.located, options, dump, architecture))
    if cache is not None:
        cache.write("language", key, code, replace=is_forced)
        cache_artifacts.record(cache, [entry])
        remote_cache.store(settings, entry, [entry])
    return code
