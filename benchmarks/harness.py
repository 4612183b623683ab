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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from backends import compiled, enter
from reference import differs, flatten, in_double, outcome

ROOT = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Case:
    """A thing to time. `make` gives a function and its arguments, anew for each backend, with equal numbers."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], Sequence[Any]]]
    grad: bool = False  # time the backward too
    # Largest deviation from float64 that still counts as the same result.
    rtol: float = 1e-3
    atol: float | None = None
    # Instead of a comparison, where results are random: why a result of these arguments is wrong, or nothing.
    check: Callable[[Sequence[Any], Sequence[torch.Tensor]], str] | None = None


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
        "preload": os.environ.get("LD_PRELOAD") or None,
        "torch": torch.__version__,
        "torch_tile": version("torch-tile"),
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "commit": commit.stdout.strip() or None,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }


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
        enter(name)
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        counts[name] = max(1, min(100_000, int(round_seconds / once)))
        _run(call, max(1, counts[name] // 4))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for i in range(rounds if calls else 0):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            enter(name)
            calls[name]()  # memory that another backend has given back is taken again
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


def least_bytes(arguments: Any, versions: Sequence[int], results: Any) -> int:
    """Bytes of the arguments, again of those that were written (whose version changed), and of the results."""
    given = list(flatten(arguments))
    storages = {a.untyped_storage().data_ptr() for a in given}
    total = sum(a.nbytes for a in given)
    total += sum(a.nbytes for a, version in zip(given, versions, strict=True) if a._version != version)
    return total + sum(r.nbytes for r in flatten(results) if r.untyped_storage().data_ptr() not in storages)


def failure(error: Exception) -> str:
    """For a note."""
    return f"{type(error).__name__}: {error}".split("\n")[0][:160]


def run_case(suite: str, case: Case, backends: Sequence[str], rounds: int) -> list[Row]:
    """Times one case on all backends, side by side. One that fails or differs from float64 has a note and no time."""
    torch.compiler.reset()
    rows, calls = {}, {}
    with torch.set_grad_enabled(case.grad):
        function, arguments = case.make()
        wrap = with_backward if case.grad else lambda f: f
        versions = [a._version for a in flatten(arguments)]
        size = least_bytes(arguments, versions, wrap(function)(*arguments))
        function, arguments = case.make()
        expected, written = outcome(wrap(function), in_double(arguments))
        for backend in backends:
            row = rows[backend] = Row(suite, case.name, backend, least_bytes=size)
            function, arguments = case.make()
            function = wrap(compiled(function, backend, dynamic=False))
            enter(backend)
            start = time.perf_counter()
            try:
                result, _ = outcome(function, arguments, written)
            except Exception as error:  # a benchmark goes on with the other backends
                row.note = failure(error)
                continue
            row.first_call = time.perf_counter() - start
            row.note = case.check(arguments, result) if case.check else differs(result, expected, case.rtol, case.atol)
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
