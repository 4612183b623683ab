"""How much is kept, by whom, and what a full disk or several writers make of it."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import time
from pathlib import Path
from types import ModuleType

import pytest

from .disk_caches import Cache

_kinds = ("graphs", "kernels", "autograd", "language", "tuning")


def fill(folder: Path, kind: str, count: int, num_bytes: int, used_at: float) -> list[Path]:
    (folder / kind).mkdir(parents=True, exist_ok=True, mode=0o700)
    files = []
    for i in range(count):
        file = folder / kind / hashlib.sha256(f"{kind} {i}".encode()).hexdigest()
        file.write_bytes(bytes(num_bytes))
        os.utime(file, (used_at + i, used_at + i))
        files.append(file)
    return files


def test_a_full_disk_is_said_once(cache: Cache, text: str, tiny_disk: Path) -> None:
    cache.folder = tiny_disk / "cache"
    cache.compile(text)
    with (tiny_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    cache.runtime.cache_notices()
    for i in range(4):
        assert cache.compile(text, options={"a": str(i)}) == "compiled"
    notices = cache.runtime.cache_notices()
    assert [is_warning for is_warning, _ in notices] == [True]
    assert "takes no entries: No space left on device" in notices[0][1]


def test_every_kind_counts_and_goes(runtime: ModuleType, tmp_path: Path) -> None:
    files = {kind: fill(tmp_path, kind, 10, 1000, 1000 * number) for number, kind in enumerate(_kinds, 1)}
    assert runtime.prune_cache(str(tmp_path), 50_000) == (10, 10_000, 0, 0)
    assert [sum(file.exists() for file in files[kind]) for kind in _kinds] == [0, 10, 10, 10, 10]
    assert runtime.prune_cache(str(tmp_path), 10_000) == (32, 32_000, 0, 0)
    assert [sum(file.exists() for file in files[kind]) for kind in _kinds] == [0, 0, 0, 0, 8]


def test_writes_to_any_kind_keep_the_limit(runtime: ModuleType, tmp_path: Path) -> None:
    """A process that writes what Python made stays below the limit, whatever was there."""
    fill(tmp_path, "language", 100, 1000, 1000)
    store = runtime.DiskCache(str(tmp_path), 64_000)
    for i in range(200):
        store.write("autograd", hashlib.sha256(str(i).encode()).digest(), bytes(1000))
        runtime.flush_disk_cache()
        assert sum(f.stat().st_size for kind in _kinds for f in (tmp_path / kind).glob("*")) <= 64_000 + 1088
    assert not list((tmp_path / "language").iterdir())


def test_eviction_needs_few_descriptors(runtime: ModuleType, tmp_path: Path) -> None:
    fill(tmp_path, "autograd", 3000, 10, 1000)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8,) * 2)
        removed = runtime.prune_cache(str(tmp_path), 10_000)
        os._exit(0 if removed == (2200, 22_000, 0, 0) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_empty_folders_and_abandoned_files_go(runtime: ModuleType, tmp_path: Path) -> None:
    fill(tmp_path, "autograd", 1, 10, 1000)
    (tmp_path / "autograd" / "a4bc").mkdir()
    (tmp_path / "autograd" / "theirs").mkdir()
    (tmp_path / "autograd" / "theirs" / "file").write_text("")
    old, young = (tmp_path / "autograd" / f".writing-{n}" for n in (1, 2))
    for file in (old, young):
        file.write_bytes(b"half an entry")
    os.utime(old, (1000, 1000))
    runtime.prune_cache(str(tmp_path), 0)
    left = sorted(path.name for path in (tmp_path / "autograd").iterdir() if len(path.name) < 64)
    assert left == [".writing-2", "theirs"]


def leave_unfinished(runtime: ModuleType, folder: Path) -> Path:
    """What a process leaves that is killed while it writes an entry."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        runtime.DiskCache(str(folder)).write("language", bytes(32), bytes(200_000))
        runtime.flush_disk_cache()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGXFSZ
    (left,) = (folder / "language").glob(".writing-*")
    assert left.stat().st_size == 50_000 and left.name.split("-")[1] == str(child)
    return left


def test_what_a_killed_process_left_goes_and_does_not_count(runtime: ModuleType, tmp_path: Path) -> None:
    files = fill(tmp_path, "autograd", 10, 1000, 1000)
    left = leave_unfinished(runtime, tmp_path)
    assert runtime.cache_leftovers(str(tmp_path)) == [(str(left), 50_000)]
    assert runtime.prune_cache(str(tmp_path), 20_000) == (0, 0, 1, 50_000)
    assert not left.exists() and all(file.exists() for file in files)
    left = leave_unfinished(runtime, tmp_path)
    runtime.DiskCache(str(tmp_path), 20_000).write("tuning", bytes(32), b"the first write of this process")
    runtime.flush_disk_cache()
    assert not left.exists() and all(file.exists() for file in files)
    left = leave_unfinished(runtime, tmp_path)
    assert runtime.clear_cache(str(tmp_path))[2:4] == (1, 50_000)
    assert not left.exists()


