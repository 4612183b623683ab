"""Who may have written what the cache reads: owners, modes, umasks, links, and things that are no files."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from .disk_caches import Cache

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
_nobody = 65534


def messages(runtime: ModuleType) -> list[str]:
    return [text for _, text in runtime.cache_notices()]


@pytest.fixture(autouse=True)
def no_old_notices(runtime: ModuleType) -> None:
    runtime.cache_notices()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's are its user's alone."""
    folder = Path(tempfile.mkdtemp(prefix="torch-tile-shared-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def as_user(user: int, action: Callable[[], object]) -> None:
    """Runs `action` in a child process of another user."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            action()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("mask", [0o002, 0o000, 0o077, 0o277])
def test_the_umask_does_not_matter(cache: Cache, text: str, umask: Callable[[int], int], mask: int) -> None:
    umask(mask)
    assert cache.compile(text) == "compiled"
    assert cache.compile(text) == "disk"
    for folder in (cache.folder, cache.folder / "graphs", cache.folder / "kernels"):
        assert folder.stat().st_mode & 0o777 == 0o700
    for file in cache.files():
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_folder_made_under_umask_002_is_used(cache: Cache, text: str) -> None:
    """Of such a folder only those within it count, which the cache makes itself."""
    cache.folder.mkdir(mode=0o775)
    cache.folder.chmod(0o775)
    assert cache.compile(text) == "compiled"
    assert cache.compile(text) == "disk"


@is_root
def test_the_private_group_of_the_user_may_write(cache: Cache, text: str) -> None:
    cache.compile(text)
    (file,) = cache.graphs()
    file.chmod(0o660)
    (cache.folder / "graphs").chmod(0o770)
    assert cache.compile(text) == "disk"


@is_root
def test_another_group_may_not_write(cache: Cache, text: str) -> None:
    cache.compile(text)
    (file,) = cache.graphs()
    os.chown(file, 0, 12345)
    file.chmod(0o664)
    assert cache.compile(text) == "compiled"
    mask = os.umask(0o022)
    os.umask(mask)
    assert messages(cache.runtime) == [
        f"cache entry {file} ignored: it is group-writable (mode 0664; your umask is {mask:03o}); expected 0600"
    ]
    assert cache.compile(text) == "disk"


def test_an_entry_that_everyone_may_write(cache: Cache, text: str) -> None:
    cache.compile(text)
    (file,) = cache.graphs()
    file.chmod(0o666)
    assert cache.compile(text) == "compiled"
    expected = f"cache entry {file} ignored: it is writable by everyone (mode 0666); expected 0600"
    assert messages(cache.runtime) == [expected]


@is_root
def test_an_entry_of_another_user(cache: Cache, text: str) -> None:
    cache.compile(text)
    (file,) = cache.graphs()
    os.chown(file, 12345, 12345)
    assert cache.compile(text) == "compiled"
    expected = f"cache entry {file} ignored: it belongs to another user (owner user 12345, mode 0600)"
    assert messages(cache.runtime) == [expected]


@is_root
def test_a_cache_that_root_baked_is_read_by_others(cache: Cache, text: str, open_folder: Path) -> None:
    cache.folder = open_folder / "cache"
    cache.compile(text)
    for path in [cache.folder, *cache.folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = {file: file.stat().st_mtime_ns for file in cache.files()}

    def use() -> None:
        assert cache.compile(text) == "disk"
        for _ in range(2):  # nothing can be written, which is no error
            assert cache.compile(text, options={"a": "b"}) == "compiled"

    as_user(_nobody, use)
    assert {file: file.stat().st_mtime_ns for file in cache.files()} == before


@is_root
def test_a_cache_of_root_alone_is_said_to_be_closed(cache: Cache, text: str, open_folder: Path) -> None:
    cache.folder = open_folder / "cache"
    cache.compile(text)

    def use() -> None:
        assert cache.compile(text) == "compiled"
        assert any("ignored: Permission denied" in message for message in messages(cache.runtime))

    as_user(_nobody, use)


@is_root
def test_what_another_user_planted_is_not_run(cache: Cache, text: str, open_folder: Path) -> None:
    open_folder.chmod(0o777)
    cache.folder = open_folder / "cache"

    def plant() -> None:
        assert cache.compile(text) == "compiled"

    as_user(_nobody, plant)
    assert cache.compile(text) == "compiled"
    assert any("belongs to another user" in message for message in messages(cache.runtime))
    assert all(file.stat().st_uid == _nobody for file in cache.files())


@is_root
def test_layers_are_read_and_never_written(cache: Cache, text: str, tmp_path: Path) -> None:
    baked = tmp_path / "baked"
    cache.compile(text, cache_dir=str(baked))
    before = {file: file.stat().st_mtime_ns for file in baked.rglob("*")}
    assert cache.compile(text, cache_layers=[str(tmp_path / "none"), str(baked)]) == "disk"
    assert not cache.folder.exists()
    assert cache.compile(text, cache_layers=[str(baked)], options={"a": "b"}) == "compiled"
    assert len(cache.graphs()) == 1
    assert {file: file.stat().st_mtime_ns for file in baked.rglob("*")} == before
    (graph,) = (baked / "graphs").iterdir()
    graph.write_bytes(b"damaged")
    assert cache.compile(text, cache_layers=[str(baked)]) == "compiled"
    assert graph.read_bytes() == b"damaged"


def plant_socket(file: Path) -> None:
    file.unlink()
    here = Path.cwd()
    os.chdir(file.parent)  # names of sockets are short
    try:
        socket.socket(socket.AF_UNIX).bind(file.name)
    finally:
        os.chdir(here)


def plant_device(file: Path) -> None:
    file.unlink()
    os.mknod(file, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero never ends


def plant_hanging_link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.parent / "nowhere")


def plant_unreadable(file: Path) -> None:
    file.chmod(0o000)


_plants: dict[str, Callable[[Path], None]] = {
    "socket": plant_socket,
    "device": plant_device,
    "hanging link": plant_hanging_link,
    "unreadable": plant_unreadable,
}


@pytest.mark.parametrize("level", ["graphs", "kernels"])
@pytest.mark.parametrize("plant", _plants)
def test_something_else_in_place_of_an_entry(cache: Cache, text: str, level: str, plant: str) -> None:
    if plant == "device" and os.geteuid() != 0:
        pytest.skip("only root makes devices")
    cache.compile(text)
    (file,) = (cache.folder / level).iterdir()
    _plants[plant](file)
    assert cache.compile(text) == ("disk" if plant == "unreadable" and os.geteuid() == 0 else "compiled")
    assert cache.compile(text) == "disk"
    assert file.is_file() and not file.is_symlink()


def test_a_folder_with_content_in_place_of_an_entry_stays(cache: Cache, text: str) -> None:
    cache.compile(text)
    (file,) = cache.graphs()
    file.unlink()
    file.mkdir()
    (file / "something").write_text("of the user")
    for _ in range(2):
        assert cache.compile(text) == "compiled"
    assert (file / "something").read_text() == "of the user"
    assert cache.runtime.cache_notices() == [
        (
            True,
            f"cache entry {file} ignored: it is a folder; it cannot be removed, so every process compiles anew what "
            "belongs there",
        )
    ]
    found = {name: problem for _, name, _, _, problem in cache.runtime.cache_entries(str(cache.folder), True)}
    assert found == {file.name: "it is a folder", cache.kernels()[0].name: ""}


@pytest.mark.parametrize("distrusted", ["entries", "folders"])
def test_one_message_for_a_cache(cache: Cache, text: str, distrusted: str) -> None:
    cache.compile(text)
    files = cache.files()
    for path in files if distrusted == "entries" else {file.parent for file in files}:
        path.chmod(0o777)
    assert cache.compile(text) == "compiled"
    (message,) = messages(cache.runtime)
    assert "it is writable by everyone" in message


def test_a_pipe_in_place_of_the_folder(cache: Cache, text: str) -> None:
    cache.folder.mkdir()
    os.mkfifo(cache.folder / "graphs")
    done = threading.Event()

    def compile() -> None:
        assert cache.compile(text) == "compiled"
        done.set()

    threading.Thread(target=compile, daemon=True).start()
    assert done.wait(30)
