"""What `make demo` runs: five models with random weights through the backend `tile`, beside eager and Inductor.

Every disk cache starts empty in a temporary folder, so compile times are those of a first use; the last part repeats
the first training step in a new process that finds the caches full.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import harness  # noqa: E402
import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

from tests.models import zoo  # noqa: E402

STEPS = 20
LENGTH = 64  # tokens, or pixels along an edge for ViT; ConvNet keeps its own
BUDGET = 300.0  # seconds for everything; Inductor is left out of what would not fit
SHOWN = [0, 3, 7, 11, 15, 19]  # after the first, always the same batch

console = Console(width=max(130, Console().width), highlight=False)
started = time.perf_counter()


def batches(entry: zoo.Entry, count: int) -> list[zoo.Batch]:
    length = LENGTH if entry.has_sequence else None
    return [entry.inputs(seed=(i + 1) % 4, length=length) for i in range(count)]


def fresh() -> None:
    torch.compiler.reset()
    counters.clear()
    if own := own_counters():
        own.clear()


def own_counters() -> Any:
    """The backend's counters, once it has been used."""
    return getattr(sys.modules.get("torch_tile"), "counters", None)


def counted(name: str) -> str:
    """One of the backend's counts since `fresh`; a dash for another backend."""
    counts = own_counters().snapshot() if own_counters() else {}
    return f"{counts.get(name, 0):.0f}" if counts else "-"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    result, expected = result.double(), expected.double()
    return ((result - expected).norm() / expected.norm()).item()


