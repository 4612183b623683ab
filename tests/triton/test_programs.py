"""The programs of tests/triton/programs.py on CPU: through Triton, by the tile language, interpreted, and in torch."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_tile

Tensors = list[torch.Tensor]
SOURCE = Path(__file__).with_name("programs.py").read_text()


def moved(source: str) -> str:
    """The source with its imports changed, as docs/language.md says."""
    source = re.sub(r"^import triton\.language as tl$", "import torch_tile.language as tl", source, flags=re.M)
    return re.sub(r"^import triton$", "import torch_tile as triton", source, flags=re.M)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The source through Triton and, with its imports changed, through the tile language."""
    assert not re.search(r"^\s*(import|from) triton", moved(SOURCE), flags=re.M)
    found = {}
    for way, text in (("triton", SOURCE), ("language", moved(SOURCE))):
        path = tmp_path_factory.mktemp("programs") / f"programs_{way}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        found[way] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[way])
    return found


def add(module: Any) -> tuple[Tensors, Tensors]:
    x, y = torch.rand(9843), torch.rand(9843)
    return [module.add(x, y)], [x + y]


def softmax(module: Any) -> tuple[Tensors, Tensors]:
    x = torch.randn(183, 781)
    return [module.softmax(x)], [x.softmax(1)]


def matmul(module: Any) -> tuple[Tensors, Tensors]:
    a, b = (torch.randn(s).half() for s in ((130, 150), (150, 170)))
    c, d = torch.randn(70, 128).half(), torch.randn(90, 128).half().T
    product, transposed = a.float() @ b.float(), c.float() @ d.float()
    results = [module.matmul(a, b), module.matmul(a, b, activation="leaky_relu"), module.matmul(c, d)]
    return results, [product.half(), F.leaky_relu(product).half(), transposed.half()]


def dropout(module: Any) -> tuple[Tensors, Tensors]:
    x, keep = torch.randn(3000), (torch.rand(3000) > 0.3).int()
    first, again, other = (module.seeded_dropout(x, p=0.5, seed=seed) for seed in (123, 123, 512))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert 0.4 < (first != 0).float().mean() < 0.6
    results = [module.dropout(x, keep, p=0.5), first, other]
    return results, [torch.where(keep > 0, x / 0.5, 0.0), *(torch.where(r != 0, x / 0.5, 0.0) for r in results[1:])]


def layer_norm(module: Any) -> tuple[Tensors, Tensors]:
    x, grad = (-2.3 + 0.5 * torch.randn(151, 700)).requires_grad_(True), 0.1 * torch.randn(151, 700)
    weight, bias = (torch.rand(700).requires_grad_(True) for _ in range(2))

    def run(function: Callable[..., torch.Tensor]) -> Tensors:
        y = function(x, (700,), weight, bias, 1e-5)
        return [y.detach(), *torch.autograd.grad(y, (x, weight, bias), grad)]

    return run(module.layer_norm), run(F.layer_norm)


def attention(module: Any) -> tuple[Tensors, Tensors]:
    q, k, v = (torch.empty(1, 2, 128, 64).normal_(0, 0.5).half().requires_grad_(True) for _ in range(3))
    grad = torch.randn_like(q)
    results, expected = [], []
    for causal in (False, True):
        y = module.attention(q, k, v, causal, 0.5)
        results += [y.detach(), *torch.autograd.grad(y, (q, k, v), grad)]
        y = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal, scale=0.5).half()
        expected += [y.detach(), *torch.autograd.grad(y, (q, k, v), grad)]
    return results, expected


def cross_entropy(module: Any) -> tuple[Tensors, Tensors]:
    results, expected = [], []
    target = torch.randint(0, 1000, (19,))
    target[3] = -100
    for smoothing in (0.0, 0.1):
        x = torch.randn(19, 1000, requires_grad=True)
        results += module.cross_entropy(x.detach(), target, smoothing=smoothing)
        loss = F.cross_entropy(x, target, label_smoothing=smoothing)
        expected += [loss.detach(), *torch.autograd.grad(loss, x)]
    return results, expected


def grouped_product(module: Any) -> tuple[Tensors, Tensors]:
    sizes = ((128, 96, 64), (100, 70, 50), (33, 128, 40))
    group_a, group_b = [torch.rand(m, k).half() for m, n, k in sizes], [torch.rand(k, n).half() for m, n, k in sizes]
    expected = [(a.float() @ b.float()).half() for a, b in zip(group_a, group_b, strict=True)]
    return list(module.grouped_product(group_a, group_b)), expected


# The error that is allowed, and whether all ways give equal bits.
CASES: dict[str, tuple[Callable[[Any], tuple[Tensors, Tensors]], float, bool]] = {
    "add": (add, 0.0, True),
    "softmax": (softmax, 1e-6, False),
    "matmul": (matmul, 1e-2, False),
    "dropout": (dropout, 0.0, True),
    "layer_norm": (layer_norm, 1e-4, False),
    "attention": (attention, 2e-2, False),
    "cross_entropy": (cross_entropy, 1e-5, False),
    "grouped_product": (grouped_product, 2e-2, False),
}


@pytest.mark.parametrize("name", CASES)
def test_program(name: str, modules: dict[str, Any]) -> None:
    run, limit, are_bits_equal = CASES[name]
    found: dict[str, Tensors] = {}
    for way in ("triton", "language", "interpreted"):
        module = modules["triton" if way == "triton" else "language"]
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
