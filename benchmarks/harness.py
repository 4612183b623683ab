"""How a number is taken: warm-up, rounds that alternate between backends, best and median, the machine."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import os
import platform
import statistics
import subprocess
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Case:
    """A thing to time. `make` gives a function and its arguments, anew for each backend, with equal numbers."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], Sequence[Any]]]
    grad: bool = False  # time the backward too
    # Largest deviation from eager that still counts as the same result; None where results are not to be compared.
    rtol: float | None = 1e-3
    atol: float | None = None


@dataclasses.dataclass
class Row:
    """One number: seconds per call of one case on one backend."""

    suite: str
    case: str
    backend: str
    best: float = math.nan
    median: float = math.nan
    spread: float = math.nan  # (third quartile - first quartile) / median
    rounds: int = 0
    first_call: float = math.nan
    note: str = ""  # why there is no number, or why it does not count
    note_info: str = ""  # what else the number says
    least_bytes: int = 0  # that the case must read and write: its arguments once, its results once


def machine() -> dict[str, Any]:
    """What the numbers depend on beside the code."""
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    except OSError:
        pass

    def version(package: str) -> str | None:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "cpu": cpu,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "torch_tile": version("torch-tile"),
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "commit": commit.stdout.strip() or None,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }


def with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy with its own code object: Dynamo's cache is there, so backends do not search each other's entries."""
    if not isinstance(function, types.FunctionType):
        return function
    copy = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def compiled(function: Any, backend: str, **options: Any) -> Any:
    """`function` under a backend of torch.compile; `eager` is the function itself, uncompiled."""
    if backend == "eager":
        return function
    return torch.compile(with_own_code(function), backend=backend, **options)


def with_backward(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Value, and gradients of all arguments that ask for one; only `function` is compiled, as in training."""

    def forward_backward(*arguments: Any) -> tuple[torch.Tensor, ...]:
        needed = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
        out = function(*arguments)
        return (out.detach(), *torch.autograd.grad(out, needed, torch.ones_like(out)))

    return forward_backward


def time_rounds(
    calls: dict[str, Callable[[], Any]], rounds: int = 7, round_seconds: float = 0.1
) -> dict[str, list[float]]:
    """Seconds per call, one number per round: each function runs for about `round_seconds`, and who begins rotates."""
    counts = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        counts[name] = max(1, min(100_000, int(round_seconds / once)))
        _run(call, max(1, counts[name] // 4))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            seconds[name].append(_run(calls[name], counts[name]))
    return seconds


def _run(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def fill(row: Row, seconds: Sequence[float]) -> Row:
    row.best = min(seconds)
    row.median = statistics.median(seconds)
    row.rounds = len(seconds)
    if len(seconds) >= 4:
        first, _, third = statistics.quantiles(seconds, n=4)
        row.spread = (third - first) / row.median
    return row


def flatten(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from flatten(item)


def least_bytes(arguments: Any, versions: Sequence[int], results: Any) -> int:
    """Bytes of the arguments, again of those that were written (whose version changed), and of the results."""
    given = list(flatten(arguments))
    storages = {a.untyped_storage().data_ptr() for a in given}
    total = sum(a.nbytes for a in given)
    total += sum(a.nbytes for a, version in zip(given, versions, strict=True) if a._version != version)
    return total + sum(r.nbytes for r in flatten(results) if r.untyped_storage().data_ptr() not in storages)


def differs(result: Any, expected: Any, rtol: float | None, atol: float | None) -> str:
    """Why two results are not the same, in one line; empty if they are."""
    if rtol is None:
        return ""
    try:
        for a, b in zip(flatten(result), flatten(expected), strict=True):
            torch.testing.assert_close(a, b, rtol=rtol, atol=rtol if atol is None else atol)
    except (AssertionError, ValueError) as error:
        return "wrong result: " + " ".join(str(error).split())[:160]
    return ""


def run_case(suite: str, case: Case, backends: Sequence[str], rounds: int) -> list[Row]:
    """Times one case on all backends, side by side. One that fails or differs from eager has a note and no time."""
    torch.compiler.reset()
    rows, calls = {}, {}
    with torch.set_grad_enabled(case.grad):
        function, arguments = case.make()
        wrap = with_backward if case.grad else lambda f: f
        versions = [a._version for a in flatten(arguments)]
        expected = wrap(function)(*arguments)
        size = least_bytes(arguments, versions, expected)
        for backend in backends:
            row = rows[backend] = Row(suite, case.name, backend, least_bytes=size)
            function, arguments = case.make()
            function = wrap(compiled(function, backend, dynamic=False))
            start = time.perf_counter()
            try:
                result = function(*arguments)
            except Exception as error:  # a benchmark goes on with the other backends
                row.note = f"{type(error).__name__}: {error}".split("\n")[0][:160]
                continue
            row.first_call = time.perf_counter() - start
            row.note = differs(result, expected, case.rtol, case.atol)
            if not row.note:
                calls[backend] = lambda function=function, arguments=arguments: function(*arguments)
        for backend, seconds in time_rounds(calls, rounds).items():
            fill(rows[backend], seconds)
    return list(rows.values())


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def show_time(seconds: float) -> str:
    if math.isnan(seconds):
        return "-"
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
