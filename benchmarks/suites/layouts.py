"""Programs over random shapes and layouts: reductions, norms, copies and pointwise work that nobody chose.

A program is drawn from its number alone (`--seed FIRST --programs N` of this file, or the suite `layouts` of run.py),
so a figure can be repeated. On a CUDA device a tensor has 2^26 elements, on the CPU 2^21.

    python benchmarks/suites/layouts.py --seed 1000 --programs 200 --backend tile,inductor,eager --json out.json

`--jobs 14` first compiles what Inductor caches in so many processes, so that the measuring one does not wait for it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import harness
import torch
import torch.nn.functional as F
from backends import compiled, enter
from reference import differs, flatten

Dims = list[int]

SHORT = [2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 49, 64]
MIDDLE = [96, 127, 128, 197, 256, 300, 512, 768, 1000, 1024, 3 * 257]


@dataclasses.dataclass(frozen=True)
class Layout:
    """A dense tensor of `stored` sizes, permuted by `order`, then sliced."""

    stored: tuple[int, ...]
    order: tuple[int, ...]
    slices: tuple[tuple[int, int], ...]
    dtype: torch.dtype

    def make(self, device: str) -> torch.Tensor:
        x = torch.randn(self.stored, device=device, dtype=torch.float32).to(self.dtype).permute(self.order)
        for dim, (begin, end) in enumerate(self.slices):
            x = x.narrow(dim, begin, end - begin)
        return x

    def __str__(self) -> str:
        shape = [end - begin for begin, end in self.slices]
        strides = [math.prod(self.stored[d + 1 :]) for d in self.order]
        return f"{'bf16' if self.dtype == torch.bfloat16 else 'f32'} {'x'.join(map(str, shape))} strides {strides}"


@dataclasses.dataclass(frozen=True)
class Program:
    number: int
    name: str
    function: Callable[[torch.Tensor], Any]
    layout: Layout
    is_exact: bool = False  # bits are eager's

    def __str__(self) -> str:
        return f"{self.number} {self.name} of {self.layout}"


def draw_layout(rng: random.Random, elements: int) -> Layout:
    rank = rng.randint(2, 5)
    sizes = [1] * rank
    left = elements
    for k in range(rank - 1):
        sizes[k] = rng.choice(SHORT if rng.random() < 0.6 else MIDDLE)
        while sizes[k] * 2 > left:
            sizes[k] = max(1, sizes[k] // 2)
        left //= sizes[k]
    sizes[-1] = max(left, 1)
    rng.shuffle(sizes)
    order = list(range(rank))
    if rng.random() < 0.75:
        rng.shuffle(order)
    shape = [sizes[d] for d in order]
    slices = [(0, size) for size in shape]
    if rng.random() < 0.3:
        dim = max(range(rank), key=lambda d: shape[d]) if rng.random() < 0.5 else rng.randrange(rank)
        if shape[dim] > 2:
            begin, end = rng.randint(0, 1), shape[dim] - rng.randint(0, 1)
            slices[dim] = (begin, end)
    dtype = torch.bfloat16 if rng.random() < 0.5 else torch.float32
    return Layout(tuple(sizes), tuple(order), tuple(slices), dtype)


def _norm(dims: Dims) -> Callable[[torch.Tensor], torch.Tensor]:
    def norm(x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        mean = wide.mean(dims, keepdim=True)
        variance = wide.var(dims, keepdim=True, correction=0)
        return ((wide - mean) * torch.rsqrt(variance + 1e-5)).to(x.dtype)

    return norm


def draw(number: int, elements: int) -> Program:
    """Program `number`; `elements` is about how many its tensor has."""
    rng = random.Random(number)
    layout = draw_layout(rng, elements)
    rank = len(layout.order)
    dims = sorted(rng.sample(range(rank), rng.randint(1, max(1, rank - 1))))
    dim = dims[0]
    order = rng.sample(range(rank), rank)
    shift = [rng.randint(1, 3) for _ in dims]
    programs: dict[str, tuple[Callable[[torch.Tensor], Any], bool]] = {
        f"sum {dims}": (lambda x: x.float().sum(dims), False),
        f"mean {dims}": (lambda x: x.mean(dims), False),
        f"variance {dims}": (lambda x: x.float().var(dims), False),
        f"norm {dims}": (_norm(dims), False),
        f"softmax {dim}": (lambda x: torch.softmax(x, dim), False),
        f"log-sum-exp {dims}": (lambda x: torch.logsumexp(x.float(), dims), False),
        f"argmax {dim}": (lambda x: x.argmax(dim), True),
        f"compare with maximum {dims}": (lambda x: x == x.amax(dims, keepdim=True), True),
        f"permuted copy {order}": (lambda x: x.permute(order).contiguous(), True),
        f"flip {dims}": (lambda x: x.flip(dims) * 2, True),
        f"roll {dims}": (lambda x: x.roll(shift, dims) * 2, True),
        f"cat {dim}": (lambda x: torch.cat([x.narrow(dim, 0, x.shape[dim] // 2), x], dim), True),
        "gelu": (lambda x: F.gelu(x), False),
    }
    name = rng.choice(list(programs))
    function, is_exact = programs[name]
    return Program(number, name, function, layout, is_exact)


def seconds_of(calls: dict[str, Callable[[], Any]], device: str) -> dict[str, float]:
    """Median times of calls that take turns: between events on a device, where what the host does meanwhile does not
    count, and by rounds on the CPU."""
    if device == "cuda":
        from suites.gpu_kernels import in_rounds

        times = in_rounds(calls, seconds=0.06, rounds=3, is_cold=True)
    else:
        times = harness.time_rounds(calls, rounds=3, round_seconds=0.02)
    return {backend: statistics.median(each) for backend, each in times.items()}


def measure(program: Program, backends: list[str], device: str, dynamic: bool = False) -> dict[str, Any]:
    """Seconds by backend, least bytes moved, and what was wrong."""
    torch.compiler.reset()
    torch.manual_seed(program.number)
    x = program.layout.make(device)
    expected = program.function(x.double())
    row: dict[str, Any] = {"program": str(program), "notes": {}, "seconds": {}, "first_call": {}}
    row["bytes"] = x.numel() * x.element_size() + sum(r.nbytes for r in flatten(program.function(x)))
    calls = {}
    for backend in backends:
        function = compiled(program.function, backend, dynamic=dynamic)
        enter(backend)
        start = time.perf_counter()
        try:
            result = function(x)
        except Exception as error:  # the others go on
            row["notes"][backend] = harness.failure(error)
            continue
        row["first_call"][backend] = time.perf_counter() - start
        tolerance = 0.0 if program.is_exact else 2e-2 if x.dtype == torch.bfloat16 else 1e-3
        if note := differs(result, expected, tolerance, tolerance):
            row["notes"][backend] = note
        else:
            calls[backend] = lambda function=function: function(x)
        del result
    del expected
    row["seconds"] = seconds_of(calls, device)
    return row


def summary(rows: list[dict[str, Any]], other: str) -> str:
    ratios = [r["seconds"][other] / r["seconds"]["tile"] for r in rows if {"tile", other} <= r["seconds"].keys()]
    if not ratios:
        return f"no program ran on tile and {other}"
    low, slow = (sum(r < bound for r in ratios) for bound in (0.7, 0.9))
    return (
        f"{len(ratios)} programs, times faster than {other}: geometric mean {harness.geometric_mean(ratios):.2f}, "
        f"median {statistics.median(ratios):.2f}, worst {min(ratios):.2f}, {low} below 0.7, {slow} below 0.9, "
        f"{sum(r < 0.5 for r in ratios)} below 0.5"
    )


def worst(rows: list[dict[str, Any]], other: str, count: int = 10) -> list[str]:
    """The programs that are slowest beside another backend, with their times in us and the least that memory takes."""
    ratios = {
        r["program"]: r["seconds"][other] / r["seconds"]["tile"] for r in rows if {"tile", other} <= r["seconds"].keys()
    }
    by_name = {r["program"]: r for r in rows}
    return [
        f"{ratios[name]:.2f} "
        + " ".join(f"{b} {s * 1e6:.0f}" for b, s in by_name[name]["seconds"].items())
        + f" us, {by_name[name]['bytes'] / 1e6:.0f} MB: {name}"
        for name in sorted(ratios, key=lambda name: ratios[name])[:count]
    ]


def fill_caches(jobs: int, numbers: list[int], elements: int, dynamic: bool) -> None:
    """Inductor's code of all programs, compiled by several processes; what they find wrong is found again later."""
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
import torch
from suites import layouts
for number in {numbers}[int(sys.argv[1])::{jobs}]:
    program = layouts.draw(number, {elements})
    torch.compiler.reset()
    try:
        x = program.layout.make("cuda" if torch.cuda.is_available() else "cpu")
        layouts.compiled(program.function, "inductor", dynamic={dynamic})(x)
    except Exception:
        pass
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    processes = [subprocess.Popen([*command, str(k)]) for k in range(jobs)]
    for process in processes:
        process.wait()