@pytest.mark.parametrize("writer", ["of this machine", "of another machine", "of an earlier version"])
def test_what_may_still_be_written_stays_and_does_not_count(runtime: ModuleType, tmp_path: Path, writer: str) -> None:
    files = fill(tmp_path, "autograd", 10, 1000, 1000)
    left = leave_unfinished(runtime, tmp_path)
    _, ended, moment, counter, place = left.name.split("-")
    name = {
        "of this machine": f"{os.getpid()}-{moment}-{counter}-{place}",
        "of another machine": f"{ended}-{moment}-{counter}-{int(place, 16) ^ 1:016x}",
        "of an earlier version": f"{ended}-{moment}-{counter}",
    }[writer]
    left = left.rename(left.with_name(f".writing-{name}"))
    assert runtime.cache_leftovers(str(tmp_path)) == []
    assert runtime.prune_cache(str(tmp_path), 20_000) == (0, 0, 0, 0)
    assert left.exists() and all(file.exists() for file in files)
    assert (str(left), "a process may be writing it") in runtime.clear_cache(str(tmp_path))[5]
    assert left.exists()
    os.utime(left, (time.time() - 4000,) * 2)
    assert runtime.prune_cache(str(tmp_path), 20_000) == (0, 0, 1, 50_000)
    assert not left.exists()


def test_readers_leave_what_is_being_written(cache: Cache, text: str) -> None:
    """A temporary file beside a damaged entry belongs to a writer, and so does the entry that it becomes."""
    cache.compile(text)
    (graph,) = cache.graphs()
    sound = graph.read_bytes()
    writing = graph.parent / ".writing-1-1"
    writing.write_bytes(sound[:100])
    graph.write_bytes(b"damaged")
    assert cache.compile(text) == "compiled"
    assert writing.read_bytes() == sound[:100]
    assert graph.read_bytes() == sound


def test_an_entry_that_is_there_is_not_written_again(runtime: ModuleType, tmp_path: Path) -> None:
    """Processes that start at once make the same: the first one's entry stays."""
    key = bytes(32)
    for content in (b"first", b"second"):
        runtime.DiskCache(str(tmp_path)).write("autograd", key, content)
        runtime.flush_disk_cache()
    assert runtime.DiskCache(str(tmp_path)).read("autograd", key) == b"first"
    runtime.DiskCache(str(tmp_path)).write("autograd", key, b"third", replace=True)
    assert runtime.DiskCache(str(tmp_path)).read("autograd", key) == b"third"  # waits for the write
    assert len(list((tmp_path / "autograd").iterdir())) == 1


def test_a_process_without_descriptors_removes_nothing(cache: Cache, text: str) -> None:
    cache.compile(text)
    store = cache.runtime.DiskCache(str(cache.folder))
    key = bytes.fromhex(cache.graphs()[0].name)
    assert store.read("graphs", key)  # the folder is open
    child = os.fork()
    if child == 0:
        taken = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 4,) * 2)
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            os._exit(0 if store.read("graphs", key) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read("graphs", key)


def test_kinds_and_keys_are_kept_apart(runtime: ModuleType, tmp_path: Path) -> None:
    store = runtime.DiskCache(str(tmp_path))
    store.write("language", bytes(32), b"code")
    assert store.read("language", bytes(32)) == b"code"
    assert store.read("autograd", bytes(32)) is None
    (tmp_path / "autograd").mkdir(mode=0o700)
    (entry,) = (tmp_path / "language").iterdir()
    entry.rename(tmp_path / "autograd" / entry.name)
    assert store.read("autograd", bytes(32)) is None
    with pytest.raises(RuntimeError, match="unknown kind of cache entry 'code'"):
        store.read("code", bytes(32))
    with pytest.raises(RuntimeError, match="a key of 32 bytes expected, got 3"):
        store.read("language", b"key")


def test_use_is_noted(runtime: ModuleType, tmp_path: Path) -> None:
    store = runtime.DiskCache(str(tmp_path))
    store.write("language", bytes(32), b"code")
    runtime.flush_disk_cache()
    (entry,) = (tmp_path / "language").iterdir()
    os.utime(entry, (1000, 1000))
    assert store.read("language", bytes(32)) == b"code"
    assert time.time() - entry.stat().st_mtime < 100
