"""Triton kernels on CPU: beside eager mode, launches alone and in graphs, compile times, the first call of a process.

python benchmarks/triton_cpu.py [--threads 2] [--rounds 9]
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
import triton  # noqa: E402

import torch_tile  # noqa: E402, F401
from tests.triton import kernels  # noqa: E402
from torch_tile import _C  # noqa: E402
from torch_tile.triton import tracing  # noqa: E402
from torch_tile.triton.compiler import compiler_options  # noqa: E402

ROUND_S = 0.1


def times(*calls: Callable[[], object], rounds: int) -> list[float]:
    """Median over rounds, which alternate, of microseconds a call."""
    results: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
        call()
    for _ in range(rounds):
        for call, result in zip(calls, results, strict=True):
            count, start = 0, time.perf_counter()
            while (passed := time.perf_counter() - start) < ROUND_S:
                call()
                count += 1
            result.append(passed / count * 1e6)
    return [statistics.median(result) for result in results]


def beside_eager(name: str, ours: Callable[[], object], eager: Callable[[], object], rounds: int) -> None:
    a, b = times(ours, eager, rounds=rounds)
    print(f"{name:36} {a:10.1f} us   eager {b:10.1f} us   {b / a:5.2f} x", flush=True)


def vector_add(rounds: int, n: int) -> None:
    x, y, out = torch.randn(n), torch.randn(n), torch.empty(n)
    beside_eager(
        f"vector add {n}",
        lambda: kernels.add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024),
        lambda: torch.add(x, y, out=out),
        rounds,
    )


def softmax(rounds: int, m: int, n: int) -> None:
    x, out, block = torch.randn(m, n), torch.empty(m, n), triton.next_power_of_2(n)
    beside_eager(
        f"softmax {m} x {n}",
        lambda: kernels.softmax[(m,)](x, out, n, n, BLOCK=block),
        lambda: torch.softmax(x, 1),
        rounds,
    )


def layer_norm(rounds: int, m: int, n: int) -> None:
    x, out, w, b, block = (
        torch.randn(m, n),
        torch.empty(m, n),
        torch.randn(n),
        torch.randn(n),
        triton.next_power_of_2(n),
    )
    beside_eager(
        f"layer norm {m} x {n}",
        lambda: kernels.layer_norm[(m,)](x, out, w, b, n, 1e-5, BLOCK=block),
        lambda: torch.nn.functional.layer_norm(x, (n,), w, b),
        rounds,
    )


def matmul(rounds: int, bm: int, bn: int, bk: int) -> None:
    a, b, c = torch.randn(512, 512), torch.randn(512, 512), torch.empty(512, 512)
    beside_eager(
        f"matmul 512, blocks {bm} x {bn} x {bk}",
        lambda: kernels.matmul[(512 // bm, 512 // bn)](a, b, c, 512, 512, 512, BM=bm, BN=bn, BK=bk),
        lambda: torch.mm(a, b, out=c),
        rounds,
    )


def running_sum(rounds: int, m: int, n: int) -> None:
    x, out = torch.randn(m, n), torch.empty(m, n)
    beside_eager(
        f"running sum {m} x {n}",
        lambda: kernels.running_sum[(m // 4,)](x, out, M=4, N=n, AXIS=1),
        lambda: torch.cumsum(x, 1, out=out),
        rounds,
    )


def run_kernels(rounds: int) -> None:
    for n in (1 << 20, 1 << 24):
        vector_add(rounds, n)
    for m, n in ((4096, 1024), (4096, 781), (1024, 4096)):
        softmax(rounds, m, n)
    for m, n in ((4096, 256), (1024, 1024), (1024, 4096)):
        layer_norm(rounds, m, n)
    for blocks in ((64, 64, 64), (128, 128, 64)):
        matmul(rounds, *blocks)
    running_sum(rounds, 1024, 1024)


def launches(rounds: int) -> None:
    x, y, out = torch.randn(64), torch.randn(64), torch.empty(64)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.add[(1,)](x, y, out, 64, BLOCK=64)
        return out

    compiled = torch.compile(function, backend="tile", fullgraph=True, options={"strict": True})
    alone, graph = times(lambda: kernels.add[(1,)](x, y, out, 64, BLOCK=64), lambda: compiled(x, y), rounds=rounds)
    print(f"launch through Triton {alone:.1f} us; graph of one kernel {graph:.1f} us")


def compile_times() -> None:
    def best(call: Callable[[], object]) -> float:
        passed = []
        for _ in range(9):
            start = time.perf_counter()
            call()
            passed.append(time.perf_counter() - start)
        return min(passed) * 1e3

    options = compiler_options(distinct_arguments=True)
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "stride": "i32", "n": "i32", "BLOCK": "constexpr"}
    for block in (64, 32768):
        text = tracing.trace(kernels.softmax, signature, {"BLOCK": block}, {})
        print(f"compile softmax, BLOCK {block}: {best(functools.partial(_C.compile_kernel, text, options)):.1f} ms")
    given: list[str] = []
    original = _C.import_triton
    tracing._C = type("Spy", (), {"import_triton": staticmethod(lambda t, **k: given.append(t) or original(t, **k))})
    matmul = dict.fromkeys(("a", "b", "c"), "*fp32") | dict.fromkeys("MNK", "i32")
    matmul |= dict.fromkeys(("BM", "BN", "BK"), "constexpr")
    tracing.trace(kernels.matmul, matmul, {"BM": 64, "BN": 64, "BK": 32}, {})
    ops = len(re.findall(r'^\s*(?:%|")', given[0], re.MULTILINE))
    print(f"parse and import: {best(lambda: original(given[0])) / ops * 100:.2f} ms per 100 ops ({ops} ops)")


FIRST = """
import time, torch, triton
from tests.triton import kernels
x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
start = time.perf_counter()
kernels.add[(4,)](x, y, out, 1000, BLOCK=256)
print((time.perf_counter() - start) * 1e3)
"""


def first_calls() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TRITON_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
        found = [
            float(
                subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, check=True).stdout
            )
            for _ in range(6)
        ]
    print(f"first call of a process: empty cache {found[0]:.0f} ms, full cache {statistics.median(found[1:]):.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    load = os.getloadavg()[0]
    print(f"triton {triton.__version__}, torch {torch.__version__}, {arguments.threads} threads, load {load:.1f}")
    run_kernels(arguments.rounds)
    launches(arguments.rounds)
    compile_times()
    first_calls()
