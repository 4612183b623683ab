"""Parts of models on a CUDA device: norms, gates, routing, positions, recurrences, pooling. As suite gpu_programs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, run_cases
from suites.inputs import LOW, MB, arange, bf16, channels_last, f16, integers, mostly, normal, uniform


def normed_rotary(packed, weight_q, weight_k, cos, sin):
    """Queries and keys of a packed projection: a norm for each head, then pairs of neighbours are rotated."""
    q, k, v = packed.unflatten(2, (3, -1, 128)).unbind(2)

    def turn(x, weight):
        wide = x.float()
        x = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight
        even, odd = x[..., ::2], x[..., 1::2]
        c, s = cos[:, None], sin[:, None]
        return torch.stack([even * c - odd * s, even * s + odd * c], -1).flatten(-2).transpose(1, 2)

    return turn(q, weight_q), turn(k, weight_k), v.transpose(1, 2).contiguous()


def alibi(scores):
    """Causal softmax whose scores fall with distance, at a rate of each head."""
    heads, length = scores.shape[1], scores.shape[2]
    slope = 2.0 ** (-8 * torch.arange(1, heads + 1, device=scores.device) / heads)
    place = torch.arange(length, device=scores.device)
    distance = place[:, None] - place
    biased = scores.float() / 8 - slope[:, None, None] * distance
    return biased.masked_fill(distance < 0, -math.inf).softmax(-1).to(scores.dtype)


def bucket_bias(scores, table, mask):
    """T5's bias: exact for near positions, logarithmic for far ones; both directions, padded keys."""
    place = torch.arange(scores.shape[2], device=scores.device)
    relative = place[None] - place[:, None]
    far = relative.abs()
    large = 8 + (torch.log((far.clamp(min=1) + 0.01) / 8) / math.log(128 / 8) * 8).long().clamp(max=7)
    bucket = torch.where(far < 8, far, large) + 16 * (relative > 0)
    biased = scores + table[bucket].permute(2, 0, 1)
    return biased.masked_fill(~mask[:, None, None], torch.finfo(torch.float16).min).softmax(-1)


def route_with_capacity(x, logits):
    """Each token to one expert, which takes so many; the others pass by. Sorted into slots, scaled, brought back."""
    tokens, experts = logits.shape
    capacity = tokens // experts
    chance, expert = torch.softmax(logits, 1).max(1)
    chosen = F.one_hot(expert, experts)
    place = (chosen.cumsum(0) * chosen).sum(1) - 1
    fits = place < capacity
    slot = torch.where(fits, expert * capacity + place, experts * capacity)
    slots = x.new_zeros(experts * capacity + 1, x.shape[1]).index_copy(0, slot, x)
    work = F.silu(slots) * slots
    return torch.where(fits[:, None], work[slot] * chance[:, None].to(x.dtype), x), chosen.sum(0)


def modulate(x, condition, residual):
    """A norm without weights, scaled, shifted and gated by a condition, as in diffusion transformers; squared."""
    shift, scale, gate = condition[:, None].chunk(3, dim=-1)
    y = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
    return (residual + gate * F.gelu(y, approximate="tanh")).float().square().sum()


def filter_response(x, weight, bias, threshold):
    """Response norm over the pixels of each filter, and a learnt threshold."""
    shape = (1, -1, 1, 1)
    y = x * torch.rsqrt(x.square().mean((2, 3), keepdim=True) + 1e-5)
    y = torch.maximum(y * weight.view(shape) + bias.view(shape), threshold.view(shape))
    return (y * y).sum() / 2


def response_norm(x, weight, bias):
    """Channels compete by their norms over all pixels (ConvNeXt 2); pixels before channels."""
    size = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
    return weight * (x * (size / (size.mean(-1, keepdim=True) + 1e-6))) + bias + x


def selective_scan(u, delta, decay, b, c, skip):
    """Mamba's recurrence, eight steps: a state of 16 for each channel."""
    delta = F.softplus(delta)
    state, outputs = torch.zeros_like(u[:, 0, :, None] * decay), []
    for t in range(8):
        step = delta[:, t, :, None]
        state = torch.exp(step * decay) * state + step * b[:, t, None] * u[:, t, :, None]
        outputs.append((state * c[:, t, None]).sum(-1))
    return torch.stack(outputs, 1) + u * skip


