"""Matrix products with what surrounds them, on a CUDA device: layers of transformers, decoding, weights of few bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, bf16, randn, run_cases


def gelu_linear(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


def gelu_tanh_linear(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias), approximate="tanh")


def linear_residual(x, weight, bias, residual):
    return F.linear(x, weight, bias) + residual


def swiglu(x, gate, up):
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def swiglu_mlp(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def linear(x, weight):
    return F.linear(x, weight)


def scaled_int8(x, weight, scale):
    return F.linear(x, weight.to(x.dtype)) * scale


def gelu_backward(gradient, weight, x):
    return torch.ops.aten.gelu_backward(gradient @ weight, x)


def softmax_bmm(scores, values):
    return scores.softmax(-1) @ values


def odd_mlp(x, up, down):
    return F.linear(F.silu(F.linear(x, up)), down)


def head(x, weight, words):
    return F.cross_entropy(F.linear(x, weight).float(), words)


def joined_linear(x, more, weight):
    return F.linear(torch.cat([x, more], dim=-1), weight)


def bmm_scaled(a, b, mask):
    return (a @ b.transpose(1, 2)) * 0.125 + mask


def relu_squared(x, weight):
    return F.relu(F.linear(x, weight)).square()


def sigmoid_gate(x, weight, bias, other):
    return torch.sigmoid(F.linear(x, weight, bias)) * other


def attention(q, k, v):
    return F.softmax(q @ k.transpose(-2, -1) * 0.125, dim=-1) @ v


def masked_attention(q, k, v, mask):
    return (q @ k.transpose(-2, -1) * 0.125).masked_fill(mask == 0, float("-inf")).softmax(-1) @ v


def biased_attention(q, k, v, bias):
    return F.softmax((q @ k.transpose(-2, -1) + bias).float(), dim=-1).type_as(q) @ v


def _weights(*shape: int) -> torch.Tensor:
    return randn(*shape, dtype=bf16) * shape[-1] ** -0.5


def _case(name: str, function: Callable[..., Any], *sizes: tuple[int, ...]) -> GpuCase:
    """Arguments of these sizes in bfloat16; all but the first have the size of weights."""

    def make() -> list[Any]:
        return [randn(*sizes[0], dtype=bf16), *(_weights(*size) for size in sizes[1:])]

    return GpuCase(name, function, make, bytes_moved=sum(2 * math.prod(size) for size in sizes), rtol=3e-2, atol=3e-2)


def _of_int8(rows: int, columns: int, depth: int) -> GpuCase:
    def make() -> list[Any]:
        weight = torch.randint(-100, 100, (columns, depth), dtype=torch.int8, device="cuda")
        scale = torch.rand(columns, device="cuda").to(bf16) * 0.01 * depth**-0.5
        return [randn(rows, depth, dtype=bf16), weight, scale]

    return GpuCase(f"int8 weights {rows} of {depth} to {columns}", scaled_int8, make, columns * depth, 3e-2, 3e-2)


def _rows(m: int, k: int, *outputs: int) -> list[tuple[int, ...]]:
    return [(m, k), *((n, k) for n in outputs)]


CASES = [
    _case("gelu(linear) 4096^3", gelu_linear, (4096, 4096), (4096, 4096), (4096,)),
    _case("gelu(linear) 8192x1024 to 4096", gelu_linear, (8192, 1024), (4096, 1024), (4096,)),
    _case("gelu_tanh(linear) 2048x768 to 3072", gelu_tanh_linear, (2048, 768), (3072, 768), (3072,)),
    _case("linear + residual 8192x4096 to 1024", linear_residual, (8192, 4096), (1024, 4096), (1024,), (8192, 1024)),
    _case("linear + residual 2048x3072 to 768", linear_residual, (2048, 3072), (768, 3072), (768,), (2048, 768)),
    _case("SwiGLU 2048x4096 to 11008", swiglu, *_rows(2048, 4096, 11008, 11008)),
    _case("SwiGLU 8192x2048 to 5632", swiglu, *_rows(8192, 2048, 5632, 5632)),
    _case("SwiGLU 4 rows of 4096 to 11008", swiglu, *_rows(4, 4096, 11008, 11008)),
    _case("SwiGLU 1 row of 4096 to 14336", swiglu, *_rows(1, 4096, 14336, 14336)),
    _case("SwiGLU MLP 2048x4096x11008", swiglu_mlp, *_rows(2048, 4096, 11008, 11008), (4096, 11008)),
    _case("SwiGLU MLP 4x4096x11008", swiglu_mlp, *_rows(4, 4096, 11008, 11008), (4096, 11008)),
    _case("linear 1 row of 4096 to 4096", linear, *_rows(1, 4096, 4096)),
    _case("linear 16 rows of 8192 to 1024", linear, *_rows(16, 8192, 1024)),
    _case("linear 128 rows of 4096 to 4096", linear, *_rows(128, 4096, 4096)),
    _case("linear 4095x1001 to 4097", linear, (4095, 1001), (4097, 1001)),
    _case("MLP 8192x1001x4001", odd_mlp, (8192, 1001), (4001, 1001), (1001, 4001)),
    _case("linear of cat 8192x(512+3) to 1024", joined_linear, (8192, 512), (8192, 3), (1024, 515)),
    GpuCase(
        "cross entropy of 4096x768 to 50257",
        head,
        lambda: [randn(4096, 768, dtype=bf16), _weights(50257, 768), torch.randint(50257, (4096,), device="cuda")],
        2 * 50257 * 768,
        rtol=3e-2,
        atol=3e-2,
    ),
    _of_int8(16, 8192, 8192),
    _of_int8(64, 8192, 8192),
    _of_int8(2048, 4096, 4096),
    _case("gelu_backward(grad @ weight) 8192x1024 to 4096", gelu_backward, (8192, 1024), (1024, 4096), (8192, 4096)),
    _case("softmax(scores) @ values 64x1024x1024x128", softmax_bmm, (64, 1024, 1024), (64, 1024, 128)),
    _case("scaled q @ k.T + mask 64x1024x64", bmm_scaled, (64, 1024, 64), (64, 1024, 64), (1024, 1024)),
    _case("relu(linear)^2 4096x2048 to 8192", relu_squared, *_rows(4096, 2048, 8192)),
    _case("sigmoid(linear) * other 4096x2048 to 2048", sigmoid_gate, (4096, 2048), (2048, 2048), (2048,), (4096, 2048)),
]

_HEADS = (4, 16, 2048, 64)
CASES += [
    _case("attention written out 4x16x2048x64", attention, _HEADS, _HEADS, _HEADS),
    _case("attention written out, bias, 8x12x512x64", biased_attention, *[(8, 12, 512, 64)] * 3, (1, 12, 512, 512)),
    _case("attention written out, windows of 49", biased_attention, *[(1024, 6, 49, 32)] * 3, (6, 49, 49)),
    GpuCase(
        "attention written out, causal mask, 4x16x2048x64",
        masked_attention,
        lambda: [*(randn(*_HEADS, dtype=bf16) for _ in range(3)), torch.ones(2048, 2048, device="cuda").tril()],
        8 * math.prod(_HEADS),
        rtol=3e-2,
        atol=3e-2,
    ),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_products", CASES, is_cold=True)
