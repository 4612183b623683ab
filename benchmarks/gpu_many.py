#!/usr/bin/env python3
"""All cases of the GPU suites in minutes: processes compile side by side, and then take turns on the device.

    python benchmarks/gpu_many.py OUT.json [--suites gpu_physics,...] [--only PART,...] [--jobs 12]

A case is timed only while no other process computes anything, its backends in alternating rounds. Each line has the
microseconds of a call and the ratio of the fastest other backend to tile.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import math
import multiprocessing
import queue
import statistics
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suites import GPU_PROGRAMS

# Longer than any process compiles its share; then the others go on without it.
PATIENCE_SECONDS = 420


def cases_of(suites: list[str], only: list[str]) -> list[tuple[str, int]]:
    found = []
    for suite in suites:
        for number, case in enumerate(importlib.import_module(f"suites.{suite}").CASES):
            if not only or any(part in case.name for part in only):
                found.append((suite, number))
    return found


def compile_case(suite: str, number: int, backends: list[str]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The case, its compiled functions, and what became of the first calls."""
    import torch
    from backends import compiled
    from harness import failure
    from reference import flatten, in_double
    from suites.gpu_kernels import first_call

    case = importlib.import_module(f"suites.{suite}").CASES[number]
    record: dict[str, Any] = {"suite": suite, "case": case.name, "notes": {}, "first_call": {}, "error": {}}
    functions = {}
    torch.manual_seed(0)
    arguments = case.make()
    with torch.no_grad():
        expected = [t.detach() for t in flatten(case.call(case.function, in_double(arguments)))]
        for backend in backends:
            function = compiled(case.function, backend, dynamic=False)
            try:
                seconds, result, note = first_call(case, function, backend, arguments, expected)
            except Exception as error:  # the other backends go on
                record["notes"][backend] = failure(error)
                continue
            record["first_call"][backend] = seconds
            if note:
                record["notes"][backend] = note
            record["error"][backend] = largest_error(result, expected)
            functions[backend] = function
    torch.cuda.empty_cache()
    return case, functions, record


def largest_error(result: Any, expected: Any) -> float:
    """Of floating-point results, as a share of the largest expected element of each."""
    errors = [
        ((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30)).item()
        for a, b in zip(result, expected, strict=False)
        if a.is_floating_point() and a.numel() and a.shape == b.shape
    ]
    return max(errors, default=0.0)


def time_case(case: Any, functions: dict[str, Any], record: dict[str, Any]) -> None:
    import torch
    from suites.gpu_kernels import in_rounds

    torch.manual_seed(0)
    arguments = case.make()
    calls = {backend: functools.partial(case.call, function, arguments) for backend, function in functions.items()}
    with torch.no_grad():
        times = in_rounds(calls, seconds=0.06)
    record["us"] = {backend: statistics.median(seconds) * 1e6 for backend, seconds in times.items()}
    del arguments, calls
    torch.cuda.empty_cache()


def work(job: list[tuple[str, int]], backends: list[str], compiled: Any, turn: Any, results: Any) -> None:
    import torch

    torch._dynamo.config.cache_size_limit = 1000
    prepared = []
    for suite, number in job:
        try:
            prepared.append(compile_case(suite, number, backends))
        except Exception as error:  # of the case itself
            results.put({"suite": suite, "case": str(number), "notes": {"case": str(error)[:300]}})
    with contextlib.suppress(threading.BrokenBarrierError):
        compiled.wait(PATIENCE_SECONDS)
    with turn:
        for case, functions, record in prepared:
            try:
                time_case(case, functions, record)
            except Exception as error:
                record["notes"]["timing"] = str(error)[:300]
            results.put(record)
    results.put(None)


def show(record: dict[str, Any]) -> float:
    us = record.get("us", {})
    others = {b: t for b, t in us.items() if b not in ("tile", "eager")}
    ratio = min(others.values()) / us["tile"] if others and "tile" in us else math.nan
    times = "  ".join(f"{backend} {t:8.1f}" for backend, t in us.items())
    notes = "  ".join(f"{b}: {note}" for b, note in record["notes"].items())
    errors = record.get("error", {})
    ours, theirs = errors.get("tile", 0.0), errors.get("eager", math.nan)
    far = f"  error {ours:.1e}, eager's {theirs:.1e}" if ours > 2 * theirs and ours > 1e-6 else ""
    print(f"{ratio:5.2f}  {record['case']:44s} {times}  {notes}{far}", flush=True)
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--suites", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--backends", default="tile,inductor,eager")
    options = parser.parse_args()
    suites = options.suites.split(",") if options.suites else GPU_PROGRAMS
    cases = cases_of(suites, [part for part in options.only.split(",") if part])
    context = multiprocessing.get_context("spawn")
    jobs = min(options.jobs, len(cases))
    compiled, turn, results = context.Barrier(jobs), context.Lock(), context.Queue()
    backends = options.backends.split(",")
    workers = [
        context.Process(target=work, args=(cases[k::jobs], backends, compiled, turn, results), daemon=True)
        for k in range(jobs)
    ]
    for worker in workers:
        worker.start()
    records, done = [], 0
    while done < jobs and any(worker.is_alive() for worker in workers):
        try:
            record = results.get(timeout=5)
        except queue.Empty:
            continue
        if record is None:
            done += 1
            continue
        records.append(record)
        Path(options.out).write_text(json.dumps(records, indent=1))
    ratios = [ratio for r in sorted(records, key=lambda r: r["suite"]) if not math.isnan(ratio := show(r))]
    if ratios:
        mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
        below = sum(r < 0.9 for r in ratios)
        print(f"{len(ratios)} cases: geometric mean {mean:.2f}, worst {min(ratios):.2f}, {below} below 0.9")


if __name__ == "__main__":
    main()
