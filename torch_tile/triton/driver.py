"""Launching on CPU: what Triton asks of a driver."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from torch_tile import file_contents
from torch_tile.triton.compiler import compiler_options, split_binary


def _is_descriptor(kind: Any) -> bool:
    return isinstance(kind, str) and kind.startswith("tensordesc")


def _decompose(descriptor: Any) -> tuple[Any, ...]:
    """What a tensor descriptor made on the host is to a kernel after Triton has rewritten it."""
    shape, strides = tuple(descriptor.shape), tuple(descriptor.strides)
    rounds = getattr(descriptor, "round_f32_to_tf32", None)
    flags: tuple[Any, ...] = (getattr(descriptor, "padding", "zero") == "nan",)
    if rounds is not None:
        flags += (rounds,)
    return (descriptor.base, *shape, *strides, *flags, *shape, *strides)


def _decompose_all(args: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    result = []
    for arg, kind in zip(args, kinds, strict=False):
        if _is_descriptor(kind):
            result.append(_decompose(arg))
        elif isinstance(kind, tuple):
            result.append(tuple(_decompose_all(arg, kind)))
        else:
            result.append(arg)
    return result


def _plan(kinds: Sequence[Any], args: Sequence[Any]) -> str:
    """How Python's arguments become a kernel's; see runtime/python/KernelLauncher.cpp."""
    text = ""
    for kind, arg in zip(kinds, args, strict=False):
        if isinstance(kind, tuple):
            text += f"({_plan(kind, arg)})"
        elif _is_descriptor(kind):
            text += f"({'a' * len(_decompose(arg))})"
        else:
            text += "-" if kind == "constexpr" else "a"
    return text


def _has_descriptors(kinds: Sequence[Any]) -> bool:
    return any(_has_descriptors(kind) if isinstance(kind, tuple) else _is_descriptor(kind) for kind in kinds)


class CpuLauncher:
    """Runs one compiled kernel; made once, called for every launch."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.kinds = list(src.signature.values())
        self.has_descriptors = _has_descriptors(self.kinds)
        self.launch: Callable[..., None] | None = None

    def _load(self, function: bytes, args: Sequence[Any]) -> Callable[..., None]:
        from torch_tile import _C

        text, kernel = split_binary(function)

        def make_aliased() -> bytes:
            return bytes(_C.compile_kernel(text, compiler_options(distinct_arguments=False)))

        self.launch = _C.make_launcher(kernel, _plan(self.kinds, args), 6, make_aliased)
        return self.launch

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: Any,
        function: bytes,
        packed: Any,
        metadata: Any,
        enter: Any,
        leave: Any,
        *args: Any,
    ) -> None:
        launch = self.launch or self._load(function, args)
        if self.has_descriptors:
            args = tuple(_decompose_all(args, self.kinds))
        launch(grid_x, grid_y, grid_z, None, None, None, metadata, enter, leave, *args)


class CpuUtils:
    """Binaries are bytes until their first launch."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        # Programs that tune for occupancy divide by the number of registers.
        return kernel, kernel, 1, 0, 1 << 30

    def unload_module(self, module: Any) -> None:
        pass

    def get_device_properties(self, device: int) -> dict[str, int]:
        import os

        return {
            "max_shared_mem": 1 << 30,
            "multiprocessor_count": os.cpu_count() or 1,
            "max_num_regs": 1 << 30,
            "warpSize": 1,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
            "sm_clock_rate": 0,
        }


class _Event:
    """A time, as events of GPUs are."""

    def __init__(self, enable_timing: bool = True) -> None:
        self.seconds = 0.0

    def record(self, stream: Any = None) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        return (end.seconds - self.seconds) * 1e3

    def synchronize(self) -> None:
        pass


class CpuInterface:
    """What `triton.testing` uses of torch.cuda."""

    Event = _Event

    @staticmethod
    def synchronize(device: Any = None) -> None:
        pass

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        pass


def do_bench(
    call: Callable[[], Any],
    *,
    quantiles: Sequence[float] | None = None,
    warmup: float = 5,
    rep: float = 30,
    **kwargs: Any,
) -> Any:
    """Milliseconds of a call: medians or quantiles of repeated runs."""
    call()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - begin) * 1e3 < rep:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    if quantiles is None:
        return times[len(times) // 2]
    return [times[min(len(times) - 1, round(q * (len(times) - 1)))] for q in quantiles]


@functools.cache
def installed_triton() -> str:
    """What identifies the installed Triton: its wheel's list of files with their hashes, or what its files hold."""
    import importlib.metadata
    from pathlib import Path

    import triton

    digest = hashlib.sha256(triton.__version__.encode())
    try:
        record = importlib.metadata.distribution("triton").read_text("RECORD") or ""
    except importlib.metadata.PackageNotFoundError:
        record = ""
    # Scripts hold the path of their interpreter, and compiled files the times of their sources.
    listed = sorted(line for line in record.splitlines() if line.startswith("triton/") and ".pyc," not in line)
    if listed:
        digest.update("\n".join(listed).encode())
    else:  # edited in place: the list names none of its files
        folder = Path(triton.__file__).parent
        digest.update(file_contents.of_sources(str(folder)).encode())
        for file in sorted([*folder.rglob("*.so"), *folder.rglob("bin/*")]):
            digest.update(f"{file.relative_to(folder)} {file_contents.of_file(str(file))}\n".encode())
    return f"{triton.__version__}-{digest.hexdigest()}"


def _use_cheap_key() -> None:
    """Triton's key hashes its library of 500 MB in every process, which takes longer than compiling."""
    import triton.runtime.autotuner
    import triton.runtime.cache

    for module in (triton.runtime.cache, triton.runtime.autotuner):
        if hasattr(module, "triton_key"):
            module.triton_key = installed_triton


# Names that people look for in `kernel.asm`, and the compiler's names of these stages.
_STAGES = {"llir": "50-kernel.ll", "asm": "60-kernel.s", "strip-mined": "35-strip-mine.mlir"}


def _offer_stages() -> None:
    """`kernel.asm` makes the stages after the tile dialect when they are asked for: printing them takes longer than
    compiling."""
    import triton.compiler.compiler as compiler

    original = compiler.AsmDict.__missing__

    def missing(self: Any, key: str) -> Any:
        if key not in _STAGES or "tile" not in self:
            return original(self, key)
        from torch_tile import _C

        found: dict[str, str] = {}
        _C.compile_kernel(self["tile"], compiler_options(distinct_arguments=True), found.__setitem__)
        # The number of a kernel may stand in a stage's name.
        self[key] = next(
            text for name, text in found.items() if name == _STAGES[key] or name.endswith(_STAGES[key][3:])
        )
        return self[key]

    compiler.AsmDict.__missing__ = missing


class CpuDriver(DriverBase):  # type: ignore[misc]
    """The driver of the processor; active where no GPU's is."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = CpuUtils()
        self.launcher_cls = CpuLauncher
        _use_cheap_key()
        _offer_stages()

    @staticmethod
    def is_active() -> bool:
        try:
            import torch
        except ImportError:
            return False
        return not (torch.cuda.is_available() or (hasattr(torch, "xpu") and torch.xpu.is_available()))

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError("launchers on CPU are not C++ source")

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", 0, 1)

    def get_current_device(self) -> str:
        return "cpu"  # as torch.cpu.current_device() does; Triton's caches are looked up by it

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return CpuInterface

    def get_benchmarker(self) -> Any:
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1 << 22, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args