def minimal_unit(x, gates):
    """A gated unit whose gates do not read the state, 16 steps; the sum of squares of what it says."""
    hidden, loss = torch.zeros_like(x[:, 0]), 0
    candidate = torch.where(x >= 0, x + 0.5, torch.sigmoid(x))
    for t in range(16):
        gate = torch.sigmoid(gates[:, t])
        hidden = (1 - gate) * hidden + gate * candidate[:, t]
        loss = loss + hidden.square().sum()
    return loss / 2


def mix_tokens(x, shares):
    """Each token mixed with the one before it in three ways, each through a gate (RWKV)."""
    before = F.pad(x[:, :-1], (0, 0, 1, 0))
    r, k, v = (torch.lerp(before, x, share) for share in shares)
    return (torch.sigmoid(r) * F.relu(k).square() * v).float().sum()


def upsample_shuffled(x, skip):
    """Channels become pixels, on top of a bilinear picture."""
    return (F.pixel_shuffle(x, 2) + F.interpolate(skip, scale_factor=2.0, mode="bilinear")).clamp(0, 1)


def merge_patches(x, weight, bias):
    """Squares of 2 x 2 tokens side by side, and their norm (Swin); channels come last."""
    parts = torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], -1)
    return F.layer_norm(parts, parts.shape[-1:], weight, bias).square().float().sum() / 2


def attentive_statistics(x, scores, lengths):
    """Mean and deviation over valid frames, weighted by attention of each channel; and the largest value."""
    valid = (torch.arange(x.shape[2], device=x.device) < lengths[:, None])[:, None]
    weight = scores.float().masked_fill(~valid, -math.inf).softmax(2)
    mean = (weight * x).sum(2)
    deviation = ((weight * x * x).sum(2) - mean * mean).clamp(min=1e-4).sqrt()
    return torch.cat([mean, deviation, x.float().masked_fill(~valid, -math.inf).amax(2)], 1).square().sum()


def graph_readout(x, scores, graph, count):
    """Mean, largest value and softmax-weighted sum over the nodes of each of many graphs."""
    size = count.shape[0]
    total = x.new_zeros(size, x.shape[1]).index_add(0, graph, x)
    place = graph[:, None].expand_as(x)
    most = x.new_full((size, x.shape[1]), -math.inf).scatter_reduce(0, place, x, "amax")
    top = scores.new_full((size,), -math.inf).scatter_reduce(0, graph, scores, "amax")
    share = torch.exp(scores - top[graph])
    norm = scores.new_zeros(size).index_add(0, graph, share)
    weighted = torch.zeros_like(total).index_add(0, graph, x * (share / norm[graph])[:, None])
    return torch.cat([total / count[:, None], most, weighted], 1)


def word_bags(table, words, weights):
    """Weighted means of rows of a table, which all get gradients; word 0 is padding."""
    weights = weights * (words != 0)
    bags = (table[words] * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1e-3)
    return F.softplus(bags).sum()


def clamped_gate(x):
    """Gates and values in turn, both bounded."""
    gate, value = x[..., ::2].float().clamp(max=7), x[..., 1::2].float().clamp(-7, 7)
    return ((value + 1) * gate * torch.sigmoid(1.702 * gate)).sum()


def spatial_pyramid(x):
    """Means and maxima over 1, 4 and 16 parts of images of odd size."""
    parts = [pool(x, size).flatten(1) for size in (1, 2, 4) for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d)]
    return F.normalize(torch.cat(parts, 1), dim=1)


def scan_inputs(n: int) -> list[torch.Tensor]:
    wide, states = [normal(n, 8, 1024) for _ in range(2)], [normal(n, 8, 16) for _ in range(2)]
    return [*wide, -uniform(1024, 16, low=0.1, high=4), *states, normal(1024)]


def graphs(n: int) -> list[torch.Tensor]:
    number = arange(n * 16) // 16
    return [normal(n * 16, 64), normal(n * 16), number, torch.full_like(number[:n], 16)]


