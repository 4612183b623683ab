"""The disk cache: hits, keys, sharing, eviction, and every fault a disk can have. Results are right in each."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from .artifact_builder import Builder
from .conftest import find_extension
from .disk_caches import NO_LIMIT, Cache, add_text


def test_hit(cache: Cache, text: str) -> None:
    assert cache.compile(text) == "compiled"
    assert cache.compile(text) == "disk"
    assert (len(cache.graphs()), len(cache.kernels())) == (1, 1)
    # The kernel's code is stored once, apart from the graph.
    assert cache.graphs()[0].stat().st_size < 1000 < cache.kernels()[0].stat().st_size


def test_kernels_are_shared_before_they_are_written(cache: Cache, kernel_code: bytes) -> None:
    """Graphs compiled in quick succession: the second finds the first one's kernel in the process."""
    arguments = ({}, str(cache.folder), NO_LIMIT, None, [])
    programs = [cache.runtime.compile_graph(add_text(kernel_code, extra=i), *arguments) for i in range(5)]
    cache.runtime.flush_disk_cache()
    assert {p.loaded_from for p in programs} == {"compiled"}
    assert (len(cache.graphs()), len(cache.kernels())) == (5, 1)


def test_fork(cache: Cache, text: str, kernel_code: bytes) -> None:
    """A child forked while its parent writes can compile, and ends."""
    for i in range(5):
        cache.runtime.compile_graph(add_text(kernel_code, extra=i), {}, str(cache.folder), NO_LIMIT, None, [])
        child = os.fork()
        if child == 0:
            cache.compile(add_text(kernel_code, extra=i + 100))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    cache.runtime.flush_disk_cache()
    assert len(cache.graphs()) == 10


def test_no_cache_folder(cache: Cache, text: str) -> None:
    for _ in range(2):
        assert cache.compile(text, cache_dir=None) == "compiled"
    assert not cache.folder.exists()


def test_permissions(cache: Cache, text: str) -> None:
    cache.compile(text)
    for folder in (cache.folder, cache.folder / "graphs", cache.folder / "kernels"):
        assert folder.stat().st_mode & 0o777 == 0o700
    for file in cache.files():
        assert file.stat().st_mode & 0o777 == 0o600


def test_key(cache: Cache, text: str, kernel_code: bytes) -> None:
    cache.compile(text)
    assert cache.compile(text, options={"fusion": "off"}) == "compiled"
    assert cache.compile(text, options={"fusion": "on"}) == "compiled"
    assert cache.compile(text, options={"fusion": "off"}) == "disk"
    assert cache.compile(add_text(kernel_code, extra=1)) == "compiled"
    assert (len(cache.graphs()), len(cache.kernels())) == (4, 1)


def test_force_compile(cache: Cache, text: str) -> None:
    cache.compile(text)
    assert cache.compile(text, force_compile=True) == "compiled"
    assert cache.compile(text) == "disk"


def test_dump_compiles_even_on_a_hit(cache: Cache, text: str) -> None:
    cache.compile(text)
    dumps: list[tuple[str, object]] = []
    assert cache.compile(text, dump=lambda file, data: dumps.append((file, data))) == "compiled"
    assert [file for file, _ in dumps] == ["10-graph.mlir", "60-kernel.o", "55-program.txt"]
    assert dumps[0][1] == text
    assert dumps[1][1] == b"\xff\xfe"
    assert "launch add" in str(dumps[2][1])


def test_dump_error_reaches_the_caller(cache: Cache, text: str) -> None:
    def dump(file: str, data: object) -> None:
        raise OSError("no room for dumps")

    with pytest.raises(OSError, match="no room for dumps"):
        cache.compile(text, dump=dump)


def test_graphs_with_python_callables_stay_off_the_disk(cache: Cache, runtime: ModuleType) -> None:
    b = Builder()
    (y,) = b.pycall(0, [b.input([2])], [[2]])
    b.output(y)
    for _ in range(2):
        program = runtime.compile_graph(b.build().hex(), {}, str(cache.folder), NO_LIMIT, None, [lambda x: x + 1])
        assert program.loaded_from == "compiled"
        assert torch.equal(program([torch.zeros(2)])[0], torch.ones(2))
    assert cache.files() == []