class Demo:
    def __init__(self, entries: list[zoo.Entry], backends: list[str]) -> None:
        self.entries = entries
        self.ours, *self.others = backends
        self.failures: list[str] = []
        self.cold: dict[tuple[str, str], float] = {}  # seconds of the first training step, by backend and model

    def backends(self, share: float) -> list[str]:
        """Ours, and the others while less than this share of the time is used."""
        if time.perf_counter() - started < share * BUDGET:
            return [self.ours, *self.others]
        return [self.ours]

    def check(self, holds: bool, what: str) -> str:
        """A mark for the table; what does not hold is named at the end, and in the exit status."""
        if not holds:
            self.failures.append(what)
        return "" if holds else " [red](!)[/red]"

    def training(self) -> None:
        names = [self.ours, *self.others]
        curves = Table(
            "model", "loss at step", *(str(i + 1) for i in SHOWN), "largest relative difference", title="Losses"
        )
        times = Table(
            "model", title=f"Training: {STEPS} AdamW steps; first step with compilation, then the median step"
        )
        for name in names:
            times.add_column(f"{name}\nfirst step s", justify="right")
        for name in ["eager", *names]:
            times.add_column(f"{name}\nstep ms", justify="right")
        for title in ("kernels", "extern calls", "graph breaks"):
            times.add_column(title, justify="right")
        for entry in self.entries:
            data = batches(entry, STEPS)
            original = entry.build().train()
            eager = copy.deepcopy(original)
            runs = {"eager": zoo.train(eager, eager, data)}
            counts: list[str] = []
            for name in self.backends(0.55):
                fresh()
                model = copy.deepcopy(original)
                runs[name] = zoo.train(model, torch.compile(model, backend=name, dynamic=False), data)
                self.cold[name, entry.name] = runs[name].seconds[0]
                if name == self.ours:
                    breaks = sum(counters["graph_break"].values())
                    counts = [counted("kernels"), counted("externs"), str(breaks)]
                    self.check(counted("fallbacks") in "-0", f"{entry.name}: graphs ran in eager mode")
            for name, run in runs.items():
                difference = max(abs(a - b) / abs(b) for a, b in zip(run.losses, runs["eager"].losses, strict=True))
                mark = self.check(
                    name != self.ours or difference < 1e-2, f"{entry.name}: losses differ by {difference:.1e}"
                )
                row = ["" if name == "eager" else f"{difference:.1e}{mark}"]
                curves.add_row(
                    entry.name if name == "eager" else "", name, *(f"{run.losses[i]:.5f}" for i in SHOWN), *row
                )
            curves.add_section()
            steps = {name: milliseconds(statistics.median(run.seconds[2:])) for name, run in runs.items()}
            first = [f"{runs[name].seconds[0]:.2f}" if name in runs else "-" for name in names]
            times.add_row(entry.name, *first, *(steps.get(name, "-") for name in ["eager", *names]), *counts)
            console.print(f"[dim]trained {entry.name}: {', '.join(runs)}[/dim]")
        console.print(curves, times)

    def inference(self) -> None:
        names = [self.ours, *self.others]
        table = Table(
            "model",
            "dtype",
            title="Inference: first call with compilation, then the median call; error is relative to eager",
        )
        for name in names:
            table.add_column(f"{name}\nfirst call s", justify="right")
        for name in ["eager", *names]:
            table.add_column(f"{name}\ncall ms", justify="right")
        for title in ("error", "kernels", "extern calls"):
            table.add_column(title, justify="right")
        for entry in self.entries:
            for dtype in (torch.float32, torch.bfloat16):
                inputs = batches(entry, 1)[0]
                del inputs["labels"]
                model, inputs = zoo.cast(entry.build().eval(), inputs, dtype)
                calls = {"eager": self.call(model, inputs)}
                expected = calls["eager"]()
                first: dict[str, float] = {}
                row: list[str] = []
                for name in self.backends(0.75) if dtype is torch.float32 else [self.ours]:
                    fresh()
                    call = self.call(torch.compile(model, backend=name, dynamic=False), inputs)
                    start = time.perf_counter()
                    result = call()
                    first[name] = time.perf_counter() - start
                    calls[name] = call
                    if name == self.ours:
                        error = relative_error(result, expected)
                        limit = 1e-4 if dtype is torch.float32 else 3e-2
                        mark = self.check(error < limit, f"{entry.name} {dtype}: error {error:.1e}")
                        row = [f"{error:.1e}{mark}", counted("kernels"), counted("externs")]
                rounds = harness.time_rounds(calls, rounds=5, round_seconds=0.05)
                seconds = {name: milliseconds(statistics.median(times)) for name, times in rounds.items()}
                table.add_row(
                    entry.name if dtype is torch.float32 else "",
                    str(dtype).removeprefix("torch."),
                    *(f"{first[name]:.2f}" if name in first else "-" for name in names),
                    *(seconds.get(name, "-") for name in ["eager", *names]),
                    *row,
                )
        console.print(table)

    @staticmethod
    def call(function: Callable[..., Any], inputs: zoo.Batch) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            with torch.no_grad():
                return function(**inputs).logits

        return run

    def dynamic_sizes(self) -> None:
        """One compilation serves every batch size and sequence length."""
        entry = zoo.BY_NAME["gpt2"]
        model = entry.build().eval()
        fresh()
        function = torch.compile(model, backend=self.ours, dynamic=True)
        table = Table(
            "batch",
            "length",
            "call ms",
            "error",
            "graphs so far",
            title=f"Dynamic batch and sequence length ({entry.name})",
        )
        for batch, length in [(4, 64), (2, 48), (7, 33), (3, 100)]:
            inputs = entry.inference_inputs(batch=batch, length=length)
            expected = self.call(model, inputs)()
            start = time.perf_counter()
            result = self.call(function, inputs)()
            seconds = time.perf_counter() - start
            error, graphs = relative_error(result, expected), counters["stats"]["unique_graphs"]
            mark = self.check(error < 1e-4 and graphs == 1, f"dynamic sizes: error {error:.1e}, {graphs} graphs")
            table.add_row(str(batch), str(length), milliseconds(seconds), f"{error:.1e}{mark}", str(graphs))
        console.print(table)

    def decode(self) -> None:
        """One token against a static KV cache, which the graph updates in place."""
        model, inputs, filled_cache = zoo.decode_state()
        table = Table(
            "", "first call s", "call ms", "error", "kernels", "extern calls", title="One KV-cache decode step (llama)"
        )
        steps = 8
        expected_cache = filled_cache()
        with torch.no_grad():
            expected = [model(**inputs, past_key_values=expected_cache, use_cache=True).logits for _ in range(steps)]
            for name in [self.ours, *(b for b in self.others if b in self.backends(0.9))]:
                fresh()
                function, cache = torch.compile(model, backend=name, dynamic=False), filled_cache()
                results, seconds = [], []
                for _ in range(steps):
                    start = time.perf_counter()
                    results.append(function(**inputs, past_key_values=cache, use_cache=True).logits)
                    seconds.append(time.perf_counter() - start)
                pairs = zip(
                    [*results, *zoo.cache_tensors(cache)], [*expected, *zoo.cache_tensors(expected_cache)], strict=True
                )
                error = max(relative_error(result, expect) for result, expect in pairs)
                mark = self.check(name != self.ours or error < 1e-4, f"decode step: error {error:.1e}")
                counts = [counted("kernels"), counted("externs")] if name == self.ours else ["-", "-"]
                median = milliseconds(statistics.median(seconds[1:]))
                table.add_row(name, f"{seconds[0]:.2f}", median, f"{error:.1e}{mark}", *counts)
        console.print(table)

    def warm_start(self) -> None:
        """The first training steps again, in new processes that find the disk caches full."""
        names = self.backends(0.85)
        table = Table(
            "model", title="Warm start: first training step in s, caches empty and in a new process full", min_width=80
        )
        warm: dict[tuple[str, str], float] = {}
        for name in names:
            table.add_column(f"{name}\nempty", justify="right")
            table.add_column(f"{name}\nfull", justify="right")
            command = [sys.executable, __file__, "--first-steps", name]
            command += ["--models", ",".join(entry.name for entry in self.entries)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                seconds = json.loads(done.stdout.splitlines()[-1])
                warm.update({(name, model): seconds[model] for model in seconds})
            else:
                self.check(name != self.ours, f"warm start: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
        for entry in self.entries:
            cells = [times.get((name, entry.name)) for name in names for times in (self.cold, warm)]
            table.add_row(entry.name, *("-" if seconds is None else f"{seconds:.2f}" for seconds in cells))
        console.print(table)


def first_steps(entries: list[zoo.Entry], backend: str) -> None:
    """The measured part of the warm start; prints seconds per model as JSON."""
    warm_up()
    seconds = {}
    for entry in entries:
        torch.compiler.reset()
        model = entry.build().train()
        run = zoo.train(model, torch.compile(model, backend=backend, dynamic=False), batches(entry, 1))
        seconds[entry.name] = run.seconds[0]
    print(json.dumps(seconds))


def warm_up() -> None:
    """Brings in what every backend needs (Dynamo, AOTAutograd, the optimizer), so that none pays for being first."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    torch.compile(model, backend="aot_eager")(torch.ones(2, 2)).sum().backward()
    optimizer.step()


def reason_to_leave_out(backend: str) -> str:
    """Empty where a backend compiles a small function, else the error: a C++ compiler may lack OpenMP's headers."""
    try:
        torch.compile(torch.nn.functional.silu, backend=backend)(torch.ones(100))
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines()]
        return next((line for line in lines if "error:" in line), lines[0])
    finally:
        torch.compiler.reset()
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(zoo.BY_NAME), help="comma-separated")
    parser.add_argument(
        "--backend", default="tile,inductor", help="the one shown first, then those it is compared with"
    )
    parser.add_argument("--first-steps", metavar="BACKEND", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    entries = [zoo.BY_NAME[name] for name in arguments.models.split(",")]
    if arguments.first_steps:
        first_steps(entries, arguments.first_steps)
        return 0

    backends = arguments.backend.split(",")
    if "inductor" in backends and not shutil.which(os.environ.get("CXX", "g++")):
        console.print("Inductor is left out: it needs a C++ compiler at run time, and there is none")
        backends.remove("inductor")
    if unknown := [b for b in backends if b not in torch._dynamo.list_backends(exclude_tags=())]:
        console.print(f"not registered with torch.compile: {', '.join(unknown)}; run make build")
        return 1
    console.print(", ".join(f"{key} {value}" for key, value in harness.machine().items()))

    with tempfile.TemporaryDirectory(prefix="torch-tile-demo-") as cache:
        os.environ["TORCH_TILE_CACHE_DIR"] = f"{cache}/tile"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{cache}/inductor"
        warm_up()
        for backend in backends[1:]:
            if reason := reason_to_leave_out(backend):
                console.print(f"{backend} is left out, it compiles nothing here: {reason}")
                backends.remove(backend)
        demo = Demo(entries, backends)
        for part in (demo.training, demo.inference, demo.dynamic_sizes, demo.decode, demo.warm_start):
            part()
    console.print(f"{time.perf_counter() - started:.0f} s in total")
    for failure in demo.failures:
        console.print(f"[red]not as eager: {failure}[/red]")
    return 1 if demo.failures else 0


if __name__ == "__main__":
    sys.exit(main())
