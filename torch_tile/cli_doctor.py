"""python -m torch_tile doctor: what is installed, what is there to run on, and what would be slow or fail, and why."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch_tile import config

_FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")


class Findings:
    """Lines for people, and what is wrong or slow, with what to do about it."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.slow: list[str] = []

    def say(self, what: str, text: str) -> None:
        print(f"{what:18}{text}")


def _versions(found: Findings) -> Any:
    from torch_tile import __version__

    found.say("torch-tile", f"{__version__}, in {Path(__file__).parent}")
    found.say("python", f"{sys.version.split()[0]}, {platform.machine()}, {platform.system()} {platform.release()}")
    try:
        import torch
    except Exception as error:
        found.problems.append(f"torch cannot be imported: {error}; install it")
        return None
    try:
        from torch_tile._build import TORCH

        built = f"this torch-tile was built for {TORCH}"
    except ImportError:
        built = (
            "which torch this torch-tile was built for is not known, as the build has written no _build.py: "
            "build it again after an update of torch"
        )
    found.say("torch", f"{torch.__version__}; {built}")
    try:
        from torch_tile import _C
    except Exception as error:
        found.problems.append(f"the extension cannot be imported: {error}")
        return None
    try:
        found.say("compiler library", _named(_C.version()["compiler"]))
    except Exception as error:
        found.problems.append(f"the compiler library cannot be opened: {str(error).splitlines()[0]}")
    try:
        registered = "tile" in torch._dynamo.list_backends(exclude_tags=())
    except Exception as error:
        registered = False
        found.problems.append(f"torch.compile does not work with this Python: {error}")
    if not registered:
        found.problems.append(
            "torch does not know the backend 'tile': the package is on the path but not installed; "
            "run pip install, or pass backend=torch_tile.backend.tile"
        )
    return _C


def _named(version: str) -> str:
    """Library, LLVM and processor, without the features of the processor, which are lines of their own."""
    return ", ".join(line.split()[0] if line.count("+") > 4 else line for line in version.strip().splitlines())


def _processor(found: Findings, has_torch: bool) -> None:
    flags: set[str] = set()
    name = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "flags":
                flags = set(value.split())
                break
            if key.strip() == "model name":
                name = value.strip()
    except OSError:
        pass
    found.say("processor", f"{name}; {' '.join(each for each in _FEATURES if each in flags) or 'features not known'}")
    if flags and "avx2" not in flags:
        found.slow.append("the processor has no AVX2: kernels use vectors of 16 bytes, and library calls are slow too")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not has_torch:
        found.say("threads", f"{available} processors may be used")
        return
    import torch

    threads = torch.get_num_threads()
    given = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ}
    text = f"{threads} run kernels, {available} processors may be used"
    found.say("threads", text + "".join(f", {name}={value}" for name, value in given.items()))
    if threads < available // 2:
        found.slow.append(f"{threads} of {available} processors are used: torch.set_num_threads, or OMP_NUM_THREADS")
    if threads > available:
        found.slow.append(f"{threads} threads share {available} processors: torch.set_num_threads({available})")


def _gpu(found: Findings, extension: Any) -> None:
    import torch

    if not torch.cuda.is_available():
        why = "this torch is built without CUDA" if torch.version.cuda is None else "no device is there"
        found.say("GPU", f"none: {why}")
        if torch.version.cuda is None and Path("/proc/driver/nvidia/version").exists():
            found.slow.append("there is an NVIDIA driver, and this torch is built without CUDA: install one with CUDA")
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        capability = f"{properties.major}.{properties.minor}"
        found.say("GPU", f"{index}: {properties.name}, capability {capability}, {properties.total_memory >> 20} MB")
        if properties.major < 8:
            found.problems.append(
                f"GPU {index} has capability {capability}, kernels need 8.0: graphs run in eager mode"
            )
    driver = "not known"
    with contextlib.suppress(OSError, IndexError):
        driver = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
        driver = driver.partition(":")[2].strip()
    found.say("GPU driver", f"{driver}; torch is built for CUDA {torch.version.cuda}")
    try:
        assembler = extension.assembler()
        found.say("GPU assembler", assembler)
        if assembler == "driver":
            found.slow.append(
                "PTX is assembled by the driver, so no cubins are kept: install nvidia-nvjitlink or ptxas"
            )
    except Exception as error:
        found.problems.append(f"PTX cannot be assembled: {error}")