def test_compiler_errors(runtime: ModuleType) -> None:
    errors = pytest.importorskip("torch_tile.errors")
    for text, kind, words in (
        ("unsupported", errors.UnsupportedError, "'graph.foo' op is not supported"),
        ("invalid", errors.InvalidKernelError, r"expected '\)'"),
        ("internal", errors.CompileError, "verification failed"),
    ):
        with pytest.raises(kind, match=words):
            runtime.compile_graph(text, {}, None, 0, None, [])


# Damaged entries


def other_content(file: Path, other: Path) -> None:
    shutil.copy(other, file)


def flip_bit(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position % len(data)] ^= 1 << position % 8
    file.write_bytes(data)


def swap_for_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def swap_for_link(file: Path) -> None:
    """Even to a sound entry: what a link points to is not under our control."""
    moved = file.with_name("elsewhere")
    file.rename(moved)
    file.symlink_to(moved)


def swap_for_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


_damages: dict[str, Callable[[Path], object]] = {
    "empty": lambda f: f.write_bytes(b""),
    "truncated header": lambda f: os.truncate(f, 50),
    "truncated payload": lambda f: os.truncate(f, f.stat().st_size - 1),
    "longer": lambda f: f.write_bytes(f.read_bytes() + b"\0"),
    "text": lambda f: f.write_text("not an entry"),
    "zeros": lambda f: f.write_bytes(bytes(f.stat().st_size)),
    "writable by others": lambda f: f.chmod(0o666),
    "link": swap_for_link,
    "pipe": swap_for_pipe,
    "folder": swap_for_folder,
    "missing": lambda f: f.unlink(),
    "bit of magic": lambda f: flip_bit(f, 3),
    "bit of version": lambda f: flip_bit(f, 8),
    "bit of kind": lambda f: flip_bit(f, 12),
    "bit of length": lambda f: flip_bit(f, 17),
    "bit of key": lambda f: flip_bit(f, 30),
    "bit of checksum": lambda f: flip_bit(f, 60),
    "bit of payload": lambda f: flip_bit(f, 101),
}


@pytest.mark.parametrize("level", ["graphs", "kernels"])
@pytest.mark.parametrize("damage", _damages)
def test_damaged_entry(cache: Cache, text: str, level: str, damage: str) -> None:
    cache.compile(text)
    (file,) = (cache.folder / level).iterdir()
    sound = file.read_bytes()
    _damages[damage](file)
    assert cache.compile(text) == "compiled"
    # Removed and written anew.
    assert file.read_bytes() == sound
    assert not file.is_symlink()
    assert cache.compile(text) == "disk"


def test_random_bit_flips(cache: Cache, text: str) -> None:
    cache.compile(text)
    (graph,) = cache.graphs()
    chance = random.Random(0)
    for _ in range(100):
        flip_bit(graph, chance.randrange(1 << 20))
        assert cache.compile(text) == "compiled"
        assert cache.compile(text) == "disk"


def test_code_that_is_whole_and_does_not_load(cache: Cache, text: str) -> None:
    cache.compile(text)
    (kernel,) = cache.kernels()
    sound = kernel.read_bytes()
    cache.runtime.DiskCache(str(cache.folder)).write("kernels", bytes.fromhex(kernel.name), b"no object", replace=True)
    cache.runtime.flush_disk_cache()
    assert cache.compile(text) == "compiled"
    assert kernel.read_bytes() == sound
    assert cache.compile(text) == "disk"


def test_threads_are_no_part_of_the_key(cache: Cache, text: str) -> None:
    cache.compile(text, threads=1)
    assert cache.compile(text, threads=7) == "disk"


def test_foreign_entry(cache: Cache, text: str, kernel_code: bytes) -> None:
    """A sound entry under the name of another, or of the other level, is not taken."""
    cache.compile(text)
    (first,) = cache.graphs()
    cache.compile(add_text(kernel_code, extra=1))
    (second,) = set(cache.graphs()) - {first}
    shutil.copy(second, first)
    assert cache.compile(text) == "compiled"
    shutil.copy(cache.kernels()[0], first)
    assert cache.compile(text) == "compiled"
    assert cache.compile(text) == "disk"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("level", ["graphs", "kernels"])
def test_entry_of_another_user(cache: Cache, text: str, level: str) -> None:
    cache.compile(text)
    (file,) = (cache.folder / level).iterdir()
    os.chown(file, 12345, 12345)
    assert cache.compile(text) == "compiled"
    assert cache.compile(text) == "disk"
    assert file.stat().st_uid == 0


