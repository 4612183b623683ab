"""Packaging and loading beside AOTInductor: the same exported model, each step in a process of its own.

python benchmarks/packages.py [--model bert] [--layers 4] [--rounds 3] [--cache cold|warm] [--json FILE]

package: from the exported program to the file. load: from the file to a callable. first: the first call. call: the
median of calls after that. Importing torch and exporting are not counted. Rounds alternate between the two.
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
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = ["tile", "AOTInductor"]
STEPS = ["package", "load", "first", "call"]
SUFFIX = {"tile": "tile", "AOTInductor": "pt2"}
NUM_CALLS = 9


def export(name: str, layers: int, path: Path) -> None:
    """Writes the exported program; both backends read it."""
    import torch

    from tests.aot.architectures import Tensors
    from tests.models import zoo

    entry = zoo.BY_NAME[name]
    inputs = entry.inference_inputs()
    names = [key for key, value in inputs.items() if isinstance(value, torch.Tensor)]
    others = {key: value for key, value in inputs.items() if key not in names}
    model = Tensors(entry.build(layers=layers).eval(), names, others)
    arguments = tuple(inputs[key] for key in names)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model, arguments, strict=False), path)
        torch.save({"arguments": arguments, "expected": model(*arguments)}, path.with_suffix(".pt"))


def package(backend: str, exported: Path, target: Path) -> dict[str, float]:
    import torch

    program = torch.export.load(exported)
    with torch.no_grad():
        if backend == "tile":
            import torch_tile

            start = time.perf_counter()
            torch_tile.aot.package(program, target)
        else:
            import torch._inductor

            start = time.perf_counter()
            torch._inductor.aoti_compile_and_package(program, package_path=str(target))
    return {"package": time.perf_counter() - start, "megabytes": target.stat().st_size / 1e6}


def load(backend: str, exported: Path, target: Path) -> dict[str, float]:
    import torch

    kept = torch.load(exported.with_suffix(".pt"))
    arguments = kept["arguments"]
    with torch.no_grad():
        if backend == "tile":
            import torch_tile

            start = time.perf_counter()
            call: Any = torch_tile.aot.load(target)
        else:
            import torch._inductor

            start = time.perf_counter()
            call = torch._inductor.aoti_load_package(str(target))
        loaded = time.perf_counter()
        result = call(*arguments)
        first = time.perf_counter()
        result = result[0] if isinstance(result, (list, tuple)) else result
        torch.testing.assert_close(result, kept["expected"], rtol=1e-3, atol=1e-4)
        times = []
        for _ in range(NUM_CALLS):
            begin = time.perf_counter()
            call(*arguments)
            times.append(time.perf_counter() - begin)
    return {"load": loaded - start, "first": first - loaded, "call": statistics.median(times)}


def child(step: str, *arguments: str, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", step, *arguments]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1][:200])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, list[float]]]:
    """Seconds by backend and step."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    child("export", options.model, str(options.layers), str(folder / "exported.pt2"), environment={"PYTHONPATH": paths})
    found: dict[str, dict[str, list[float]]] = {backend: {} for backend in BACKENDS}
    for number in range(options.rounds):
        for backend in BACKENDS[number % 2 :] + BACKENDS[: number % 2]:
            cache = folder / (f"cache{number}" if options.cache == "cold" else "cache")
            environment = {
                "PYTHONPATH": paths,
                "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
                "TORCH_TILE_CACHE_DIR": str(cache / "tile"),
            }
            target = folder / f"model.{SUFFIX[backend]}"
            for step in ("package", "load"):
                row = child(step, backend, str(folder / "exported.pt2"), str(target), environment=environment)
                for name, value in row.items():
                    found[backend].setdefault(name, []).append(value)
    return found


def show(found: dict[str, dict[str, list[float]]]) -> None:
    print("| step | " + " | ".join(f"{backend} ms" for backend in BACKENDS) + " | times AOTInductor |")
    print("|---|---|---|---|")
    for step in STEPS:
        tile, other = (statistics.median(found[backend][step]) for backend in BACKENDS)
        print(f"| {step} | {1e3 * tile:.1f} | {1e3 * other:.1f} | {other / tile:.2f} |")
    print("file: " + ", ".join(f"{backend} {found[backend]['megabytes'][-1]:.1f} MB" for backend in BACKENDS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert", help="a model of tests/models/zoo.py")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", choices=["cold", "warm"], default="cold", help="disk caches of each round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        step, *arguments = options.child
        if step == "export":
            export(arguments[0], int(arguments[1]), Path(arguments[2]))
            print("{}")
        else:
            function = package if step == "package" else load
            print(json.dumps(function(arguments[0], Path(arguments[1]), Path(arguments[2]))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, Path(folder))
    show(found)
    if options.json:
        options.json.write_text(json.dumps({"model": options.model, "layers": options.layers, "seconds": found}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
