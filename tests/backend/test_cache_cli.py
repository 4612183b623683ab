"""python -m torch_tile cache: what it shows, what it removes, and what it asks."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from tests import processes
from torch_tile import _C, cli

from .test_autograd_cache import again


@pytest.fixture
def filled(cache_dir: Path) -> Path:
    again(lambda x: x.sin() + 1, torch.randn(4))
    _C.flush_disk_cache()
    (cache_dir / "of the user").mkdir()
    (cache_dir / "of the user" / "notes").write_text("keep me")
    (cache_dir / "file").write_text("keep me")
    return cache_dir


def count(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def test_info(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache", "info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"folder    {filled}"
    assert lines[1] == "limit     4.3 GB"
    assert [line.split(",")[0] for line in lines[2:]] == [
        "graphs    1 entries",
        "kernels   1 entries",
        "autograd  1 entries",
        "language  0 entries",
        "tuning    0 entries",
    ]


def test_list(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines) == ["autograd", "graphs", "kernels"]
    assert all(line.endswith("used just now") for line in lines)


def test_verify(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache", "verify"]) == 0
    assert capsys.readouterr().out == "3 entries, 0 that would not be used\n"
    (graph,) = (filled / "graphs").iterdir()
    (kernel,) = (filled / "kernels").iterdir()
    graph.write_bytes(graph.read_bytes()[:-1])
    kernel.chmod(0o666)
    assert cli.main(["cache", "verify"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{graph}: it is damaged",
        f"{kernel}: it is writable by everyone (mode 0666); expected 0600",
        "3 entries, 2 that would not be used",
    ]
    assert graph.exists() and kernel.exists()


def test_prune(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache", "prune"]) == 0
    assert capsys.readouterr().out == f"removed 0 entries, 0 B, from {filled}\n"
    for number in ("-3", "x"):
        with pytest.raises(SystemExit):
            cli.main(["cache", "prune", "--limit-bytes", number])
    assert "argument --limit-bytes: expected at least 0, got -3" in capsys.readouterr().err
    assert cli.main(["cache", "prune", "--limit-bytes", "1"]) == 0
    assert capsys.readouterr().out.startswith("removed 3 entries, ")
    assert count(filled) == 2


def test_clear_removes_what_is_ours_alone(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (filled / "graphs" / "notes").write_text("keep me")
    (filled / "graphs" / ".writing-1-1-1").write_text("half an entry")
    os.utime(filled / "graphs" / ".writing-1-1-1", (1000, 1000))
    assert cli.main(["cache", "clear", "--yes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("removed 3 entries, ")
    assert lines[1:] == [
        "removed 1 unfinished file, 13 B",
        f"removed {filled}/kernels",
        f"removed {filled}/autograd",
        f"left {filled}/graphs/notes: it is not ours",
    ]
    left = sorted(str(path.relative_to(filled)) for path in filled.rglob("*"))
    assert left == ["file", "graphs", "graphs/notes", "of the user", "of the user/notes"]
    assert torch.equal(again(lambda x: x.sin() + 1, torch.zeros(4)), torch.ones(4))


def test_unfinished_files_are_said_and_removed(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cache_dir / "kernels").mkdir(parents=True, mode=0o700)
    unfinished = cache_dir / "kernels" / ".writing-1-1-1"
    unfinished.write_bytes(bytes(2000))
    assert cli.main(["cache", "verify"]) == 0
    assert capsys.readouterr().out == "0 entries, 0 that would not be used\n"
    os.utime(unfinished, (1000, 1000))
    assert cli.main(["cache", "verify"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "1 unfinished file, 2.0 KB: `cache prune` removes what processes that ended left unfinished"
    ]
    with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open() as nobody:
        patch.setattr(sys, "stdin", nobody)
        assert cli.main(["cache", "clear"]) == 1
    expected = (
        f"cache clear removes 0 entries and 1 unfinished file, 2.0 KB, of {cache_dir}/kernels: call it with --yes"
    )
    assert capsys.readouterr().err == expected + "\n"
    assert cli.main(["cache", "prune"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["removed 1 unfinished file, 2.0 KB"]
    assert not unfinished.exists()


def test_verify_finds_a_folder_in_place_of_an_entry(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (graph,) = (filled / "graphs").iterdir()
    graph.unlink()
    (graph / "something").mkdir(parents=True)
    assert cli.main(["cache", "verify"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{graph}: it is a folder",
        "3 entries, 1 that would not be used",
    ]


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCH_TILE_CACHE_DIR": os.fsdecode(os.fsencode(tmp_path) + b"/\xff")}
    program = """
import torch
for i in range(2):
    torch.compiler.reset()
    assert torch.compile(lambda x: x + i, backend="tile", options={"strict": True})(torch.ones(2))[0] == 1 + i