@pytest.mark.parametrize("level", ["graphs", "kernels"])
def test_folder_that_others_can_write(cache: Cache, text: str, level: str) -> None:
    cache.compile(text)
    (cache.folder / level).chmod(0o777)
    for _ in range(2):
        assert cache.compile(text) == "compiled"


def test_linked_folder(cache: Cache, text: str, tmp_path: Path) -> None:
    cache.compile(text)
    (cache.folder / "graphs").rename(tmp_path / "moved")
    (cache.folder / "graphs").symlink_to(tmp_path / "moved")
    assert cache.compile(text) == "compiled"


# Disks that do not take entries


def test_cache_folder_is_a_file(cache: Cache, text: str) -> None:
    cache.folder.write_text("")
    for _ in range(2):
        assert cache.compile(text) == "compiled"


def test_cache_folder_cannot_be_made(cache: Cache, text: str) -> None:
    for _ in range(2):
        assert cache.compile(text, cache_dir="/proc/no/such/place") == "compiled"


def run_worker(test_libraries: tuple[Path, Path], folder: Path, texts: Path, repeat: int = 1, **kwargs: object) -> dict:
    worker = Path(__file__).with_name("cache_worker.py")
    command = [sys.executable, str(worker), str(find_extension()), str(test_libraries[0]), str(folder), str(texts)]
    result = subprocess.run([*command, str(repeat), "0"], capture_output=True, text=True, check=True, **kwargs)  # type: ignore[call-overload]
    return json.loads(result.stdout)


