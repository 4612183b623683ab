"""Programs as users write them, of several operators each, on a CUDA device: as suite gpu_kernels."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row
from torch import nn

from suites.gpu_kernels import GpuCase, bf16, f32, randn, run_cases


def soft_histogram(x):
    centers = torch.linspace(-3, 3, 32, device=x.device)
    return torch.sigmoid((x[:, None] - centers) * 10).sum(0) - torch.sigmoid((x[:, None] - centers - 0.2) * 10).sum(0)


def black_scholes(spot, strike, years, rate, volatility):
    d1 = (torch.log(spot / strike) + (rate + volatility * volatility / 2) * years) / (volatility * torch.sqrt(years))
    d2 = d1 - volatility * torch.sqrt(years)
    normal = lambda z: 0.5 * (1 + torch.erf(z / math.sqrt(2)))  # noqa: E731
    discounted = strike * torch.exp(-rate * years)
    return spot * normal(d1) - discounted * normal(d2), discounted * normal(-d2) - spot * normal(-d1)


def n_body(position, mass):
    offset = position[None] - position[:, None]
    inverse = (offset.square().sum(-1) + 1e-2).rsqrt()
    return (offset * (mass[None] * inverse**3)[..., None]).sum(1)


def graph_attention(x, source, target, weight):
    scores = F.leaky_relu((x[source] * weight).sum(-1) + (x[target] * weight).sum(-1), 0.2)
    top = x.new_full((x.shape[0],), -math.inf).scatter_reduce(0, target, scores, "amax")
    shares = torch.exp(scores - top[target])
    total = x.new_zeros(x.shape[0]).index_add(0, target, shares)
    return torch.zeros_like(x).index_add(0, target, x[source] * (shares / total[target])[:, None])


def message_passing(x, source, target):
    messages = F.relu(x[source] - x[target])
    total = torch.zeros_like(x).index_add(0, target, messages)
    count = x.new_zeros(x.shape[0]).index_add(0, target, torch.ones_like(target, dtype=x.dtype))
    return total / count.clamp(min=1)[:, None]


def focal_loss(logits, targets):
    chance = torch.sigmoid(logits)
    wanted = F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    likely = chance * wanted + (1 - chance) * (1 - wanted)
    loss = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none") * (1 - likely) ** 2
    return (loss * (0.25 * wanted + 0.75 * (1 - wanted))).sum() / logits.shape[0]


def box_iou(a, b):
    area = lambda box: (box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])  # noqa: E731
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = (high - low).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared / (area(a)[:, None] + area(b)[None] - shared)


def best_box(a, b):
    return box_iou(a, b).max(1)


def vector_quantise(x, codes):
    distances = x.square().sum(1, keepdim=True) - 2 * x @ codes.t() + codes.square().sum(1)
    nearest = distances.argmin(1)
    chosen = codes[nearest]
    return x + (chosen - x).detach(), nearest, F.mse_loss(chosen, x)


def wkv(k, v, w, u):
    """RWKV's recurrence, eight steps written out."""
    numerator, denominator, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for t in range(8):
        now = torch.exp(u + k[:, t])
        outputs.append((numerator + now * v[:, t]) / (denominator + now))
        decay, chance = torch.exp(-torch.exp(w)), torch.exp(k[:, t])
        numerator, denominator = decay * numerator + chance * v[:, t], decay * denominator + chance
    return torch.stack(outputs, 1)


def sobel(image):
    padded = F.pad(image, (1, 1, 1, 1), mode="replicate")
    parts = {(i, j): padded[..., i : i + image.shape[-2], j : j + image.shape[-1]] for i in range(3) for j in range(3)}
    across = parts[0, 2] + 2 * parts[1, 2] + parts[2, 2] - parts[0, 0] - 2 * parts[1, 0] - parts[2, 0]
    down = parts[2, 0] + 2 * parts[2, 1] + parts[2, 2] - parts[0, 0] - 2 * parts[0, 1] - parts[0, 2]
    return torch.sqrt(across.square() + down.square() + 1e-6)


def augment(image, mean, std):
    shifted = torch.roll(image, (7, -5), (2, 3)).flip(3)
    return (shifted.float() / 255 - mean[:, None, None]) / std[:, None, None]


def roll_bytes(image):
    return image.roll((3, 3), (2, 3))


def ssim(x, y):
    mean_x, mean_y = F.avg_pool2d(x, 7, 1), F.avg_pool2d(y, 7, 1)
    var_x = F.avg_pool2d(x * x, 7, 1) - mean_x * mean_x
    var_y = F.avg_pool2d(y * y, 7, 1) - mean_y * mean_y
    both = F.avg_pool2d(x * y, 7, 1) - mean_x * mean_y
    top = (2 * mean_x * mean_y + 1e-4) * (2 * both + 9e-4)
    return (top / ((mean_x**2 + mean_y**2 + 1e-4) * (var_x + var_y + 9e-4))).mean()


