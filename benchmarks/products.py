"""Products and attention on a CUDA device: one source of kernels, compiled by torch_tile and by Triton, beside torch.

python benchmarks/products.py [--sizes 2048 4096 8192] [--rounds 5] [--json FILE]

Times are medians over rounds in microseconds. Rounds alternate between the compilers. Results are compared with
float64 first. Each configuration is the same for both compilers.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F

SOURCE = Path(__file__).resolve().parent / "suites" / "product_kernels.py.in"
MATMUL = [  # BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages
    (128, 128, 64, 4, 3),
    (128, 128, 64, 8, 3),
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 4, 4),
    (64, 256, 64, 4, 4),
]
ATTENTION = [(128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (128, 32, 4, 4), (64, 64, 4, 3)]
CALLS = 20  # in one measurement


def load(language: str, folder: Path) -> ModuleType:
    """The kernels in a language: "torch_tile" or "triton"."""
    path = folder / f"kernels_of_{language}.py"
    path.write_text(SOURCE.read_text().replace("@LANGUAGE@", language))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def microseconds(function: Callable[[], Any]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(CALLS):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / CALLS * 1e3


def compare(name: str, candidates: Mapping[str, Callable[[], Any]], exact: Any, rounds: int) -> dict[str, Any]:
    """Times candidates whose results are near `exact`."""
    row: dict[str, Any] = {"name": name}
    runs = {}
    for key, function in candidates.items():
        try:
            error = (function().double() - exact).abs().max().item() / exact.abs().max().item()
        except Exception as failure:  # shared memory or registers may not do for a configuration
            row[key] = f"{type(failure).__name__}"
            continue
        if not error < 2e-2:
            row[key] = f"wrong: {error:.1e}"
            continue
        runs[key] = function
    times: dict[str, list[float]] = {key: [] for key in runs}
    for _ in range(rounds):
        for key, function in runs.items():
            times[key].append(microseconds(function))
    row.update({key: statistics.median(values) for key, values in times.items()})
    print(name, {k: f"{v:.0f}" if isinstance(v, float) else v for k, v in row.items() if k != "name"}, flush=True)
    return row


def products(modules: dict[str, ModuleType], size: int, rounds: int) -> list[dict[str, Any]]:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    exact = F.silu(a.double() @ b.double())

    def run(module: ModuleType, bm: int, bn: int, bk: int, warps: int, stages: int) -> torch.Tensor:
        blocks = -(-size // bm) * -(-size // bn)
        options = {"num_warps": warps, "num_stages": stages}
        module.matmul[(blocks,)](a, b, c, size, size, size, size, 1, size, 1, size, 1, bm, bn, bk, 8, True, **options)
        return c

    rows = [compare(f"silu(a @ b) {size}", {"torch": lambda: F.silu(a @ b)}, exact, rounds)]
    for config in MATMUL:
        candidates = {k: lambda m=m, config=config: run(m, *config) for k, m in modules.items()}
        rows.append(compare(f"silu(a @ b) {size} {config}", candidates, exact, rounds))
    return rows


def attention(modules: dict[str, ModuleType], D: int, causal: bool, rounds: int) -> list[dict[str, Any]]:
    q, k, v = (torch.randn(4, 16, 2048, D, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o = torch.empty_like(q)
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)

    def run(module: ModuleType, bm: int, bn: int, warps: int, stages: int) -> torch.Tensor:
        options = {"num_warps": warps, "num_stages": stages}
        arguments = (q, k, v, o, D**-0.5, q.stride(1), q.stride(2), 2048, bm, bn, D, causal)
        module.attention[(2048 // bm, 64)](*arguments, **options)
        return o

    name = f"attention 4x16x2048x{D}{', causal' if causal else ''}"
    library = {"torch": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)}
    rows = [compare(name, library, exact, rounds)]
    for config in ATTENTION:
        candidates = {k: lambda m=m, config=config: run(m, *config) for k, m in modules.items()}
        rows.append(compare(f"{name} {config}", candidates, exact, rounds))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[2048, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(1, "products.py needs a CUDA device\n")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        modules = {"tile": load("torch_tile", Path(folder))}
        try:
            modules["triton"] = load("triton", Path(folder))
        except ImportError as error:
            print(f"without Triton: {error}")
        for size in arguments.sizes:
            rows += products(modules, size, arguments.rounds)
        for D in (64, 128):
            for causal in (False, True):
                rows += attention(modules, D, causal, arguments.rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
