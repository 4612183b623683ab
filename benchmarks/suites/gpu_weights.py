"""Around the layers of models on a CUDA device: few bits, sampling, optimizers, caches. As suite gpu_programs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, run_cases
from suites.inputs import LOW, MB, bf16, f16, integers, mostly, normal, uniform


def nucleus(logits, temperature):
    """What is left of each distribution of its most likely 90%, in the order of tokens."""
    values, order = torch.sort(logits / temperature[:, None], dim=-1, descending=True)
    chances = torch.softmax(values, -1)
    outside = chances.cumsum(-1) - chances > 0.9
    kept = torch.zeros_like(logits).scatter(1, order, chances.masked_fill(outside, 0))
    return kept / kept.sum(-1, keepdim=True)


def sample_unrepeated(logits, seen, noise):
    """Tokens that were seen are penalised, unlikely ones cut, one drawn by Gumbel's noise; its likelihood."""
    scores = logits.gather(1, seen)
    logits = logits.scatter(1, seen, torch.where(scores > 0, scores / 1.2, scores * 1.2))
    chances = torch.softmax(logits / 0.8, -1)
    kept = chances >= 0.05 * chances.amax(-1, keepdim=True)
    drawn = (torch.log(chances).masked_fill(~kept, -math.inf) - torch.log(-torch.log(noise))).argmax(-1)
    return drawn, torch.log(chances.gather(1, drawn[:, None])[:, 0]), kept.sum(-1)


def to_float8(x):
    """Blocks of 128 scaled to the range of 8-bit floats, and the scales."""
    blocks = x.float().unflatten(-1, (-1, 128))
    scale = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448
    return (blocks / scale).to(torch.float8_e4m3fn).flatten(-2), scale.squeeze(-1)


def requantise(sums, scale_x, scale_w, bias):
    """Of an int8 product: scaled back, bias and GELU, then int8 again by each row's largest value."""
    y = F.gelu(sums.float() * scale_x[:, None] * scale_w + bias)
    scale = y.abs().amax(1, keepdim=True).clamp(min=1e-6) / 127
    return torch.round(y / scale).to(torch.int8), scale[:, 0]


def unpack_nibbles(packed, zeros, scales):
    """Eight weights of 4 bits in an int32, zero points packed alike, groups of 128 rows."""
    shifts = torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], device=packed.device, dtype=torch.int32)
    weights = ((packed[..., None] >> shifts) & 15).flatten(1).unflatten(0, (-1, 128))
    centres = ((zeros[..., None] >> shifts) & 15).flatten(1)[:, None]
    return ((weights - centres).to(scales.dtype) * scales[:, None]).flatten(0, 1)


def unpack_ternary(packed, scale):
    """Four weights of -1, 0 or 1 in a byte, rows by quarters."""
    rows = [((packed >> (2 * k)) & 3).to(torch.int8) - 1 for k in range(4)]
    weights = torch.cat(rows)
    return weights.to(bf16) * scale, weights.sum(1, dtype=torch.int32)


def adafactor(p, g, row, column):
    """Second moments by rows and columns; the update is bounded by its own root mean square."""
    square = g.square() + 1e-12
    row = 0.99 * row + 0.01 * square.mean(1)
    column = 0.99 * column + 0.01 * square.mean(0)
    update = g * torch.rsqrt(row / row.mean())[:, None] * torch.rsqrt(column)
    update = update / update.square().mean().sqrt().clamp(min=1)
    size = p.square().mean().sqrt().clamp(min=1e-3)
    return p - 0.01 * size * update - 1e-4 * p, row, column


def lamb(p, g, m, v):
    """Adam's step for bfloat16 gradients, scaled by the ratio of norms."""
    g = g.to(p.dtype)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    update = (m / 0.1) / (torch.sqrt(v / 0.001) + 1e-6) + 0.01 * p
    ratio = torch.linalg.vector_norm(p) / torch.linalg.vector_norm(update).clamp(min=1e-6)
    p = p - 1e-3 * ratio * update
    return p, m, v, p.to(bf16)


