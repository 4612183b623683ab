"""Choices of autotuning on disk, by kernel, device, configurations and values of the key.

An entry also holds the hash of the chosen kernel's text: a choice made before a function changed that the kernel calls
is not taken.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
from typing import Any

import torch

from torch_tile import _C, cache_artifacts, config, disk_cache, remote_cache
from torch_tile.config import Settings
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.dtypes import dtype

log = logging.getLogger(__name__)
_KIND = "tuning"


@functools.cache
def _version() -> str:
    return str(_C.version())


def describe_device(device: torch.device | None) -> str:
    """What the times depend on."""
    if device is None:
        return f"cpu, {torch.get_num_threads()} of {os.cpu_count()} threads"
    properties = torch.cuda.get_device_properties(device)
    return f"{properties.name}, {properties.major}.{properties.minor}, {properties.multi_processor_count}"


def _describe(value: Any) -> str | None:
    """A value in words that mean the same in every process, or None."""
    value = unwrap(value)
    if isinstance(value, (bool, int, float, str, type(None), torch.dtype, dtype)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (tuple, list)):
        parts = [_describe(item) for item in value]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    return str(value.cache_key) if hasattr(value, "cache_key") else None


def key_of(kernel: Any, device: torch.device | None, values: tuple[Any, ...], configs: list[Any]) -> bytes | None:
    """Key of a choice; None where a value has no lasting name, or a hook before launches may do anything."""
    if any(c.pre_hook is not None for c in configs):
        return None
    described = [_describe(v) for v in values]
    described += [_describe(v) for c in configs for pair in sorted(c.all_kwargs().items()) for v in pair]
    if None in described:
        return None
    while hasattr(kernel, "kernel"):
        kernel = kernel.kernel
    name = f"{kernel.fn.__module__}.{kernel.fn.__qualname__}"
    return disk_cache.key_of(_version(), describe_device(device), name, kernel.src, *map(str, described))


def hash_of(compiled: Any) -> str:
    """Of a compiled kernel's text, or of those of all configurations of an autotuned one."""
    kernels = compiled if isinstance(compiled, list) else [compiled]
    texts = [hash_of(k) if isinstance(k, list) else k.traced.text for k in kernels]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def read(key: bytes, count: int, settings: Settings | None = None) -> tuple[int, str, list[float]] | None:
    """Number of the chosen configuration of `count`, the hash of its text, and all times.

    Args:
        settings: of a torch.compile call; without one, the process's.
    """
    settings = settings or config.resolve()
    cache = disk_cache.open_cache(settings)
    if cache is None or settings["force_compile"]:
        return None
    remote_cache.fetch(settings, f"{_KIND}/{key.hex()}")
    found = cache.read(_KIND, key)
    disk_cache.report()
    if found is None:
        return None
    try:
        entry = json.loads(found)
        number, text_hash, times = int(entry["choice"]), str(entry["text"]), [float(t) for t in entry["times"]]
        if not 0 <= number < count or len(times) != count:
            raise ValueError(f"choice {number} among {len(times)}, expected {count}")
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the choice of autotuning in %s/%s is ignored: %s", _KIND, key.hex(), error)
        return None
    cache_artifacts.record(cache, [f"{_KIND}/{key.hex()}"])
    return number, text_hash, times


def write(key: bytes, number: int, text_hash: str, times: list[float], settings: Settings | None = None) -> None:
    settings = settings or config.resolve()
    cache = disk_cache.open_cache(settings)
    if cache is not None:
        name = f"{_KIND}/{key.hex()}"
        entry = {"choice": number, "text": text_hash, "times": times}
        cache.write(_KIND, key, json.dumps(entry).encode(), replace=True)
        cache_artifacts.record(cache, [name])
        remote_cache.store(settings, name, [name])
