"""Small graphs that should become one kernel, or one and a reduction's second half; 4 KB to 64 MB of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from harness import Case, Row, run_case
from reference import dropout_differs

f64, f32, bf16, f16 = torch.float64, torch.float32, torch.bfloat16, torch.float16


def randn(*shape: int, dtype: torch.dtype = f32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def case(name: str, function: Callable[..., Any], arguments: Callable[[], Sequence[Any]], **options: Any) -> Case:
    return Case(name, lambda: (function, arguments()), **options)


def add(x, y):
    return x + y


def bias_gelu_residual(x, bias, residual):
    return F.gelu(x + bias) + residual


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def silu_mul(gate, up):
    return F.silu(gate) * up


def softmax(x):
    return torch.softmax(x, -1)


def causal_softmax(x, mask):
    return torch.softmax(x.masked_fill(mask, float("-inf")) * 0.125, -1)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm_residual(x, residual, weight):
    x = (x + residual).float()
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)).to(residual.dtype) * weight


def column_sum(x):
    return x.sum(0)


def full_sum(x):
    return x.sum()


def row_mean(x):
    return x.mean(-1)


def transposed_add(x, y):
    return x + y.t()


def batch_norm_relu(x, weight, bias, mean, var):
    return F.relu(F.batch_norm(x, mean, var, weight, bias, training=True, momentum=0.1))


def group_norm(x, weight, bias):
    return F.group_norm(x, 8, weight, bias)


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


def rotary(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def argmax(x):
    return x.argmax(-1)


def embedding(ids, table, positions):
    return F.embedding(ids, table) + positions


def cat_relu(x, y):
    return F.relu(torch.cat((x, y), 1))


def quantize(x, scale):
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


def count_in_range(x, low, high):
    return ((x >= low) & (x < high)).sum(-1)


def transcendental(x):
    return torch.sin(x) * torch.exp(-x * x) + torch.log1p(x.abs())


def adam(param, grad, mean, square):
    mean = torch.lerp(mean, grad, 0.1)
    square = square * 0.999 + grad * grad * 0.001
    return param - 1e-3 * mean / (square.sqrt() + 1e-8), mean, square


def dropout_residual(x, residual):
    return F.dropout(x, 0.1, training=True) + residual


def pick(x, index):
    return torch.gather(x, 1, index) * 2


def cumulative_sum(x):
    return torch.cumsum(x, 1)


def bilinear(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def column_max(x):
    return x.amax(0)


def row_variance(x):
    return torch.var(x, -1)


def to_channels_last(x):
    return x.contiguous(memory_format=torch.channels_last)


def adamw_step(params, grads, means, squares):
    torch._foreach_mul_(params, 1 - 1e-3 * 1e-2)
    torch._foreach_lerp_(means, grads, 0.1)
    torch._foreach_mul_(squares, 0.999)
    torch._foreach_addcmul_(squares, grads, grads, 0.001)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_addcdiv_(params, means, roots, -1e-3)


def adam_step_by_step(params, grads, means, squares):
    """As an optimizer without `foreach` is compiled."""
    for param, grad, mean, square in zip(params, grads, means, squares, strict=True):
        mean.lerp_(grad, 0.1)
        square.mul_(0.999).addcmul_(grad, grad, value=0.001)
        param.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)


def small_parameters() -> list[list[torch.Tensor]]:
    return [[randn(64, 64, seed=i + 100 * k).abs() for i in range(100)] for k in range(4)]


def adamw_arguments(count: int = 48) -> list[list[torch.Tensor]]:
    """Four lists of parameters like those of a small transformer: matrices and vectors."""
    shapes = [(256, 256), (256,), (1024, 256), (1024,)]
    lists = [[randn(*shapes[i % 4], seed=i + 100 * k).abs() for i in range(count)] for k in range(4)]
    return lists


def batch_norm_arguments(grad: bool = False) -> list[torch.Tensor]:
    x = randn(16, 64, 32, 32).to(memory_format=torch.channels_last)
    data = [x, randn(64, seed=1), randn(64, seed=2)]
    return [*(t.requires_grad_(grad) for t in data), torch.zeros(64), torch.ones(64)]


def layer_norm_arguments(rows: int, width: int, dtype: torch.dtype = f32, grad: bool = False) -> list[torch.Tensor]:
    data = [randn(rows, width, dtype=dtype), randn(width, dtype=dtype, seed=1), randn(width, dtype=dtype, seed=2)]
    return [t.requires_grad_(grad) for t in data]


def cross_entropy_arguments(grad: bool = False) -> list[torch.Tensor]:
    return [randn(1024, 8192).requires_grad_(grad), torch.arange(1024) * 7 % 8192]


# The ten that the project's target for kernels is a geometric mean over.
HEADLINE = [
    case("add f32 1024x1024", add, lambda: [randn(1024, 1024), randn(1024, 1024, seed=1)]),
    case(
        "bias_gelu_residual bf16 512x4096",
        bias_gelu_residual,
        lambda: [randn(512, 4096, dtype=bf16), randn(4096, dtype=bf16), randn(512, 4096, dtype=bf16, seed=1)],
        rtol=2e-2,
    ),
    case("softmax f32 1024x1024", softmax, lambda: [randn(1024, 1024)]),
    case("layer_norm f32 1024x1024", layer_norm, lambda: layer_norm_arguments(1024, 1024)),
    case(
        "rms_norm_residual bf16 1024x1024",
        rms_norm_residual,
        lambda: [randn(1024, 1024, dtype=bf16), randn(1024, 1024, dtype=bf16, seed=1), randn(1024, dtype=bf16)],
        rtol=2e-2,
    ),
    case("column_sum f32 4096x1024", column_sum, lambda: [randn(4096, 1024)]),
    case("full_sum f32 4M", full_sum, lambda: [randn(2048, 2048)], atol=1e-1),
    case("transposed_add f32 1024x1024", transposed_add, lambda: [randn(1024, 1024), randn(1024, 1024, seed=1)]),
    case("batch_norm_relu train f32", batch_norm_relu, batch_norm_arguments),
    case("cross_entropy f32 1024x8192", cross_entropy, cross_entropy_arguments),
]

BACKWARD = [
    case("batch_norm_relu train+bwd f32", batch_norm_relu, lambda: batch_norm_arguments(True), grad=True),
    case(
        "layer_norm train+bwd f32 1024x768", layer_norm, lambda: layer_norm_arguments(1024, 768, grad=True), grad=True
    ),
    case("cross_entropy train+bwd f32 1024x8192", cross_entropy, lambda: cross_entropy_arguments(True), grad=True),
    case("softmax train+bwd f32 1024x1024", softmax, lambda: [randn(1024, 1024).requires_grad_(True)], grad=True),
]

MORE = [
    case("add f32 4KB", add, lambda: [randn(1024), randn(1024, seed=1)]),
    case(
        "add bf16 64MB",
        add,
        lambda: [randn(4096, 8192, dtype=bf16), randn(4096, 8192, dtype=bf16, seed=1)],
        rtol=2**-8,
    ),
    case("gelu_tanh f32 256x1024", gelu_tanh, lambda: [randn(256, 1024)]),
    case(
        "silu_mul bf16 1024x2816",
        silu_mul,
        lambda: [randn(1024, 2816, dtype=bf16), randn(1024, 2816, dtype=bf16, seed=1)],
        rtol=2e-2,
    ),
    case("softmax bf16 64x32768", softmax, lambda: [randn(64, 32768, dtype=bf16)], rtol=2e-2, atol=1e-4),
    case(
        "causal_softmax f32 32x256x256",
        causal_softmax,
        lambda: [randn(32, 256, 256), torch.ones(256, 256, dtype=torch.bool).triu(1)],
    ),
    case("layer_norm f16 256x768", layer_norm, lambda: layer_norm_arguments(256, 768, f16), rtol=1e-2),
    case("row_mean f32 65536x16", row_mean, lambda: [randn(65536, 16)]),
    case("group_norm f32 8x64x1024", group_norm, lambda: [randn(8, 64, 1024), randn(64), randn(64, seed=1)]),
    case(
        "rotary f32 4x8x256x64",
        rotary,
        lambda: [randn(4, 8, 256, 64), randn(256, 64), randn(256, 64, seed=1)],
    ),
    case("argmax f32 1024x4096", argmax, lambda: [randn(1024, 4096)]),
    case(
        "embedding bf16 4096 of 8192x256",
        embedding,
        lambda: [torch.arange(4096) * 13 % 8192, randn(8192, 256, dtype=bf16), randn(4096, 256, dtype=bf16)],
        rtol=2e-2,
    ),
    case("cat_relu f32 1024x(512+256)", cat_relu, lambda: [randn(1024, 512), randn(1024, 256)]),
    case("quantize f32->i8 1024x4096", quantize, lambda: [randn(1024, 4096), torch.tensor(0.05)], atol=1),
    case(
        "count_in_range i64 1024x1024",
        count_in_range,
        lambda: [torch.arange(1 << 20).view(1024, 1024) * 7919 % 1000, 100, 900],
    ),
    case("transcendental f64 256K", transcendental, lambda: [randn(512, 512, dtype=f64)]),
    case("adam f32 1M", adam, lambda: [randn(1 << 20, seed=i).abs() for i in range(4)]),
    case("add f32 256MB", add, lambda: [randn(1 << 26), randn(1 << 26, seed=1)]),
    case("add i64 1M", add, lambda: [torch.arange(1 << 20), torch.arange(1 << 20) * 3]),
    case(
        "dropout_residual f32 2M",
        dropout_residual,
        lambda: [randn(1 << 21), randn(1 << 21, seed=1)],
        check=dropout_differs,
    ),
    case(
        "gather f32 1024x1024 of 1024x4096",
        pick,
        lambda: [randn(1024, 4096), torch.arange(1 << 20).view(1024, 1024) * 7919 % 4096],
    ),
    case(
        "embedding train+bwd f32 4096 of 8192x256",
        lambda weight, index: F.embedding(index, weight),
        lambda: [randn(8192, 256).requires_grad_(True), torch.arange(4096) * 13 % 8192],
        grad=True,
    ),
    case("cumsum f32 1024x4096", cumulative_sum, lambda: [randn(1024, 4096)], rtol=1e-3, atol=1e-2),
    case("bilinear f32 8x16x64x64", bilinear, lambda: [randn(8, 16, 64, 64)]),
    case("max_pool f32 16x32x64x64", max_pool, lambda: [randn(16, 32, 64, 64)]),
    case("column_max bf16 4096x2048", column_max, lambda: [randn(4096, 2048, dtype=bf16)]),
    case("row_variance f32 4096x768", row_variance, lambda: [randn(4096, 768)]),
    case("to_channels_last f32 16x64x56x56", to_channels_last, lambda: [randn(16, 64, 56, 56)]),
    case("adamw_step f32 48 tensors", adamw_step, adamw_arguments),
    case("adam f32 100 tensors of 64x64, one by one", adam_step_by_step, small_parameters),
]


def run(options: Any) -> list[Row]:
    rows = []
    for one in HEADLINE + BACKWARD + MORE:
        if options.selects(one.name):
            rows += options.report(run_case("kernels", one, options.backends, options.rounds))
    return rows
