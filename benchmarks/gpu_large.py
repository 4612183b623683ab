#!/usr/bin/env python3
"""Scans, sums by index and optimizers over tensors larger than a GPU's cache: torch_tile, Inductor, eager mode.

    python benchmarks/gpu_large.py [--json OUT.json] [--filter cumsum] [--rounds 3] [--dynamic]

Each call follows a write of 64 MiB and a pause of the device, so that neither the cache nor the host counts. Times are
medians of ten calls, and of the rounds, in which the backends take turns; microseconds. `error` is the largest distance
from eager mode's result as a share of its largest element.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

CALLS = 10  # in one measurement
FLUSHED_BYTES = 1 << 26
PAUSE_CYCLES = 200_000  # longer than the host takes to launch a call

bf16 = torch.bfloat16


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def indices(below: int, count: int) -> torch.Tensor:
    return torch.randint(0, below, (count,), device="cuda")


def embedding_backward(weight: Any, index: Any, scale: Any, shift: Any) -> Any:
    y = F.layer_norm(F.embedding(index, weight), (512,), scale, shift)
    return torch.autograd.grad(y.square().sum(), (weight, scale, shift))


def adamw(parameters: Any, gradients: Any, means: Any, squares: Any) -> None:
    for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.mul_(1 - 1e-5).addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)


def adamw_foreach(parameters: Any, gradients: Any, means: Any, squares: Any) -> None:
    torch._foreach_mul_(means, 0.9)
    torch._foreach_add_(means, gradients, alpha=0.1)
    torch._foreach_mul_(squares, 0.999)
    torch._foreach_addcmul_(squares, gradients, gradients, value=0.001)
    divisors = torch._foreach_sqrt(squares)
    torch._foreach_add_(divisors, 1e-8)
    torch._foreach_mul_(parameters, 1 - 1e-5)
    torch._foreach_addcdiv_(parameters, means, divisors, value=-1e-3)


def states(sizes: list[int]) -> list[list[torch.Tensor]]:
    return [*([randn(size) for size in sizes] for _ in range(3)), [randn(size).abs() for size in sizes]]


Case = tuple[Callable[..., Any], Callable[[], list[Any]]]
CASES: dict[str, Case] = {
    "cumsum, rows of 16384x4096, scaled": (lambda x: (x * 2).cumsum(1) + 1, lambda: [randn(16384, 4096)]),
    "cumsum, columns of 4096x16384, scaled": (lambda x: (x * 2).cumsum(0) + 1, lambda: [randn(4096, 16384)]),
    "cumsum of 2^26, scaled": (lambda x: (x * 2).cumsum(0) + 1, lambda: [randn(1 << 26)]),
    "cumsum, rows of 16384x8192 bf16": (lambda x: (x * 2).cumsum(1) + 1, lambda: [randn(16384, 8192, dtype=bf16)]),
    "cumsum, rows of 200000x300": (lambda x: x.cumsum(1), lambda: [randn(200000, 300)]),
    "cumsum, rows of 64x2^20": (lambda x: x.cumsum(1), lambda: [randn(64, 1 << 20)]),
    "cumsum, columns of 2^20x64": (lambda x: x.cumsum(0), lambda: [randn(1 << 20, 64)]),
    "cumsum, middle of 64x1024x1024": (lambda x: x.cumsum(1), lambda: [randn(64, 1024, 1024)]),
    "cumprod, rows of 16384x4096": (lambda x: x.cumprod(1), lambda: [randn(16384, 4096)]),
    "cummax, rows of 16384x4096": (lambda x: x.cummax(1)[0], lambda: [randn(16384, 4096)]),
    "logcumsumexp, rows of 16384x2048": (lambda x: x.logcumsumexp(1), lambda: [randn(16384, 2048)]),
    "cumsum of a mask, rows of 16384x4096": (lambda x: (x > 0).cumsum(1), lambda: [randn(16384, 4096)]),
    "index_add of 500000 rows of 128 into 100000": (
        lambda x, i, s: x.index_add(0, i, F.relu(s) * 2),
        lambda: [randn(100000, 128), indices(100000, 500000), randn(500000, 128)],
    ),
    "scatter_reduce amax, 2^23 into 2^20": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
        lambda: [randn(1 << 20), indices(1 << 20, 1 << 23), randn(1 << 23)],
    ),
    "bilinear by 2 of 16x64x256x256": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear") + 1,
        lambda: [randn(16, 64, 256, 256)],
    ),
    "backward of embedding and layer_norm, 16384 of 50000x512": (
        embedding_backward,
        lambda: [
            randn(50000, 512).requires_grad_(),
            indices(50000, 16384),
            randn(512).requires_grad_(),
            randn(512).requires_grad_(),
        ],
    ),
    "AdamW written out, 64 of 2^20": (adamw, lambda: states([1 << 20] * 64)),
    "AdamW foreach, 100 of 2^20 and 100 of 1024": (adamw_foreach, lambda: states([1 << 20] * 100 + [1024] * 100)),
    "softmax of 4096x50257 bf16": (lambda x: x.softmax(-1), lambda: [randn(4096, 50257, dtype=bf16)]),
    "addition of 1, 4096x50257 bf16": (lambda x: x + 1, lambda: [randn(4096, 50257, dtype=bf16)]),
    "max_pool2d(3, 2, 1) of 16x512x64x64 bf16": (
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda: [randn(16, 512, 64, 64, dtype=bf16)],
    ),
    "sum over 0 and 2 of 512x1024x128": (lambda x: x.sum((0, 2)), lambda: [randn(512, 1024, 128)]),
}


def microseconds(call: Callable[[], Any]) -> float:
    flush = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    events = []
    for _ in range(CALLS):
        flush.fill_(1)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(PAUSE_CYCLES)
        begin.record()
        call()
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) * 1e3 for begin, end in events)


def copies(arguments: list[Any]) -> list[Any]:
    """Of lists, which a case writes."""
    return [[value.clone() for value in each] if isinstance(each, list) else each for each in arguments]


def largest_error(results: Any, expected: Any) -> float:
    leaves = torch.utils._pytree.tree_leaves
    pairs = ((a, b) for a, b in zip(leaves(results), leaves(expected), strict=True) if b is not None)
    return max(
        (((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30)).item() for a, b in pairs),
        default=0.0,
    )


def measure(function: Callable[..., Any], arguments: list[Any], rounds: int, dynamic: bool) -> dict[str, float]:
    torch.compiler.reset()
    calls = {"eager": function}
    for backend in ("tile", "inductor"):
        # Its own code object, so that Dynamo does not search the other's entries.
        own = type(function)(
            function.__code__.replace(co_name=f"{function.__code__.co_name}_{backend}"), function.__globals__
        )
        calls[backend] = torch.compile(own, backend=backend, dynamic=dynamic)
    written, expected = copies(arguments), copies(arguments)
    error = largest_error((calls["tile"](*written), written), (function(*expected), expected))
    del written, expected
    times: dict[str, list[float]] = {backend: [] for backend in calls}
    for call in calls.values():
        call(*arguments)
    for _ in range(rounds):
        for backend, call in calls.items():
            times[backend].append(microseconds(functools.partial(call, *arguments)))
    return {**{backend: statistics.median(found) for backend, found in times.items()}, "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--filter", default="", help="part of a case's name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dynamic", action="store_true", help="compiled for sizes that change")
    options = parser.parse_args()
    torch.manual_seed(0)
    rows = {}
    for name, (function, make) in CASES.items():
        if options.filter not in name:
            continue
        found = measure(function, make(), options.rounds, options.dynamic)
        rows[name] = copy.copy(found)
        others = "  ".join(f"{backend} {found[backend]:.0f}" for backend in ("tile", "inductor", "eager"))
        print(f"{found['inductor'] / found['tile']:5.2f}  {name:58s} {others}  error {found['error']:.1e}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