def clip_and_average(parameters, gradients, shadows):
    """Gradients of many tensors bounded by their common norm, Lion-like steps, and a moving average."""
    norm = torch.stack([g.float().square().sum() for g in gradients]).sum().sqrt()
    factor = (1 / (norm + 1e-6)).clamp(max=1)
    stepped = [p - 0.1 * factor * g - 1e-3 * p for p, g in zip(parameters, gradients, strict=True)]
    return norm, stepped, [torch.lerp(s, p, 0.001) for s, p in zip(shadows, stepped, strict=True)]


def gather_pages(cache, scale, table, lengths):
    """Keys of int8 in pages of 16 positions, by each sequence's list of pages; zero behind its end."""
    keys = (cache[table].to(scale.dtype) * scale[table][..., None]).flatten(1, 2)
    valid = torch.arange(keys.shape[1], device=keys.device) < lengths[:, None]
    return torch.where(valid[:, :, None, None], keys, 0).to(bf16).transpose(1, 2).contiguous()


def tensors(n: int, dtype: Any) -> list[torch.Tensor]:
    return [normal(*shape, dtype=dtype) for shape in [(n, 1024), (1024,), (n, 4096), (4096,), (n // 4, 512, 3, 3)]]


CASES = [
    GpuCase(
        "nucleus 256x32000",
        nucleus,
        lambda n=256: [3 * normal(n, 32000), uniform(n, low=0.5)],
        63 * MB,
        check=mostly(nucleus),
    ),
    GpuCase(
        "sampling without repetition 512x50257",
        sample_unrepeated,
        lambda n=512: [
            normal(n, 50257),
            integers(50257, n, 64),
            uniform(n, 50257, low=1e-6, high=1 - 1e-6),
        ],
        197 * MB,
        check=mostly(sample_unrepeated, share=1e-2),
    ),
    GpuCase(
        "to float8 8192x7168",
        to_float8,
        lambda n=8192: [normal(n, 7168, dtype=bf16)],
        170 * MB,
        check=mostly(to_float8),
    ),
    GpuCase(
        "requantise 8192x5120",
        requantise,
        lambda n=8192: [
            integers(20000, n, 5120, low=-20000, dtype=torch.int32),
            0.01 * uniform(n),
            0.01 * uniform(5120),
            normal(5120),
        ],
        200 * MB,
        check=mostly(requantise),
    ),
    GpuCase(
        "unpack 4 bits of int32",
        unpack_nibbles,
        lambda n=64: [
            integers(1 << 31, n * 128, 1024, dtype=torch.int32),
            integers(1 << 31, n, 1024, dtype=torch.int32),
            normal(n, 8192, dtype=f16),
        ],
        161 * MB,
        **LOW,
    ),
    GpuCase(
        "unpack ternary weights",
        unpack_ternary,
        lambda n=2048: [integers(3, n, 8192, dtype=torch.uint8) * 85, normal(1, dtype=bf16)],
        144 * MB,
        **LOW,
    ),
    GpuCase(
        "Adafactor 8192x4096",
        adafactor,
        lambda n=8192: [normal(n, 4096), normal(n, 4096), uniform(n) + 0.1, uniform(4096) + 0.1],
        384 * MB,
    ),
    GpuCase(
        "LAMB 8192x2048",
        lamb,
        lambda n=8192: [normal(n, 2048), normal(n, 2048, dtype=bf16), normal(n, 2048), uniform(n, 2048)],
        448 * MB,
        check=mostly(lamb, atol=1e-2, rtol=1e-2),
    ),
    GpuCase(
        "clip and average 5 tensors",
        clip_and_average,
        lambda n=4096: [tensors(n, torch.float32), tensors(n, bf16), tensors(n, torch.float32)],
        441 * MB,
    ),
    GpuCase(
        "pages of int8 keys",
        gather_pages,
        lambda n=64: [
            integers(127, n * 64, 16, 8, 128, low=-127, dtype=torch.int8),
            uniform(n * 64, 16, 8),
            integers(n * 64, n, 64),
            integers(1024, n, low=100),
        ],
        194 * MB,
        **LOW,
    ),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_weights", CASES)
