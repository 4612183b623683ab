"""`flex_attention`, cumulative sums, and products of one row on a CUDA device: torch_tile, Inductor, eager mode.

python benchmarks/gpu_operators.py [--rounds 5] [--filter causal]

Times are medians over rounds in microseconds; rounds alternate between the compilers. Eager mode's dense form of
`flex_attention` is not timed; `scaled_dot_product_attention` is, where it computes the same.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

CALLS = 20  # in one measurement


def microseconds(function: Callable[[], Any]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(CALLS):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / CALLS * 1e3


def compare(name: str, candidates: dict[str, Callable[[], Any]], rounds: int) -> None:
    for function in candidates.values():
        for _ in range(3):
            function()
    times: dict[str, list[float]] = {who: [] for who in candidates}
    for _ in range(rounds):
        for who, function in candidates.items():
            times[who].append(microseconds(function))
    shown = {who: statistics.median(found) for who, found in times.items()}
    print(f"{name:44s}", "  ".join(f"{who} {time:.0f}" for who, time in shown.items()), flush=True)


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def window(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (i >= j) & (i - j < 256)


def documents(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (i // 300 == j // 300) & (i >= j)


def capped(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return 20 * torch.tanh(score / 20) + (j - i) * 0.01


ATTENTION: dict[str, tuple[int, int, int, Any, Any]] = {  # heads, heads of keys, width, mask, score
    "plain, width 64": (16, 16, 64, None, None),
    "causal, width 64": (16, 16, 64, causal, None),
    "plain, width 128": (16, 16, 128, None, None),
    "causal, width 128": (16, 16, 128, causal, None),
    "window of 256, 4 heads of keys, width 128": (16, 4, 128, window, None),
    "documents, width 64": (16, 16, 64, documents, None),
    "soft cap and distance, width 128": (16, 16, 128, None, capped),
}


def attention(name: str, rounds: int) -> None:
    heads, kv_heads, width, mask, score = ATTENTION[name]
    shapes = [(4, heads, 2048, width), (4, kv_heads, 2048, width), (4, kv_heads, 2048, width)]
    q, k, v = (torch.randn(s, device="cuda", dtype=torch.bfloat16, requires_grad=True) for s in shapes)
    block_mask = create_block_mask(mask, None, None, 2048, 2048, device="cuda") if mask else None
    gradient = torch.randn_like(q)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=score, block_mask=block_mask, enable_gqa=heads != kv_heads)

    calls: dict[str, Callable[..., Any]] = {
        "tile": torch.compile(function, backend="tile"),
        "inductor": torch.compile(function),
    }
    if score is None and mask in (None, causal):
        calls["sdpa"] = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=mask is causal)

    def without_gradients(call: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> Any:
            with torch.no_grad():
                return call(q, k, v)

        return run

    compare(f"{name}: forward", {who: without_gradients(call) for who, call in calls.items()}, rounds)

    def with_gradients(call: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(call(q, k, v), (q, k, v), gradient)

    compare(f"{name}: with backward", {who: with_gradients(call) for who, call in calls.items()}, rounds)


def others(rounds: int, wanted: str) -> None:
    """Cumulative sums with what is fused to them, and products of one row with int8 weights."""
    for shape, dim in (((16384, 4096), 1), ((4096, 16384), 0), ((1 << 26,), 0)):
        x = torch.randn(shape, device="cuda")

        def scan(x: torch.Tensor, dim: int = dim) -> torch.Tensor:
            return (x * 2).cumsum(dim) + 1

        measure(f"cumsum of {list(shape)} along {dim}", scan, (x,), rounds, wanted)
    for k, n in ((4096, 11008), (8192, 28672)):
        x = torch.randn(1, k, device="cuda", dtype=torch.bfloat16)
        weight = torch.randint(-100, 100, (n, k), dtype=torch.int8, device="cuda")
        scale = torch.rand(n, device="cuda", dtype=torch.bfloat16)

        def product(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return F.linear(x, weight.to(x.dtype)) * scale

        measure(f"one row times int8 weights of {n}x{k}", product, (x, weight, scale), rounds, wanted)


def measure(name: str, function: Callable[..., Any], arguments: tuple[Any, ...], rounds: int, wanted: str) -> None:
    if wanted not in name:
        return
    calls = {
        "tile": torch.compile(function, backend="tile"),
        "inductor": torch.compile(function),
        "eager": function,
    }
    compare(name, {who: functools.partial(call, *arguments) for who, call in calls.items()}, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--filter", default="", help="part of a case's name")
    options = parser.parse_args()
    torch._dynamo.config.recompile_limit = 1000
    for name in ATTENTION:
        if options.filter in name:
            torch.compiler.reset()
            attention(name, options.rounds)
    others(options.rounds, options.filter)


if __name__ == "__main__":
    main()
