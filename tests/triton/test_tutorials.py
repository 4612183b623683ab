"""Triton's tutorials 01 to 06 and 08 on CPU: through Triton, by the tile language, interpreted, and in torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_tile
from tests.triton import tutorials

Tensors = list[torch.Tensor]


def vector_add(module: Any) -> tuple[Tensors, Tensors]:
    x, y = torch.rand(9843), torch.rand(9843)
    return [module.add(x, y)], [x + y]


def softmax(module: Any) -> tuple[Tensors, Tensors]:
    x = torch.randn(183, 781)
    return [module.softmax(x)], [x.softmax(1)]


def matmul(module: Any) -> tuple[Tensors, Tensors]:
    a, b = (torch.randn(s).half() for s in ((130, 150), (150, 170)))
    product = a.float() @ b.float()
    results = [module.matmul(a, b), module.matmul(a, b, activation="leaky_relu")]
    return results, [product.half(), F.leaky_relu(product).half()]


def dropout(module: Any) -> tuple[Tensors, Tensors]:
    x, keep = torch.randn(3000), (torch.rand(3000) > 0.3).int()
    first, again, other = (module.seeded_dropout(x, p=0.5, seed=seed) for seed in (123, 123, 512))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert 0.4 < (first != 0).float().mean() < 0.6
    results = [module.dropout(x, x_keep=keep, p=0.5), first, other]
    return results, [torch.where(keep > 0, x / 0.5, 0.0), *(torch.where(r != 0, x / 0.5, 0.0) for r in results[1:])]


def layer_norm(module: Any) -> tuple[Tensors, Tensors]:
    x, grad = (-2.3 + 0.5 * torch.randn(151, 700)).requires_grad_(True), 0.1 * torch.randn(151, 700)
    weight, bias = (torch.rand(700).requires_grad_(True) for _ in range(2))

    def run(function: Callable[..., torch.Tensor]) -> Tensors:
        y = function(x, (700,), weight, bias, 1e-5)
        return [y.detach(), *torch.autograd.grad(y, (x, weight, bias), grad)]

    return run(module.layer_norm), run(F.layer_norm)


def attention(module: Any) -> tuple[Tensors, Tensors]:
    q, k, v = (torch.empty(1, 2, 256, 64).normal_(0, 0.5).half().requires_grad_(True) for _ in range(3))
    grad = torch.randn_like(q)
    results, expected = [], []
    for causal in (False, True):
        others = len(inspect.signature(module._attention.forward).parameters) - 6
        y = module.attention(q, k, v, causal, 0.5, *[False] * others)
        results += [y.detach(), *torch.autograd.grad(y, (q, k, v), grad)]
        y = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal, scale=0.5).half()
        expected += [y.detach(), *torch.autograd.grad(y, (q, k, v), grad)]
    return results, expected


def grouped_gemm(module: Any) -> tuple[Tensors, Tensors]:
    sizes = (256, 128)  # the kernel has no masks
    group_a, group_b = ([torch.rand(n, n).half() for n in sizes] for _ in range(2))
    expected = [(a.float() @ b.float()).half() for a, b in zip(group_a, group_b, strict=True)]
    return list(module.group_gemm_fn(group_a, group_b)), expected


# What is compared, what the tutorial's own tests call, the error that is allowed, and whether all ways give equal bits.
CASES: dict[str, tuple[Any, tuple[str, ...], float, bool]] = {
    "01-vector-add": (vector_add, ("add",), 0.0, True),
    "02-fused-softmax": (softmax, ("softmax",), 1e-6, False),
    "03-matrix-multiplication": (matmul, ("matmul",), 1e-2, False),
    "04-low-memory-dropout": (dropout, ("dropout", "seeded_dropout"), 0.0, True),
    "05-layer-norm": (layer_norm, ("test_layer_norm",), 1e-4, False),
    "06-fused-attention": (attention, (), 2e-2, False),
    "08-grouped-gemm": (grouped_gemm, ("group_gemm_fn", "group_gemm_tma_fn"), 2e-2, False),
}


@pytest.mark.parametrize("name", CASES)
def test_tutorial(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run, functions, limit, are_bits_equal = CASES[name]
    source = tutorials.definitions(tutorials.source_of(name, request.config), functions)
    found: dict[str, Tensors] = {}
    for way in ("triton", "language", "interpreted"):
        text = source if way == "triton" else tutorials.moved(source)
        module = tutorials.load(text, f"tutorial_{name[:2]}_{way}", tmp_path)
        torch.manual_seed(0)
        with torch_tile.config.patch(interpret=way == "interpreted"):
            found[way], expected = run(module)
        for result, wanted in zip(found[way], expected, strict=True):
            torch.testing.assert_close(result, wanted, rtol=limit, atol=limit, msg=lambda m, way=way: f"{way}: {m}")
    for way in ("language", "interpreted"):
        for result, wanted in zip(found[way], found["triton"], strict=True):
            if are_bits_equal:
                assert torch.equal(result, wanted), way
            else:
                torch.testing.assert_close(result, wanted, rtol=limit, atol=limit)
