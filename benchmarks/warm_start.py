"""First calls from loaded cache artifacts beside Dynamo alone, each in a process of its own.

python benchmarks/warm_start.py [--model bert] [--layers 4] [--training] [--rounds 5] [--json FILE]

One process compiles the model and writes `torch.compiler.save_cache_artifacts()`. Each measured process has an empty
cache folder, loads the artifacts (tile alone), and makes the first call. Loading and all imports but torch's and the
model's count. `eager` is Dynamo without a compiler, which no warm start can beat. `aot_eager` adds AOTAutograd.
Processor time is that of the main thread. Rounds alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = ["tile", "eager", "aot_eager"]
KINDS = ["wall", "processor"]


def first_call(backend: str, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of one first call in this process; with `options.save`, writes the artifacts after it."""
    import torch

    from tests.models import zoo

    torch.set_num_threads(1)
    entry = zoo.BY_NAME[options.model]
    model = entry.build(layers=options.layers).train(options.training)
    inputs = entry.inputs() if options.training else entry.inference_inputs()
    begin = {"wall": time.perf_counter(), "processor": time.thread_time()}
    if options.load and backend == "tile":
        import torch_tile  # registers the type of its artifacts

        loaded = torch.compiler.load_cache_artifacts(Path(options.load).read_bytes())
        assert loaded is not None, "the artifacts were not loaded"
    function = torch.compile(model, backend=backend)
    if options.training:
        function(**inputs).loss.backward()
    else:
        with torch.no_grad():
            function(**inputs)
    seconds = {"wall": time.perf_counter() - begin["wall"], "processor": time.thread_time() - begin["processor"]}
    if options.save:
        artifacts = torch.compiler.save_cache_artifacts()
        assert artifacts is not None, "nothing was compiled that can be saved"
        Path(options.save).write_bytes(artifacts[0])
    if options.load and backend == "tile":
        import torch_tile

        from_disk = torch_tile.counters["graphs_from_disk"]
        assert from_disk == torch_tile.counters["graphs"] > 0, f"graphs from the artifacts: {from_disk}"
    return seconds


def in_a_process(backend: str, options: argparse.Namespace, *arguments: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TORCH_TILE_CACHE_DIR": folder,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their byte code
        command = [sys.executable, __file__, "--child", backend, "--model", options.model]
        command += ["--layers", str(options.layers), *(["--training"] if options.training else []), *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{backend}: {done.stderr.strip()[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert", help="a name of tests/models/zoo.py")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--training", action="store_true", help="forward and backward in place of inference")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="a file for all times, in seconds")
    for name in ("--child", "--load", "--save"):  # of one measured process
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(first_call(options.child, options)))
        return
    times: dict[str, list[dict[str, float]]] = {backend: [] for backend in BACKENDS}
    with tempfile.TemporaryDirectory() as folder:
        artifacts = str(Path(folder) / "artifacts")
        cold = in_a_process("tile", options, "--save", artifacts)
        print(f"cold: {cold['wall']:.2f} s; artifacts: {Path(artifacts).stat().st_size / 1e6:.2f} MB", flush=True)
        for number in range(options.rounds + 1):
            for backend in BACKENDS[number % 3 :] + BACKENDS[: number % 3]:
                found = in_a_process(backend, options, *(["--load", artifacts] if backend == "tile" else []))
                if number > 0:  # the first round brings files into memory
                    times[backend].append(found)
    report(times)
    if options.json:
        Path(options.json).write_text(json.dumps({"cold": cold, "times": times}, indent=1))


def report(times: dict[str, list[dict[str, float]]]) -> None:
    medians: dict[str, Any] = {
        backend: {kind: statistics.median(each[kind] for each in found) for kind in KINDS}
        for backend, found in times.items()
    }
    for kind in KINDS:
        line = ", ".join(f"{backend} {medians[backend][kind] * 1e3:.0f} ms" for backend in BACKENDS)
        over = ", ".join(f"{medians['tile'][kind] / medians[b][kind]:.2f} of {b}" for b in BACKENDS[1:])
        print(f"{kind} time of the first call: {line}; tile: {over}")


if __name__ == "__main__":
    main()