def test_second_process(cache: Cache, text: str, test_libraries: tuple[Path, Path], tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.write_text(text)
    assert run_worker(test_libraries, cache.folder, texts)["loaded_from"] == ["compiled"]
    assert run_worker(test_libraries, cache.folder, texts)["loaded_from"] == ["disk"]
    changed = {**os.environ, "FAKE_COMPILER_VERSION": "fake 2"}
    assert run_worker(test_libraries, cache.folder, texts, env=changed)["loaded_from"] == ["compiled"]


def test_read_only_disk(cache: Cache, text: str, tiny_disk: Path) -> None:
    """Entries there are used; new ones are left out."""
    cache.folder = tiny_disk / "cache"
    cache.compile(text)
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert cache.compile(text) == "disk"
    for _ in range(2):
        assert cache.compile(text, options={"a": "b"}) == "compiled"
    assert cache.compile(text, cache_dir=str(tiny_disk / "other")) == "compiled"


def test_full_disk(cache: Cache, text: str, tiny_disk: Path) -> None:
    cache.folder = tiny_disk / "cache"
    with (tiny_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    for _ in range(2):
        assert cache.compile(text) == "compiled"
    assert not cache.folder.exists() or cache.files() == []
    os.truncate(tiny_disk / "filler", 240 << 10)  # room for folders and small files only
    for _ in range(2):
        assert cache.compile(text) == "compiled"
    assert not [f for f in cache.files() if f.stat().st_size == 0 or f.name.startswith(".")]
    os.truncate(tiny_disk / "filler", 0)
    assert cache.compile(text) == "compiled"
    assert cache.compile(text) == "disk"


def test_file_size_limit(cache: Cache, text: str, test_libraries: tuple[Path, Path], tmp_path: Path) -> None:
    """As a full disk, without the right to mount one: every write beyond 4 KB fails."""
    texts = tmp_path / "texts"
    texts.write_text(text)

    def limit() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    # memfd, by which the stand-in loads kernels, is limited too: the worker may fail only there.
    b = Builder()
    x, y = b.input([16]), b.input([16])
    (z,) = b.extern("aten::add.Tensor", [x, y, 1], [[16]])
    for _ in range(2000):
        b.output(z)
    texts.write_text(b.build().hex())
    for _ in range(2):
        assert run_worker(test_libraries, cache.folder, texts, preexec_fn=limit)["loaded_from"] == ["compiled"]
    assert cache.files() == []
    assert run_worker(test_libraries, cache.folder, texts)["loaded_from"] == ["compiled"]
    assert run_worker(test_libraries, cache.folder, texts)["loaded_from"] == ["disk"]


# Eviction


def test_least_recently_used_go_first(
    cache: Cache, kernel_code: bytes, test_libraries: tuple[Path, Path], tmp_path: Path
) -> None:
    texts = [add_text(kernel_code, extra=5000 + i) for i in range(6)]  # large beside the kernel
    known: set[Path] = set()
    for i, text in enumerate(texts):
        cache.compile(text)
        (new,) = set(cache.graphs()) - known
        known.add(new)
        os.utime(new, (1000 + i, 1000 + i))
    assert cache.compile(texts[0]) == "disk"  # used again: now the youngest graph, with its kernel
    total = sum(f.stat().st_size for f in cache.files())
    # Folders are listed at the first write of a process. A fifth below the limit, at least two graphs must go.
    b = Builder()
    b.output(1)
    small = tmp_path / "small"
    small.write_text(b.build().hex())
    script = f"""
import importlib.util, torch
spec = importlib.util.spec_from_file_location("x._C", {cache.runtime.__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.set_compiler_library({str(test_libraries[0])!r})
module.compile_graph(open({str(small)!r}).read(), {{}}, {str(cache.folder)!r}, {total - 1000}, None, [])
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert sum(f.stat().st_size for f in cache.files()) <= total * 8 // 10
    left = [cache.compile(text) for text in texts]
    gone = left.count("compiled")
    assert 2 <= gone <= 3
    assert left == ["disk"] + ["compiled"] * gone + ["disk"] * (5 - gone)


def test_limit_smaller_than_any_entry(cache: Cache, text: str) -> None:
    for _ in range(3):
        assert cache.compile(text, limit=1) == "compiled"
    assert cache.files() == []


def test_abandoned_temporary_files_go(cache: Cache, text: str) -> None:
    cache.compile(text)
    old, young = (cache.folder / "kernels" / f".writing-{n}" for n in ("1-0", "2-0"))
    for file in (old, young):
        file.write_bytes(b"half an entry")
    os.utime(old, (1000, 1000))
    cache.compile(text, limit=10**6, options={"a": "1"})
    cache.compile(text, limit=1, options={"a": "2"})
    assert not old.exists()
    assert young.exists()


# Processes


@pytest.mark.slow
def test_eight_processes_at_once(
    cache: Cache, kernel_code: bytes, test_libraries: tuple[Path, Path], tmp_path: Path
) -> None:
    texts = tmp_path / "texts"
    texts.write_text(" ".join(add_text(kernel_code, kernel=f"k{i % 3}", extra=i) for i in range(10)))
    worker = Path(__file__).with_name("cache_worker.py")
    command = [sys.executable, str(worker), str(find_extension()), str(test_libraries[0]), str(cache.folder)]
    start = str(time.time() + 8)
    processes = [
        subprocess.Popen([*command, str(texts), "3", start], stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    outcomes = [json.loads(p.communicate(timeout=120)[0]) for p in processes]
    assert all(p.returncode == 0 for p in processes)
    for outcome in outcomes:
        assert outcome["loaded_from"][10:] == ["disk"] * 20
    assert (len(cache.graphs()), len(cache.kernels())) == (10, 3)


@pytest.mark.slow
def test_killed_in_the_middle_of_a_write(
    cache: Cache, kernel_code: bytes, test_libraries: tuple[Path, Path], tmp_path: Path
) -> None:
    """Processes die at random moments; what they leave is whole entries and temporary files."""
    texts = tmp_path / "texts"
    text_list = [add_text(kernel_code, kernel=f"k{i}", extra=i) for i in range(200)]
    texts.write_text(" ".join(text_list))
    worker = Path(__file__).with_name("cache_worker.py")
    command = [sys.executable, str(worker), str(find_extension()), str(test_libraries[0]), str(cache.folder)]
    for i in range(4):
        process = subprocess.Popen([*command, str(texts), "1000", "0"], stdout=subprocess.DEVNULL)
        deadline = time.time() + 60
        wanted = 5 + 20 * i
        while time.time() < deadline and process.poll() is None:
            if (cache.folder / "graphs").exists() and len(cache.graphs()) >= wanted:
                break
            time.sleep(0.001)
        process.kill()
        process.wait()
    # The worst moment, as the file system may keep it after a power cut: the name is there, the content is not.
    broken = [cache.graphs()[0], cache.kernels()[0]]
    for file in broken:
        os.truncate(file, file.stat().st_size // 2)
    run_worker(test_libraries, cache.folder, texts)
    assert set(run_worker(test_libraries, cache.folder, texts)["loaded_from"]) == {"disk"}
