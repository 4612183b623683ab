"""Rows that begin anywhere in memory, because their length is no multiple of 16 bytes: as suite gpu_kernels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites import kernels as k
from suites.gpu_kernels import GpuCase, bf16, randn, run_cases


def log_softmax(x):
    return F.log_softmax(x, -1)


def softmax_backward(grad, result):
    return torch.ops.aten._softmax_backward_data(grad, result, -1, result.dtype)


def bias_gelu(x, bias):
    return F.gelu(x + bias)


def row_sum(x):
    return x.sum(-1)


def next_token(x):
    return torch.softmax(x[:, 1:], -1)


def scale(x):
    return x * 2 + 1


def targets(rows: int, classes: int) -> torch.Tensor:
    return torch.randint(classes, (rows,), device="cuda")


V = 50257  # GPT-2's vocabulary
ROW = 4096 * V * 2
LOW = {"rtol": 2e-2, "atol": 2e-2}
CASES = [
    GpuCase("softmax bf16 4096x50257", k.softmax, lambda: [randn(4096, V, dtype=bf16)], 2 * ROW, rtol=2e-2),
    GpuCase("log_softmax bf16 4096x50257", log_softmax, lambda: [randn(4096, V, dtype=bf16)], 2 * ROW, **LOW),
    GpuCase("log_softmax f32 4096x50257", log_softmax, lambda: [randn(4096, V)], 4 * ROW, atol=1e-4),
    GpuCase(
        "softmax backward bf16 4096x50257",
        softmax_backward,
        lambda: [randn(4096, V, dtype=bf16), torch.softmax(randn(4096, V), -1).to(bf16)],
        3 * ROW,
        **LOW,
    ),
    GpuCase(
        "cross_entropy bf16 8192x50257",
        k.cross_entropy,
        lambda: [randn(8192, V, dtype=bf16), targets(8192, V)],
        2 * ROW,
        **LOW,
    ),
    GpuCase(
        "cross_entropy train bf16 8192x50257",
        k.cross_entropy,
        lambda: [randn(8192, V, dtype=bf16), targets(8192, V)],
        6 * ROW,
        is_training=True,
        **LOW,
    ),
    GpuCase("softmax of a slice bf16 4096x50256", next_token, lambda: [randn(4096, V, dtype=bf16)], 2 * ROW, rtol=2e-2),
    GpuCase(
        "bias_gelu bf16 4096x50257",
        bias_gelu,
        lambda: [randn(4096, V, dtype=bf16), randn(V, dtype=bf16)],
        2 * ROW,
        **LOW,
    ),
    GpuCase(
        "layer_norm f32 65536x769",
        k.layer_norm,
        lambda: [randn(65536, 769), randn(769), randn(769)],
        2 * 65536 * 769 * 4,
        atol=1e-4,
    ),
    GpuCase(
        "layer_norm bf16 65536x1001",
        k.layer_norm,
        lambda: [randn(65536, 1001, dtype=bf16), randn(1001, dtype=bf16), randn(1001, dtype=bf16)],
        2 * 65536 * 1001 * 2,
        **LOW,
    ),
    GpuCase("softmax f32 131072x513", k.softmax, lambda: [randn(131072, 513)], 2 * 131072 * 513 * 4),
    GpuCase("row_sum f32 131072x1001", row_sum, lambda: [randn(131072, 1001)], 131072 * 1001 * 4, atol=1e-3),
    GpuCase(
        "row_sum bf16 131072x1001",
        row_sum,
        lambda: [randn(131072, 1001, dtype=bf16)],
        131072 * 1001 * 2,
        rtol=2e-2,
        atol=1.0,
    ),
    GpuCase(
        "attention softmax f32 256x12x197x197", k.softmax, lambda: [randn(256, 12, 197, 197)], 2 * 256 * 12 * 197**2 * 4
    ),
    GpuCase(
        "attention softmax bf16 256x12x197x197",
        k.softmax,
        lambda: [randn(256, 12, 197, 197, dtype=bf16)],
        2 * 256 * 12 * 197**2 * 2,
        rtol=2e-2,
    ),
    GpuCase("softmax bf16 1M x 49", k.softmax, lambda: [randn(1 << 20, 49, dtype=bf16)], 2 * (49 << 20) * 2, rtol=2e-2),
    GpuCase("row_sum f32 2M x 49", row_sum, lambda: [randn(1 << 21, 49)], (49 << 21) * 4, atol=1e-3),
    GpuCase("column_sum f32 65536x1001", k.column_sum, lambda: [randn(65536, 1001)], 65536 * 1001 * 4, atol=1e-2),
    GpuCase("bias_gelu f32 262144x197", bias_gelu, lambda: [randn(262144, 197), randn(197)], 2 * 262144 * 197 * 4),
    GpuCase("scale bf16 2^27+3", scale, lambda: [randn((1 << 27) + 3, dtype=bf16)], 4 * ((1 << 27) + 3), **LOW),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_rows", CASES)
