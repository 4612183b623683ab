"""Keys of caches name what files hold: a copy of the package elsewhere finds the entries, an edited one does not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_tile
from torch_tile import _C, file_contents
from torch_tile.frontend import aot, definitions

_PACKAGE = Path(torch_tile.__file__).parent

_PROGRAM = """
import os, pathlib, sys

# An installation in place would be found before the copy.
sys.meta_path = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
import torch
import torch_tile
import torch_tile.language as tl

assert torch_tile.__file__.startswith(os.environ["COPY"]), torch_tile.__file__
artifacts, folder = pathlib.Path(sys.argv[1]), pathlib.Path(os.environ["TORCH_TILE_CACHE_DIR"])


def entries():
    torch_tile._C.flush_disk_cache()
    return {str(file.relative_to(folder)) for file in folder.glob("*/*") if len(file.name) == 64}


@torch_tile.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


if artifacts.exists():
    torch.compiler.load_cache_artifacts(artifacts.read_bytes())
before = entries()
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
torch.compile(model, backend="tile")(torch.ones(8, 16)).sum().backward()
x, y = torch.ones(100), torch.empty(100)
double[(1,)](x, y, 100, BLOCK=128)
assert y.sum() == 200
print("new:", *sorted({name.split("/")[0] for name in entries() - before}))
if not artifacts.exists():
    artifacts.write_bytes(torch.compiler.save_cache_artifacts()[0])
if len(sys.argv) > 2:
    from torch_tile.triton.compiler import _compiler_version

    print("triton:", _compiler_version().split()[-2:])
"""


def copy_to(folder: Path, seconds: int) -> Path:
    """A copy whose files are that much older."""
    shutil.copytree(_PACKAGE, folder / "torch_tile", ignore=shutil.ignore_patterns("__pycache__"))
    for file in folder.rglob("*"):
        time = file.stat().st_mtime - seconds
        os.utime(file, (time, time))
    return folder


@pytest.mark.skipif(
    not torch.__version__.startswith(aot.CACHED_VERSIONS), reason="traces are kept with tried versions of torch only"
)
def test_entries_of_one_copy_serve_another(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    has_triton = importlib.util.find_spec("triton") is not None

    def run(copy: Path, cache: str) -> list[str]:
        environment = {
            **os.environ, "PYTHONPATH": str(copy), "COPY": str(copy), "TORCH_TILE_CACHE_DIR": str(tmp_path / cache),
        }  # fmt: skip
        command = [sys.executable, str(program), str(tmp_path / "artifacts"), *["triton"] * has_triton]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    first = run(copy_to(tmp_path / "a", 1000), "first")
    assert first[0] == "new: autograd graphs kernels language"
    other = copy_to(tmp_path / "b" / "elsewhere", 5000)
    second = run(other, "second")
    assert second[0] == "new:" and second[1:] == first[1:]
    for name in ("frontend/fx_passes.py", "triton/stages.py"):
        with open(other / "torch_tile" / name, "a") as file:
            file.write("\n# edited\n")
    third = run(other, "third")
    assert third[0] == "new: autograd" and (not has_triton or third[1:] != first[1:])


def test_an_edit_that_keeps_size_and_time_is_a_new_key(tmp_path: Path) -> None:
    source = tmp_path / "deep" / "module.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    (tmp_path / "debug").mkdir()
    (tmp_path / "debug" / "module.py").write_text("")
    first = file_contents.of_sources(str(tmp_path), {"debug"})
    status = source.stat()
    (tmp_path / "debug" / "module.py").write_text("not seen")
    (tmp_path / "deep" / "data.txt").write_text("not seen")
    os.utime(source, (1, 1))
    assert file_contents.of_sources(str(tmp_path), {"debug"}) == first
    source.write_text("x = 2\n")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = file_contents.of_sources(str(tmp_path), {"debug"})
    assert changed != first
    source.rename(tmp_path / "deep" / "renamed.py")
    assert file_contents.of_sources(str(tmp_path), {"debug"}) not in (first, changed)


def test_sources_of_any_length_are_read_to_their_end(tmp_path: Path) -> None:
    source = tmp_path / "long.py"
    found = set()
    for length in ((1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1 << 17):
        for last in ("a", "b"):
            source.write_text("#" * (length - 1) + last)
            found.add(file_contents.of_sources(str(tmp_path)))
    assert len(found) == 8


def test_libraries_have_the_id_of_their_build(tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere.so"
    shutil.copyfile(_C.__file__, copied)
    os.utime(copied, (1, 1))
    name = file_contents.of_file(str(copied))
    assert name == file_contents.of_file(_C.__file__)
    assert len(name.split()[1]) == 40, "the library is linked with --build-id=sha1"


@pytest.mark.parametrize("start", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 200, b"text"])
def test_other_files_have_a_hash(tmp_path: Path, start: bytes) -> None:
    """Also what begins like a library and is none."""
    file = tmp_path / "file"
    file.write_bytes(start)
    first = file_contents.of_file(str(file))
    file.write_bytes(start + b"more")
    assert file_contents.of_file(str(file)) != first


def test_extensions_of_users_are_known_by_what_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times decide nothing, and neither do folders; what is in the files does."""
    monkeypatch.setattr(sys, "modules", {})
    found = []
    for folder, content, time in (("a", b"one", 1), ("z", b"one", 2), ("c", b"two", 1)):
        (tmp_path / folder).mkdir()
        for name in ("first.so", "second.so"):
            (tmp_path / folder / name).write_bytes(content)
            os.utime(tmp_path / folder / name, (time, time))
        files = {str(tmp_path / folder / name) for name in ("first.so", "second.so")}
        monkeypatch.setattr(torch.ops, "loaded_libraries", files)
        found.append(definitions._loaded_libraries())
    assert found[0] == found[1] != found[2]