def contrastive(a, b):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    logits = a @ b.t() / 0.07
    labels = torch.arange(a.shape[0], device=a.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def label_smoothing(logits, targets):
    return F.cross_entropy(logits, targets, label_smoothing=0.1, ignore_index=-1)


def distill(student, teacher):
    return F.kl_div(
        F.log_softmax(student / 4, -1), F.log_softmax(teacher / 4, -1), log_target=True, reduction="batchmean"
    )


def top_k_sampling(logits):
    values, _ = torch.topk(logits, 50)
    kept = logits.masked_fill(logits < values[:, -1:], -math.inf)
    return torch.softmax(kept / 0.7, -1)


def expert_gate(x, weight):
    chances = torch.softmax((x @ weight.t()).float(), -1)
    values, experts = chances.topk(2)
    load = chances.new_zeros(weight.shape[0]).index_add(0, experts.flatten(), chances.new_ones(experts.numel()))
    return values / values.sum(-1, keepdim=True), experts, (load / experts.numel() * chances.mean(0)).sum()


def rope_cache(q, k, cache, position):
    angle = position[:, None].float() / 10000 ** (torch.arange(0, 128, 2, device=q.device).float() / 128)
    cos, sin = angle.cos()[None, :, None].to(q.dtype), angle.sin()[None, :, None].to(q.dtype)
    turn = lambda x: torch.cat([x[..., :64] * cos - x[..., 64:] * sin, x[..., 64:] * cos + x[..., :64] * sin], -1)  # noqa: E731
    cache.index_copy_(1, position, turn(k))
    return turn(q)


def quantise_groups(x):
    groups = x.float().unflatten(-1, (-1, 128))
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
    return torch.round(groups / scale).clamp(-128, 127).to(torch.int8).flatten(-2), scale.squeeze(-1)


def dequantise_int4(packed, scale):
    low, high = (packed & 15).to(torch.int8) - 8, (packed >> 4).to(torch.int8) - 8
    return (torch.stack([low, high], -1).flatten(-2).unflatten(-1, (-1, 64)) * scale[..., None]).flatten(-2).to(bf16)


def heat(u):
    for _ in range(4):
        u = u + 0.1 * (u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u)
    return u


def standardise(x, low, high):
    x = torch.where(torch.isnan(x), x.nanmean(0), x).clamp(low, high)
    return (x - x.mean(0)) / (x.std(0) + 1e-6)


def returns(rewards, done, values):
    """Advantages by generalised estimation, 16 steps."""
    advantage, result = torch.zeros_like(rewards[-1]), []
    for t in reversed(range(rewards.shape[0])):
        alive = 1 - done[t]
        delta = rewards[t] + 0.99 * values[t + 1] * alive - values[t]
        advantage = delta + 0.99 * 0.95 * alive * advantage
        result.append(advantage)
    return torch.stack(result[::-1])


def policy_loss(logits, actions, old, advantage):
    chances = F.log_softmax(logits, -1)
    ratio = torch.exp(chances.gather(1, actions[:, None])[:, 0] - old)
    clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    return -clipped.mean() - 0.01 * -(chances.exp() * chances).sum(-1).mean()


def nerf(density, colour, depth):
    steps = F.pad(depth[:, 1:] - depth[:, :-1], (0, 1), value=1e10)
    alpha = 1 - torch.exp(-F.relu(density) * steps)
    seen = torch.cumprod(F.pad(1 - alpha[:, :-1] + 1e-10, (1, 0), value=1.0), 1)
    weights = alpha * seen
    return (weights[..., None] * torch.sigmoid(colour)).sum(1), (weights * depth).sum(1)


def quaternions(q):
    w, x, y, z = F.normalize(q, dim=-1).unbind(-1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    rows += [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    rows += [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def squeeze_excite(x, down, up):
    gate = torch.sigmoid(F.silu(x.mean((2, 3)) @ down) @ up)
    return x * gate[:, :, None, None]


def window_partition(x):
    n, h, w, c = x.shape
    x = F.layer_norm(x.roll((-4, -4), (1, 2)), (c,))
    return x.view(n, h // 8, 8, w // 8, 8, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 64, c)


def kernel_density(x, points):
    return torch.exp(-((x[None] - points[:, None]) ** 2).sum(-1) / 2).mean(1)


def instance_norm_padded(x):
    return F.relu(F.instance_norm(F.pad(x, (1, 1, 1, 1), mode="reflect")))


class Block(nn.Module):
    def __init__(self, channels: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        self.before, self.after = norm(channels), norm(channels)

    def forward(self, x):
        return x + self.second(F.silu(self.after(self.first(F.silu(self.before(x))))))


class Denoiser(nn.Module):
    """Two levels of residual blocks with group norm, as in the U-Nets of diffusion models."""

    def __init__(self, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(4, 64, 3, padding=1), nn.Conv2d(64, 4, 3, padding=1)
        self.top, self.low, self.end = Block(64, norm), Block(128, norm), Block(64, norm)
        self.down, self.up = nn.Conv2d(64, 128, 3, 2, 1), nn.Conv2d(128, 64, 3, padding=1)

    def forward(self, x):
        top = self.top(self.enter(x))
        low = self.low(self.down(top))
        return self.leave(self.end(top + self.up(F.interpolate(low, scale_factor=2.0))))


def _model(model: nn.Module, dtype: torch.dtype) -> Callable[..., Any]:
    """The model as a function of its input; a copy in float64 gives the expected result."""
    made: list[nn.Module] = []

    def function(x):
        return made[x.dtype == torch.float64](x)

    def prepare(*shape: int) -> Sequence[Any]:
        made[:] = [copy.deepcopy(model).to("cuda", kind).eval() for kind in (dtype, torch.float64)]
        return [randn(*shape, dtype=dtype)]

    function.prepare = prepare
    return function


def integers(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape, device="cuda")


def uniform(*shape: int) -> torch.Tensor:
    return torch.rand(shape, device="cuda")


def boxes(count: int) -> torch.Tensor:
    corner = uniform(count, 2) * 500
    return torch.cat([corner, corner + 1 + uniform(count, 2) * 100], 1)


LOW = {"rtol": 2e-2, "atol": 2e-2}
MB = 1 << 20
E, V = 1 << 20, 1 << 17  # edges and nodes of graphs

CASES = [
    GpuCase("soft histogram 2^20 into 32", soft_histogram, lambda: [randn(MB)], 4 * MB, atol=1.0),
    GpuCase(
        "black-scholes 2^24", black_scholes, lambda: [uniform(1 << 24) + 0.5 for _ in range(5)], 7 << 26, atol=1e-4
    ),
    GpuCase("n-body 4096", n_body, lambda: [randn(4096, 3), uniform(4096)], 4096 * 28, atol=1e-2),
    GpuCase(
        "graph attention",
        graph_attention,
        lambda: [randn(V, 64), integers(V, E), integers(V, E), randn(64)],
        E * 3 * 256,
        atol=1e-3,
    ),
    GpuCase(
        "message passing",
        message_passing,
        lambda: [randn(V, 64), integers(V, E), integers(V, E)],
        E * 3 * 256,
        atol=1e-3,
    ),
    GpuCase("focal loss 65536x80", focal_loss, lambda: [randn(65536, 80), integers(80, 65536)], 65536 * 320),
    GpuCase(
        "focal loss and gradient",
        focal_loss,
        lambda: [randn(65536, 80), integers(80, 65536)],
        65536 * 960,
        is_training=True,
        atol=1e-4,
    ),
    GpuCase("IoU 8192x2048", box_iou, lambda: [boxes(8192), boxes(2048)], 8192 * 2048 * 4, atol=1e-4),
    GpuCase("best IoU 16384x256", best_box, lambda: [boxes(16384), boxes(256)], 16384 * 16, atol=1e-4),
    GpuCase(
        "vector quantisation", vector_quantise, lambda: [randn(32768, 64), randn(1024, 64)], 32768 * 1024 * 8, atol=1e-2
    ),
    GpuCase(
        "WKV, 8 steps",
        wkv,
        lambda: [randn(4096, 8, 1024) * 0.1, randn(4096, 8, 1024), randn(1024), randn(1024)],
        4096 * 8192 * 12,
        atol=1e-3,
    ),
    GpuCase("sobel 64x3x512x512", sobel, lambda: [randn(64, 3, 512, 512)], 64 * 3 * MB * 2, atol=1e-3),
    GpuCase(
        "augment bytes",
        augment,
        lambda: [integers(256, 64, 3, 512, 512).to(torch.uint8), uniform(3), uniform(3) + 1],
        64 * 3 * 5 << 18,
        atol=1e-4,
    ),
    GpuCase("roll bytes", roll_bytes, lambda: [integers(256, 64, 3, 512, 512).to(torch.uint8)], 64 * 6 << 18),
    GpuCase("SSIM 16x3x512x512", ssim, lambda: [uniform(16, 3, 512, 512), uniform(16, 3, 512, 512)], 16 * 6 * MB),
    GpuCase("contrastive 4096x512", contrastive, lambda: [randn(4096, 512), randn(4096, 512)], 4096 * 4096 * 8),
    GpuCase(
        "label smoothing bf16 8192x32000",
        label_smoothing,
        lambda: [randn(8192, 32000, dtype=bf16), integers(32000, 8192)],
        8192 * 64000,
        **LOW,
    ),
    GpuCase(
        "label smoothing gradient",
        label_smoothing,
        lambda: [randn(8192, 32000, dtype=bf16), integers(32000, 8192)],
        8192 * 128000,
        is_training=True,
        **LOW,
    ),
    GpuCase(
        "distillation 8192x10000", distill, lambda: [randn(8192, 10000), randn(8192, 10000)], 8192 * 80000, atol=1e-4
    ),
    GpuCase(
        "distillation gradient",
        distill,
        lambda: [randn(8192, 10000), randn(8192, 10000)],
        8192 * 200000,
        is_training=True,
        atol=1e-4,
    ),
    GpuCase("top-k sampling 256x50257", top_k_sampling, lambda: [randn(256, 50257)], 256 * 50257 * 8),
    GpuCase(
        "expert gate",
        expert_gate,
        lambda: [randn(32768, 256, dtype=bf16), randn(64, 256, dtype=bf16)],
        32768 * 512,
        check=lambda arguments, result: "",
    ),
    GpuCase(
        "rotary into a cache",
        rope_cache,
        lambda: [
            randn(16, 1024, 16, 128, dtype=bf16),
            randn(16, 1024, 16, 128, dtype=bf16),
            torch.zeros(16, 2048, 16, 128, device="cuda", dtype=bf16),
            torch.arange(1024, device="cuda"),
        ],
        4 << 26,
        **LOW,
    ),
    GpuCase(
        "quantise groups 8192x8192",
        quantise_groups,
        lambda: [randn(8192, 8192, dtype=bf16)],
        3 << 26,
        check=lambda arguments, result: "",
    ),
    GpuCase(
        "dequantise int4 8192x4096",
        dequantise_int4,
        lambda: [integers(256, 8192, 4096).to(torch.uint8), uniform(8192, 128)],
        5 << 25,
        **LOW,
    ),
    GpuCase("heat 4096x4096, 4 steps", heat, lambda: [randn(4096, 4096)], 8 << 24, atol=1e-4),
    GpuCase("standardise 262144x64", standardise, lambda: [randn(262144, 64), -2.0, 2.0], 8 << 24, atol=1e-4),
    GpuCase(
        "advantages, 16 steps",
        returns,
        lambda: [randn(16, MB), (uniform(16, MB) < 0.01).float(), randn(17, MB)],
        4 * 65 * MB,
        atol=1e-3,
    ),
    GpuCase(
        "policy loss 262144x18",
        policy_loss,
        lambda: [randn(1 << 18, 18), integers(18, 1 << 18), randn(1 << 18) * 0.1 - 3, randn(1 << 18)],
        (1 << 18) * 88,
    ),
    GpuCase(
        "policy loss gradient",
        policy_loss,
        lambda: [randn(1 << 18, 18), integers(18, 1 << 18), randn(1 << 18) * 0.1 - 3, randn(1 << 18)],
        (1 << 18) * 160,
        is_training=True,
        atol=1e-4,
    ),
    GpuCase(
        "radiance 65536x128",
        nerf,
        lambda: [randn(65536, 128), randn(65536, 128, 3), uniform(65536, 128).cumsum(1)],
        65536 * 128 * 20,
        atol=1e-3,
    ),
    GpuCase("quaternions 2^22", quaternions, lambda: [randn(1 << 22, 4)], 52 << 22, atol=1e-4),
    GpuCase(
        "squeeze and excite",
        squeeze_excite,
        lambda: [randn(64, 256, 56, 56), randn(256, 16), randn(16, 256)],
        64 * 256 * 56 * 56 * 12,
        atol=1e-3,
    ),
    GpuCase(
        "shifted windows bf16",
        window_partition,
        lambda: [randn(64, 56, 56, 128, dtype=bf16)],
        64 * 56 * 56 * 512,
        **LOW,
    ),
    GpuCase("kernel density 4096x8192x3", kernel_density, lambda: [randn(8192, 3), randn(4096, 3)], 12288 * 12),
    GpuCase(
        "instance norm, reflected",
        instance_norm_padded,
        lambda: [randn(32, 64, 128, 128)],
        32 * 64 * 128 * 128 * 8,
        atol=1e-3,
    ),
]
for _name, _norm in [("batch", nn.BatchNorm2d), ("group", lambda channels: nn.GroupNorm(8, channels))]:
    for _dtype in [f32, bf16]:
        _function = _model(Denoiser(_norm), _dtype)
        CASES.append(
            GpuCase(
                f"denoiser, {_name} norm {'bf16' if _dtype is bf16 else 'f32'}",
                _function,
                lambda prepare=_function.prepare: prepare(16, 4, 128, 128),
                16 * 64 << 14,
                rtol=5e-2,
                atol=5e-2,
            )
        )


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_programs", CASES)
