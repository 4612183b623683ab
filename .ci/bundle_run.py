#!/usr/bin/env python3
"""Builds torch_tile._C against the torch of this Python and runs something with it.

    python run.py build
    python run.py test [arguments of pytest]         default: -m gpu
    python run.py bench [arguments of benchmarks/run.py]
    python run.py python FILE|-c CODE|-m MODULE ...

Needs torch 2.11 or newer, Python 3.10 or newer with its headers, and g++ 11 or newer (CXX names another compiler).
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.machinery
import lzma
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "torch_tile"
VERSION = (PACKAGE / "__init__.py").read_text().split('__version__ = "')[1].split('"')[0]
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


def unpack_compiler() -> None:
    packed, library = ROOT / "libtorch_tile_compiler.so.xz", PACKAGE / "libtorch_tile_compiler.so"
    if library.exists() and library.stat().st_mtime >= packed.stat().st_mtime:
        return
    partial = library.with_suffix(".partial")
    with lzma.open(packed) as source, partial.open("wb") as target:
        shutil.copyfileobj(source, target)
    partial.replace(library)


def register_backend() -> None:
    """What an installed package has: the entry point through which torch finds the backend."""
    folder = ROOT / f"torch_tile-{VERSION}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch-tile\nVersion: {VERSION}\n")
    (folder / "entry_points.txt").write_text("[torch_dynamo_backends]\ntile = torch_tile.backend:tile\n")


def runs_in_python(path: Path) -> bool:
    """Whether CMake makes a source part of the Python module alone."""
    text = (path.parent / "CMakeLists.txt").read_text() if (path.parent / "CMakeLists.txt").exists() else ""
    return any(path.name in files.split() for files in re.findall(r"target_sources\(_C PRIVATE([^)]*)\)", text))


def build_extension() -> None:
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 11):
        sys.exit(f"torch 2.11 or newer expected, got {torch.__version__}")
    library = PACKAGE / f"_C{SUFFIX}"
    extension = sorted(p for part in ("runtime", "support", "artifact") for p in (ROOT / "csrc" / part).rglob("*.cpp"))
    # The part of the runner that calls operators: what knows neither Python nor FX, and its own files.
    runner = [ROOT / "csrc/runner/torch/TorchEngine.cpp", ROOT / "csrc/runner/DlType.cpp"]
    shared = [path for path in extension if not runs_in_python(path)]
    sources = [*extension, *runner]
    headers = sorted((ROOT / "csrc").rglob("*.h"))
    torch_folder = Path(torch.__file__).parent
    flags = [
        "-std=c++20", "-O2", "-fPIC", "-fopenmp", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
        "-DTORCH_TILE_HAS_FX", f'-DTORCH_TILE_VERSION="{VERSION}"',
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc/runner/include'}", f"-I{sysconfig.get_paths()['include']}",
        f"-isystem{torch_folder / 'include'}", f"-isystem{torch_folder / 'include/torch/csrc/api/include'}",
    ]  # fmt: skip
    compiler = os.environ.get("CXX", "g++")
    digest = hashlib.sha256(repr((compiler, flags, torch.__version__, sys.version)).encode())
    for path in [*sources, *headers]:
        digest.update(path.read_bytes())
    stamp = library.with_suffix(".stamp")
    if library.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    start = time.perf_counter()
    objects = ROOT / "build"
    objects.mkdir(exist_ok=True)

    def compile_one(source: Path) -> str:
        target = str(objects / (str(source.relative_to(ROOT)).replace("/", "-") + ".o"))
        done = subprocess.run([compiler, *flags, "-c", str(source), "-o", target], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{source}: {done.stderr[-3000:]}")
        return target

    jobs = int(os.environ.get("JOBS", os.cpu_count() or 1))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        objects_of = dict(zip(sources, pool.map(compile_one, sources), strict=True))
    # The C++ library that torch has loaded, before any archive of it that the compiler would rather take: two in
    # one process disagree about locales.
    maps = Path("/proc/self/maps").read_text().split() if Path("/proc/self/maps").exists() else []
    standard = [path for path in dict.fromkeys(maps) if "/libstdc++.so" in path]
    lib = torch_folder / "lib"

    def link(target: Path, paths: list[Path], torch_libraries: list[str]) -> None:
        files = [objects_of[path] for path in paths]
        libraries = [*standard, *(str(lib / f"lib{name}.so") for name in torch_libraries)]
        command = [
            compiler, "-shared", "-o", str(target), *files, *libraries,
            "-ldl", f"-Wl,-rpath,{lib}", "-Wl,--gc-sections",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-3000:])

    link(library, extension, ["c10", "torch_cpu", "torch", "torch_python"])
    link(PACKAGE / "libtorch_tile_runtime_torch.so", [*shared, *runner], ["c10", "torch_cpu", "torch"])
    # What the import compares with the torch that it finds.
    (PACKAGE / "_build.py").write_text(f'TORCH = "{torch.__version__}"\n')
    stamp.write_text(digest.hexdigest())
    print(f"built torch_tile._C for torch {torch.__version__} in {time.perf_counter() - start:.1f} s", flush=True)


def main() -> int:
    action, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("test", [])
    commands = {
        "build": ["-c", "import torch_tile._C"],
        "test": ["-m", "pytest", "-q", *(rest or ["-m", "gpu"])],
        "bench": [str(ROOT / "benchmarks" / "run.py"), *rest],
        "python": rest,
    }
    if action not in commands:
        sys.exit(__doc__)
    unpack_compiler()
    register_backend()
    build_extension()
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *commands[action]], cwd=ROOT, env={**os.environ, "PYTHONPATH": path}
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