"""
    said = "the disk cache is off: the name of its folder is not UTF-8: b'"
    for command, output in (["-c", program], ""), (["-m", "torch_tile", "cache", "info"], "the disk cache is off\n"):
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (0, output), done.stderr
        assert done.stderr.count(said) == 1 and "/\\xff'; TORCH_TILE_CACHE_DIR names another folder" in done.stderr


def test_clear_follows_no_link(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (filled / "graphs").rename(tmp_path / "elsewhere")
    (filled / "graphs").symlink_to(tmp_path / "elsewhere")
    assert cli.main(["cache", "clear", "--yes"]) == 0
    assert f"left {filled}/graphs: it is not ours" in capsys.readouterr().out
    assert count(tmp_path / "elsewhere") == 1


def test_clear_asks_nobody_without_a_terminal(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open() as nobody:
        patch.setattr(sys, "stdin", nobody)
        assert cli.main(["cache", "clear"]) == 1
    assert "call it with --yes" in capsys.readouterr().err
    assert count(filled) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "left"), [("n", 5), ("", 5), ("yes", 2)])
def test_clear_asks_on_a_terminal(filled: Path, answer: str, left: int) -> None:
    parent, child = pty.openpty()
    with os.fdopen(parent, "rb+", buffering=0) as terminal:
        process = subprocess.Popen(
            [sys.executable, "-m", "torch_tile", "cache", "clear"], stdin=child, stdout=subprocess.PIPE, text=True
        )
        terminal.write(f"{answer}\n".encode())
        output = process.communicate(timeout=120)[0]
    os.close(child)
    assert f"remove 3 entries of {filled}/graphs, {filled}/kernels, {filled}/autograd? [y/N]" in output
    assert process.returncode == (0 if answer == "yes" else 1)
    assert count(filled) == left


def test_off(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TILE_CACHE", "0")
    for action in ("info", "list", "verify", "prune", "clear"):
        assert cli.main(["cache", action]) == 0
        assert capsys.readouterr().out == "the disk cache is off\n"


def test_folders_that_hold_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(tmp_path / "missing"))
    assert cli.main(["cache", "info"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"folder    {tmp_path / 'missing'}  (not there yet)"
    (tmp_path / "file").write_text("keep me")
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(tmp_path / "file"))
    for action in (["info"], ["list"], ["verify"], ["prune"], ["clear", "--yes"]):
        assert cli.main(["cache", *action]) == 1
        assert f"{tmp_path / 'file'} is not a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "keep me"


def test_limits_have_units(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("4GB", "4 g", "100M"):
        assert cli.main(["cache", "prune", "--limit-bytes", text]) == 0
        assert capsys.readouterr().out.startswith("removed 0 entries")
    for text, message in (("x", "expected a number of bytes, as 4000000000 or 4G, got 'x'"), ("-1G", "at least 0")):
        with pytest.raises(SystemExit):
            cli.main(["cache", "prune", f"--limit-bytes={text}"])
        assert message in capsys.readouterr().err
    assert cli.main(["cache", "prune", "--limit-bytes", "1K"]) == 0
    assert not capsys.readouterr().out.startswith("removed 0 entries")


READS = """
import os
import torch
from torch_tile import config, disk_cache

os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
for kind in ("graphs", "kernels", "graphs"):
    assert disk_cache.open_cache(config.resolve()).read(kind, bytes(32)) is None
    disk_cache.report()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be several users")
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (0o700, "ignored: Permission denied; this layer is not used: make it readable for this user (chmod -R a+rX)"),
        (0o777, "writable by everyone (mode 0777); expected a layer that its owner alone can write (chmod -R go-w)"),
    ],
)
def test_a_layer_that_is_not_used_is_said_once(mode: int, message: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        layer = Path(folder) / "layer"
        for kind in ("graphs", "kernels", "autograd", "language", "tuning"):
            (layer / kind).mkdir(parents=True)
        for path in (layer, *layer.iterdir()):
            path.chmod(mode)
        variables = {"TORCH_TILE_CACHE_DIR": f"{folder}/own", "TORCH_TILE_CACHE_LAYERS": str(layer)}
        done = processes.run("-c", READS, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(message) == 1 and done.stderr.count("ignored") == 1, done.stderr


def test_layers_that_are_not_used_are_named(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, missing, writable = (tmp_path / name for name in ("sound", "missing", "writable"))
    shutil.copytree(filled, sound)
    shutil.copytree(filled, writable)
    (writable / "graphs").chmod(0o777)
    (entry,) = (sound / "kernels").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    monkeypatch.setenv("TORCH_TILE_CACHE_LAYERS", f"{sound}:{missing}:{writable}")
    problem = "graphs: it is writable by everyone (mode 0777); expected a layer that its owner alone can write"
    assert cli.main(["cache", "info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == [f"layer     {sound}", f"layer     {missing}  (not used: it is no folder)"]
    assert lines[3].startswith(f"layer     {writable}  (not used: {problem}")
    assert cli.main(["cache", "verify"]) == 1
    said = capsys.readouterr().out
    assert f"{sound}/kernels/{entry.name}: it is damaged" in said
    assert f"3 entries, 1 that would not be used, in layer {sound}" in said
    assert (
        f"layer {missing} is not used: it is no folder" in said and f"layer {writable} is not used: {problem}" in said
    )
    cli.main(["doctor"])
    said = capsys.readouterr().out
    assert f"slow: the cache layer {missing} is not used: it is no folder" in said
    assert f"slow: the cache layer {writable} is not used: {problem}" in said and f"the cache layer {sound}" not in said


def test_a_pipe_in_place_of_an_entry_is_a_warning(filled: Path, caplog: pytest.LogCaptureFixture) -> None:
    _C.cache_notices()
    for kind in ("autograd", "graphs"):
        (entry,) = (filled / kind).iterdir()
        entry.unlink()
        os.mkfifo(entry)
    with caplog.at_level("WARNING", "torch_tile"):
        again(lambda x: x.sin() + 1, torch.randn(4))
    (message,) = [record.getMessage() for record in caplog.records if "cache entry" in record.getMessage()]
    assert message.endswith("ignored: it is no regular file")
