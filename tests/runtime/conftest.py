"""Runtime tests run against a stand-in for the compiler library, each file in processes of its own where it matters."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch  # noqa: F401  the extension's libraries

from .disk_caches import Cache, add_text

_here = Path(__file__).parent
_root = _here.parents[1]


def find_extension() -> Path:
    """The extension of the installed package, or the one TORCH_TILE_TEST_EXTENSION names."""
    if path := os.environ.get("TORCH_TILE_TEST_EXTENSION"):
        return Path(path)
    return _root / "torch_tile" / ("_C" + str(sysconfig.get_config_var("EXT_SUFFIX")))


def _compile(compiler: str, folder: Path, name: str, sources: list[Path]) -> Path:
    """Compiles once per content; several test processes may do so at once."""
    digest = hashlib.sha256(b"".join(s.read_bytes() for s in sources)).hexdigest()[:16]
    output = folder / f"{name}-{digest}.so"
    if not output.exists():
        temporary = output.with_suffix(f".{os.getpid()}")
        flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=default", f"-I{_root / 'csrc'}"]
        subprocess.run([compiler, *flags, *map(str, sources), "-o", str(temporary)], check=True)
        temporary.rename(output)
    return output


@pytest.fixture(scope="session")
def test_libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The stand-in compiler and the kernels."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if not compiler:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("libraries")
    artifact = [_root / "csrc/artifact" / f for f in ("Serialize.cpp", "Validate.cpp")]
    fake = _compile(compiler, folder, "fake_compiler", [_here / "fake_compiler.cpp", *artifact])
    return fake, _compile(compiler, folder, "test_kernels", [_here / "test_kernels.cpp"])


def load_private_copy(extension: Path, fake_compiler: Path, folder: Path) -> ModuleType:
    """A copy of the extension, so that the process may also hold the real one with the real compiler."""
    copy = folder / extension.name
    if not copy.exists():
        shutil.copy(extension, copy)
    spec = importlib.util.spec_from_file_location("runtime_under_test._C", copy)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.set_compiler_library(str(fake_compiler))
    sys.modules["runtime_under_test._C"] = module
    return module


@pytest.fixture(scope="session")
def runtime(test_libraries: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    extension = find_extension()
    if not extension.exists():
        pytest.skip(f"the extension is not built: {extension}")
    return load_private_copy(extension, test_libraries[0], tmp_path_factory.mktemp("extension"))


@pytest.fixture(scope="session")
def kernel_code(test_libraries: tuple[Path, Path]) -> bytes:
    return test_libraries[1].read_bytes()


@pytest.fixture
def cache(runtime: ModuleType, tmp_path: Path) -> Iterator[Cache]:
    folder = tmp_path / "cache"
    yield Cache(runtime, folder)


@pytest.fixture
def text(kernel_code: bytes) -> str:
    return add_text(kernel_code)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
