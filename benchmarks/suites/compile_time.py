"""First calls in fresh processes: with empty caches, with a warm toolchain, with full caches.

`toolchain` is a new kernel where another one has been compiled: Inductor finds the headers that it precompiles, and
what it asked of the C++ compiler.

Each number is one process: it imports torch, makes the model and its inputs (not counted), then times the first call
from torch.compile to the result, backward and its lazy compilation included. `aot_eager` is the floor: Dynamo and
AOTAutograd without a compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASES = ["one kernel", "bert inference", "gpt2 training"]
ANOTHER = "another kernel"
STATES = ["cold", "toolchain", "warm"]
PROCESSES = 5


def prepare(case: str) -> tuple[Any, Callable[[Any], Any]]:
    """What is compiled, and the call that is timed."""
    import torch

    from tests.models import zoo

    if case == "one kernel":
        x, y = torch.randn(256, 256), torch.randn(256)
        return lambda x, y: torch.relu(x + y) * 2, lambda function: function(x, y)
    if case == ANOTHER:
        x = torch.randn(128, 64)
        return lambda x: (x * x).sum(-1).sqrt(), lambda function: function(x)
    if case == "bert inference":
        entry = zoo.BY_NAME["bert"]
        inputs = entry.inference_inputs()

        def infer(function: Any) -> None:
            with torch.no_grad():
                function(**inputs)

        return entry.build().eval(), infer
    if case == "gpt2 training":
        entry = zoo.BY_NAME["gpt2"]
        inputs = entry.inputs()
        return entry.build().train(), lambda function: function(**inputs).loss.backward()
    raise ValueError(f"case expected to be one of {', '.join(CASES)}, got {case}")


def child(case: str, backend: str) -> None:
    """One measured process; prints its times as JSON on the last line."""
    start = time.perf_counter()
    import torch  # noqa: F401  its import is counted apart

    imported = time.perf_counter()
    target, call = prepare(case)
    prepared = time.perf_counter()
    from backends import compiled, enter

    enter(backend)
    call(compiled(target, backend))
    first = time.perf_counter()
    print(json.dumps({"import": imported - start, "prepare": prepared - imported, "first_call": first - prepared}))


def measure(case: str, backend: str, cache: str) -> float:
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TORCH_TILE_CACHE_DIR": f"{cache}/tile",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, __file__, case, backend],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1][:160])
    return float(json.loads(done.stdout.splitlines()[-1])["first_call"])


def run(options: Any) -> list[Any]:
    from harness import Row, fill

    backends = [b for b in options.backends if b != "eager"]
    if "aot_eager" not in backends:
        backends.append("aot_eager")
    rows = []
    for case in CASES:
        if not options.selects(case):
            continue
        seconds: dict[tuple[str, str], list[float]] = {(b, state): [] for b in backends for state in STATES}
        notes: dict[str, str] = {}
        for i in range(min(options.rounds, PROCESSES) + 1):
            for backend in backends[i % len(backends) :] + backends[: i % len(backends)]:
                if backend in notes:
                    continue
                try:
                    measured = measure_states(case, backend)
                except RuntimeError as error:
                    notes[backend] = str(error)
                    continue
                if i > 0:  # the first round only brings files into memory
                    for state in STATES:
                        seconds[backend, state].append(measured[state])
        for state in STATES:
            block = []
            for backend in backends:
                row = Row("compile_time", f"{case}, {state}", backend, note=notes.get(backend, ""))
                if seconds[backend, state]:
                    fill(row, seconds[backend, state])
                block.append(row)
            rows += options.report(block)
    return rows


def measure_states(case: str, backend: str) -> dict[str, float]:
    """Seconds of one first call in each state, each in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        cold = measure(case, backend, cache)
        warm = measure(case, backend, cache)
    with tempfile.TemporaryDirectory() as cache:
        measure(ANOTHER, backend, cache)
        return {"cold": cold, "warm": warm, "toolchain": measure(case, backend, cache)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="one measured process of the suite compile_time")
    parser.add_argument("case", choices=[*CASES, ANOTHER])
    parser.add_argument("backend")
    arguments = parser.parse_args()
    child(arguments.case, arguments.backend)
