"""`flex_attention` on the CPU: masks, score functions, grouped heads, decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from harness import Case, Row, run_case
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def _causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def _window(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (i >= j) & (i - j < 256)


def _document(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (i >= j) & (i // 100 == j // 100)


def _alibi(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return s - (i - j) * torch.exp2(-(h + 1.0) * 0.5)


def _soft_cap(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return 20.0 * torch.tanh(s / 20.0)


def _case(
    name: str, shape: tuple[int, ...], kv_heads: int, rows: int, dtype: torch.dtype, mask: Any = None, score: Any = None
) -> Case:
    batch, heads, length, width = shape

    def make() -> tuple[Callable[..., Any], Sequence[Any]]:
        torch.manual_seed(0)
        q = torch.randn(batch, heads, rows, width, dtype=dtype)
        k, v = (torch.randn(batch, kv_heads, length, width, dtype=dtype) for _ in range(2))
        blocks = create_block_mask(mask, None, None, rows, length, device="cpu") if mask else None
        is_grouped = heads != kv_heads
        return lambda q, k, v: flex_attention(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=is_grouped), (
            q,
            k,
            v,
        )

    kind = str(dtype).removeprefix("torch.")
    return Case(f"{name}, {kind}", make, rtol=1e-3 if dtype is torch.float32 else 3e-2)


def _cases() -> list[Case]:
    cases = []
    for dtype in (torch.float32, torch.bfloat16):
        cases += [
            _case("causal 1x8x1024x64", (1, 8, 1024, 64), 8, 1024, dtype, _causal),
            _case("documents 2x8x512x64", (2, 8, 512, 64), 8, 512, dtype, _document),
            _case("window, 4 heads of keys, 1x16x2048x128", (1, 16, 2048, 128), 4, 2048, dtype, _window),
            _case("ALiBi, causal, 1x8x1024x64", (1, 8, 1024, 64), 8, 1024, dtype, _causal, _alibi),
            _case("soft cap 1x8x1024x64", (1, 8, 1024, 64), 8, 1024, dtype, None, _soft_cap),
            _case("one row, 4096 keys", (1, 16, 4096, 64), 4, 1, dtype),
        ]
    return cases


def run(options: Any) -> list[Row]:
    rows: list[Row] = []
    for one in _cases():
        if options.selects(one.name):
            rows += options.report(run_case("flex", one, options.backends, options.rounds))
    return rows