def run(options: Any) -> list[harness.Row]:
    """The suite of run.py: one row for each of 60 programs."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows: list[harness.Row] = []
    for number in range(60):
        program = draw(number, 1 << 26 if device == "cuda" else 1 << 21)
        if not options.selects(str(program)):
            continue
        found = measure(program, options.backends, device)
        case = [harness.Row("layouts", str(program), b, rounds=1) for b in options.backends]
        for row in case:
            seconds = found["seconds"].get(row.backend, math.nan)
            row.best = row.median = seconds
            row.note, row.least_bytes = found["notes"].get(row.backend, ""), found["bytes"]
        rows += options.report(case)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--backend", default="tile,inductor,eager")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--elements", type=int, default=0)
    parser.add_argument("--kinds", default="", help="of these programs those alone, by the first word: variance,cat")
    parser.add_argument("--jobs", type=int, default=0, help="processes that fill Inductor's caches first")
    parser.add_argument("--dynamic", action="store_true", help="compiled for sizes that change")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    elements = arguments.elements or (1 << 26 if device == "cuda" else 1 << 21)
    backends = arguments.backend.split(",")
    rows, start = [], time.perf_counter()
    numbers = list(range(arguments.seed, arguments.seed + arguments.programs))
    if kinds := arguments.kinds.split(",") if arguments.kinds else []:
        numbers = [number for number in numbers if draw(number, elements).name.split(" ")[0] in kinds]
    if arguments.jobs and "inductor" in backends:
        fill_caches(arguments.jobs, numbers, elements, arguments.dynamic)
    for number in numbers:
        if time.perf_counter() - start > arguments.seconds:
            break
        row = measure(draw(number, elements), backends, device, arguments.dynamic)
        rows.append(row)
        times = " ".join(f"{b} {s * 1e6:.0f}" for b, s in row["seconds"].items())
        print(f"{row['program']}: {times} us, {row['bytes'] / 1e6:.0f} MB {row['notes'] or ''}", flush=True)
        if arguments.json:
            content = {"machine": harness.machine(), "rows": rows}
            arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    for other in [b for b in backends if b != "tile"]:
        print(summary(rows, other))
        print("\n".join(worst(rows, other)))
    return 1 if any(row["notes"].get("tile") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
