"""`torch._foreach_*`: equal to eager, and generated like the same operation on one tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh

SIZES = [(5,), (), (3, 4), (0,), (130, 9)]


def tensors(seed: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [(torch.rand(size, generator=generator) + 0.5).to(dtype) for size in SIZES]


SCALARS = [0.5, 2.0, -1.0, 3.0, 0.25]
UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "clone",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
BINARY = ("add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub")


def check(function: Any, *args: Any, rtol: float | None = None) -> None:
    fresh()
    assert_same(compiled(function)(*args), function(*args), rtol=rtol, atol=rtol)
    if IS_TILE:
        assert count("externs") == 0


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    function = getattr(torch, f"_foreach_{name}")
    check(lambda xs: function([x / 2 for x in xs]), tensors(0))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    function = getattr(torch, f"_foreach_{name}")
    check(lambda xs, ys: function(xs, ys), tensors(0), tensors(1))
    check(lambda xs: function(xs, 1.5), tensors(0))
    check(lambda xs: function(xs, SCALARS), tensors(0))


@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha(name: str) -> None:
    function = getattr(torch, f"_foreach_{name}")
    check(lambda xs, ys: function(xs, ys, alpha=0.3), tensors(0), tensors(1))


def test_a_tensor_for_all() -> None:
    check(lambda xs, y: torch._foreach_mul(xs, y), tensors(0), torch.tensor(3.0))
    check(lambda xs, y: torch._foreach_add(xs, y, alpha=2), tensors(0), torch.tensor(3.0))
    check(lambda xs, y: torch._foreach_div(xs, y), tensors(0), torch.tensor(3.0))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_three_lists(name: str) -> None:
    function = getattr(torch, f"_foreach_{name}")
    check(lambda a, b, c: function(a, b, c, value=0.1), tensors(0), tensors(1), tensors(2))
    check(lambda a, b, c: function(a, b, c, SCALARS), tensors(0), tensors(1), tensors(2))


def test_lerp() -> None:
    check(lambda a, b: torch._foreach_lerp(a, b, 0.1), tensors(0), tensors(1))
    check(lambda a, b, c: torch._foreach_lerp(a, b, c), tensors(0), tensors(1), tensors(2))


def test_power_of_a_number() -> None:
    check(lambda xs: torch._foreach_pow(2.5, xs), tensors(0))


def test_reductions() -> None:
    check(lambda xs: torch._foreach_norm(xs), tensors(0))
    check(lambda xs: torch._foreach_norm(xs, 1, dtype=torch.float64), tensors(0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    check(
        lambda xs, ys: torch._foreach_add(torch._foreach_mul(xs, 0.9), ys, alpha=0.1),
        tensors(0, dtype),
        tensors(1, dtype),
    )


def test_in_place_on_inputs() -> None:
    def step(xs: list[torch.Tensor], ys: list[torch.Tensor]) -> None:
        torch._foreach_mul_(xs, 0.9)
        torch._foreach_add_(xs, ys, alpha=0.1)
        torch._foreach_copy_(ys, xs)
        torch._foreach_zero_(xs[:2])

    xs, ys, us, vs = tensors(0), tensors(1), tensors(0), tensors(1)
    fresh()
    compiled(step)(xs, ys)
    step(us, vs)
    assert_same(xs + ys, us + vs)
    if IS_TILE:
        assert count("externs") == 0


OPTIMIZERS = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, lr=0.01, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=0.01, amsgrad=True, **k),
    "rmsprop": lambda p, **k: torch.optim.RMSprop(p, lr=0.01, centered=True, **k),
    "adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.01, **k),
    "radam": lambda p, **k: torch.optim.RAdam(p, lr=0.01, **k),
}


def check_optimizer(make: Any) -> None:
    def run(compile_it: bool) -> list[torch.Tensor]:
        parameters = [torch.nn.Parameter(x) for x in tensors(0) if x.numel()]
        optimizer = make(parameters)
        step = compiled(optimizer.step, fullgraph=False) if compile_it else optimizer.step
        for i in range(3):
            for p, gradient in zip(parameters, [x for x in tensors(i + 1) if x.numel()], strict=True):
                p.grad = gradient - 1
            step()
        return [p.detach() for p in parameters]

    fresh()
    assert_same(run(True), run(False), rtol=1e-5, atol=1e-5)
    if IS_TILE:
        assert count("externs") == 0


# Of an optimizer without `foreach` Dynamo writes additions with a tensor's factor as `prims.fma`.
@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "single"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, foreach: bool) -> None:
    check_optimizer(lambda p: OPTIMIZERS[name](p, foreach=foreach))


def test_learning_rate_in_a_tensor() -> None:
    check_optimizer(lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1), momentum=0.9))