def _layers(found: Findings) -> None:
    from torch_tile.cli_cache import layer_problems

    for layer in config.resolve().cache_layers():
        found.say("cache layer", layer)
        found.slow += [f"the cache layer {layer} is not used: {problem}" for problem in layer_problems(layer)]


def _cache(found: Findings, extension: Any) -> None:
    folder = config.resolve().cache_dir()
    if folder is None:
        found.say("cache", "off")
        found.slow.append("the disk cache is off: every process compiles anew (option `cache`, TORCH_TILE_CACHE)")
        return
    from torch_tile.cli_cache import entry_summary

    path = Path(folder)
    if not path.exists():
        problem = _unwritable(path)
        found.say("cache", f"{folder}, not there yet")
    else:
        mode = stat.S_IMODE(path.stat().st_mode)
        problem = _unwritable(path)
        text = entry_summary(folder) if extension is not None else ""
        found.say("cache", f"{folder}, mode {mode:04o}{text}")
        if extension is not None:
            for kind, name, _bytes, _used, trouble in extension.cache_entries(folder):
                if trouble and not name:
                    found.slow.append(f"the cache's folder {kind} is not used: {trouble}")
    if problem:
        found.problems.append(f"nothing is kept in the cache, so every process compiles anew: {problem}; "
                          "TORCH_TILE_CACHE_DIR names another folder")  # fmt: skip


_SIZE_OF_AN_ENTRY = 64 << 10


def _unwritable(path: Path) -> str | None:
    """Why no entry could be written into a folder that may be there or not; None where one could."""
    while not path.exists() and path != path.parent:
        path = path.parent
    if not path.is_dir():
        return f"{path} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(_SIZE_OF_AN_ENTRY))  # a full disk may still make empty files
            file.flush()
            return None
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"


def _settings(found: Findings) -> Iterator[str]:
    for name, why in (
        ("debug", "stages are written to disk, and nothing is taken from the cache"),
        ("force_compile", "nothing is taken from the cache"),
        ("poison", "freed buffers are overwritten"),
        ("interpret", "kernels of the tile language run in Python"),
        ("emulate_precision_casts", "values of 16 bits are rounded between operations"),
    ):
        try:
            if config.get(name):
                yield f"option `{name}` is on: {why}"
        except ValueError as error:
            found.problems.append(str(error))
    try:
        if not config.get("fusion"):
            yield "option `fusion` is off: each operation is a kernel"
    except ValueError as error:
        found.problems.append(str(error))


def run(_: argparse.Namespace) -> int:
    """Prints what it finds; 1 where something does not work."""
    found = Findings()
    extension = _versions(found)
    _processor(found, "torch" in sys.modules)
    if extension is not None:
        _gpu(found, extension)
    try:
        _cache(found, extension)
        if extension is not None:
            _layers(found)
    except ValueError as error:
        found.problems.append(str(error))
    found.slow += _settings(found)
    if not found.problems:
        found.problems += _tried()
    for text in found.slow:
        print(f"slow: {text}")
    for text in found.problems:
        print(f"problem: {text}")
    print("no problems" if not found.problems else f"{len(found.problems)} problems")
    return 1 if found.problems else 0


def _tried() -> list[str]:
    """Compiles and runs a kernel."""
    import torch

    try:
        x = torch.arange(33.0)
        result = torch.compile(lambda x: torch.tanh(x) * 2, backend="tile", options={"strict": True})(x)
        torch.testing.assert_close(result, torch.tanh(x) * 2)
    except Exception as error:
        return [f"a first kernel does not run: {type(error).__name__}: {str(error).strip().splitlines()[0]}"]
    return []