CASES = [
    GpuCase(
        "norm and rotary of packed heads bf16",
        normed_rotary,
        lambda n=8: [
            normal(n, 1024, 3 * 16 * 128, dtype=bf16),
            *(normal(128, dtype=bf16) for _ in range(2)),
            *(uniform(1024, 64, dtype=bf16) for _ in range(2)),
        ],
        192 * MB,
        rtol=2e-2,
        atol=5e-2,
    ),
    GpuCase("ALiBi f16 8x12x1024x1024", alibi, lambda n=8: [normal(n, 12, 1024, 1024, dtype=f16)], 384 * MB, **LOW),
    GpuCase(
        "bucketed bias 16x12x512x512",
        bucket_bias,
        lambda n=16: [normal(n, 12, 512, 512), normal(32, 12), arange(512) < integers(512, n, 1, low=64)],
        384 * MB,
    ),
    GpuCase(
        "routing with capacity bf16",
        route_with_capacity,
        lambda n=32768: [normal(n, 768, dtype=bf16), normal(n, 32)],
        100 * MB,
        check=mostly(route_with_capacity, **LOW),
    ),
    GpuCase(
        "modulated norm, gradient bf16",
        modulate,
        lambda n=32: [
            normal(n, 1024, 1152, dtype=bf16),
            0.3 * normal(n, 3 * 1152, dtype=bf16),
            normal(n, 1024, 1152, dtype=bf16),
        ],
        216 * MB,
        is_training=True,
        check=mostly(modulate, rtol=5e-2, atol=5e-2, share=1e-2),
    ),
    GpuCase(
        "filter response, gradient",
        filter_response,
        lambda n=32: [channels_last(normal(n, 128, 56, 56)), *(normal(128) for _ in range(3))],
        98 * MB,
        is_training=True,
        check=mostly(filter_response),
    ),
    GpuCase(
        "response norm 64x28x28x384",
        response_norm,
        lambda n=64: [normal(n, 28, 28, 384), normal(384), normal(384)],
        147 * MB,
    ),
    GpuCase("selective scan, 8 steps", selective_scan, lambda n=1024: scan_inputs(n), 97 * MB),
    GpuCase(
        "minimal unit, gradient",
        minimal_unit,
        lambda n=1024: [normal(n, 16, 768), normal(n, 16, 768)],
        144 * MB,
        is_training=True,
        check=mostly(minimal_unit),
    ),
    GpuCase(
        "mixed tokens, gradient bf16",
        mix_tokens,
        lambda n=32: [normal(n, 1024, 1024, dtype=bf16), uniform(3, 1024, dtype=bf16)],
        128 * MB,
        is_training=True,
        check=mostly(mix_tokens, rtol=5e-2, atol=1e-1, share=1e-2),
    ),
    GpuCase(
        "shuffled pixels f16",
        upsample_shuffled,
        lambda n=16: [normal(n, 12, 540, 960, dtype=f16), uniform(n, 3, 540, 960, dtype=f16)],
        427 * MB,
        **LOW,
    ),
    GpuCase(
        "merged patches, gradient",
        merge_patches,
        lambda n=64: [normal(n, 56, 56, 192), normal(768), normal(768)],
        294 * MB,
        is_training=True,
        check=mostly(merge_patches),
    ),
    GpuCase(
        "attentive statistics, gradient bf16",
        attentive_statistics,
        lambda n=64: [normal(n, 1536, 300, dtype=bf16), normal(n, 1536, 300, dtype=bf16), integers(300, n, low=50)],
        169 * MB,
        is_training=True,
        check=mostly(attentive_statistics, **LOW),
    ),
    GpuCase("readout of 65536 graphs", graph_readout, lambda n=65536: graphs(n), 316 * MB),
    GpuCase(
        "bags of words, gradient",
        word_bags,
        lambda n=65536: [normal(4 * n, 64), integers(4 * n, n, 20), uniform(n, 20)],
        143 * MB,
        is_training=True,
        check=mostly(word_bags),
    ),
    GpuCase(
        "clamped gate, gradient bf16",
        clamped_gate,
        lambda n=8192: [3 * normal(n, 5760, dtype=bf16)],
        180 * MB,
        is_training=True,
        check=mostly(clamped_gate, **LOW),
    ),
    GpuCase(
        "spatial pyramid 64x256x57x57", spatial_pyramid, lambda n=64: [channels_last(normal(n, 256, 57, 57))], 206 * MB
    ),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_layers", CASES)
