"""Autograd beyond plain training: double backward, checkpointing, autocast, hooks, functions and operators of users,
higher-order operators."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from tests.compiling import BACKEND, IS_TILE, assert_same, compiled, count, gradients


def _loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.softmax(x @ weight, -1).pow(2).sum()


def test_double_backward_of_the_result() -> None:
    """AOTAutograd has no double backward; it says so, and eager code around a compiled forward still has one."""

    def penalty(function: Any, x: torch.Tensor) -> torch.Tensor:
        (grad,) = torch.autograd.grad(function(x), x, create_graph=True)
        return grad.pow(2).sum()

    x = torch.randn(4, 3, requires_grad=True)
    weight = torch.randn(3, 5)
    program = compiled(lambda x: _loss(x, weight))
    # Before torch 2.13 the gradient has no graph.
    with pytest.raises(RuntimeError, match=r"double backward|does not require grad"):
        penalty(program, x).backward()


def test_gradient_inside_the_graph() -> None:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(_loss)(x, weight).pow(2).sum(-1)

    x, weight = torch.randn(4, 3), torch.randn(3, 5)
    assert_same(compiled(function)(x, weight), function(x, weight), rtol=1e-5, atol=1e-6)


def test_vmap_and_jacobian() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(torch.func.jacrev(lambda v: torch.tanh(v) * v.sum()))(x)

    x = torch.randn(5, 3)
    assert_same(compiled(function)(x), function(x), rtol=1e-5, atol=1e-6)


def _block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(F.gelu(x @ weight) + x, x.shape[-1:])


def _checkpointed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = checkpoint(_block, x, weight, use_reentrant=False)
    return x


def _keep_products(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


def _selectively_checkpointed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    contexts = functools.partial(create_selective_checkpoint_contexts, _keep_products)
    return checkpoint(_block, x, weight, use_reentrant=False, context_fn=contexts)


@pytest.mark.parametrize("function", [_checkpointed, _selectively_checkpointed], ids=lambda f: f.__name__.strip("_"))
def test_checkpoint(function: Any) -> None:
    arguments = [torch.randn(6, 8), torch.randn(8, 8)]
    assert_same(
        gradients(compiled(function), arguments),
        gradients(function, arguments),
        rtol=1e-4,
        atol=1e-5,
        check_stride=False,
    )


def test_checkpoint_draws_the_same_dropout_again() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: F.dropout(torch.exp(x), 0.5), x, use_reentrant=False)

    x = torch.zeros(100, requires_grad=True)
    result = compiled(function)(x)
    result.sum().backward()
    # The gradient of exp at 0 is its value, so it equals the result where the mask is the same.
    assert_same(x.grad, result.detach())


def test_autocast() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    x = torch.randn(6, 8)

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.softmax(model(x), -1)

    result, expected = compiled(function)(x), function(x)
    assert result.dtype == expected.dtype
    assert_same(result, expected, rtol=2e-2, atol=2e-2)
    assert_same(gradients(compiled(function), [x]), gradients(function, [x]), rtol=5e-2, atol=5e-2)


def test_autocast_around_the_call() -> None:
    x, y = torch.randn(6, 8), torch.randn(8, 5)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).relu()

    program = compiled(function)
    with torch.autocast("cpu", torch.bfloat16):
        assert program(x, y).dtype == function(x, y).dtype == torch.bfloat16
    assert program(x, y).dtype == torch.float32


def test_modes_without_gradients() -> None:
    weight = torch.randn(3, 5, requires_grad=True)
    program = compiled(lambda x: F.relu(x @ weight))
    x = torch.randn(4, 3)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            result = program(x)
        assert not result.requires_grad
        assert_same(result, F.relu(x @ weight).detach(), rtol=1e-5, atol=1e-5)
    assert program(x).requires_grad


@torch.inference_mode()
def _inferred(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1).t()[0] * 2


def _inferred_between(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    with torch.inference_mode():
        z = y.view(-1) + 1
        with torch.inference_mode(False):
            kept = x.t().sin()
        w = x.t() * 2
    return y.exp(), z, kept, w


def _inferred_within_no_grad(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        with torch.inference_mode():
            y = x.view(-1) * 3
        z = x * 2
    return y, z, x * 4


@pytest.mark.parametrize("function", [_inferred, _inferred_between, _inferred_within_no_grad])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_inference_mode_within_a_graph(function: Any, needs_grad: bool) -> None:
    def run(f: Any) -> tuple[Any, ...]:
        x = torch.linspace(0, 1, 6).view(2, 3).requires_grad_(needs_grad and function is not _inferred)
        results = f(x)
        results = results if isinstance(results, tuple) else (results,)
        flags = [each.requires_grad for each in results]
        wanted = [each.sum() for each in results if each.requires_grad]
        if wanted:
            torch.stack(wanted).sum().backward()
        return flags, [each.detach().clone() for each in results], x.detach(), x.grad

    mine, eager = run(compiled(function)), run(function)
    assert mine[0] == eager[0]
    for one, other in zip([*mine[1], mine[2]], [*eager[1], eager[2]], strict=True):
        assert_same(one, other)
    if eager[3] is not None:
        assert_same(mine[3], eager[3])


def test_hooks_on_tensors_and_modules() -> None:
    seen: list[str] = []

    def run(compile_it: bool) -> tuple[torch.Tensor, list[str]]:
        seen.clear()
        torch.manual_seed(0)
        model = nn.Linear(3, 3)
        model.register_forward_hook(lambda module, args, output: output * 2)
        model.register_full_backward_hook(lambda module, grads, outputs: seen.append("backward"))
        x = torch.randn(2, 3, requires_grad=True)
        x.register_hook(lambda grad: grad * 3)
        function = compiled(model, fullgraph=False) if compile_it else model
        function(x).sum().backward()
        assert x.grad is not None
        return x.grad, list(seen)

    (mine, mine_seen), (eager, eager_seen) = run(True), run(False)
    assert_same(mine, eager)
    assert mine_seen == eager_seen


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return torch.sin(x) * scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * torch.cos(x) * ctx.scale * 2, None  # twice the derivative, so that it shows


def test_function_of_the_user() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return _Scaled.apply(x * 2, 1.5) + 1

    x = torch.randn(4, 3)
    assert_same(gradients(compiled(function), [x]), gradients(function, [x]))


@torch.library.custom_op("torch_tile_tests::clipped_sum", mutates_args=())
def clipped_sum(x: torch.Tensor, limit: float) -> torch.Tensor:
    return x.clamp(max=limit).sum(-1)


@clipped_sum.register_fake
def _(x: torch.Tensor, limit: float) -> torch.Tensor:
    return x.new_empty(x.shape[:-1])


def _clipped_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.limit = inputs[1]


def _clipped_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    (x,) = ctx.saved_tensors
    return grad.unsqueeze(-1) * (x <= ctx.limit), None


clipped_sum.register_autograd(_clipped_backward, setup_context=_clipped_setup)


@torch.library.custom_op("torch_tile_tests::increment", mutates_args=("x",))
def increment(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_operator_of_the_user(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return clipped_sum(x * 2, 0.5).exp()

    x = torch.randn(5, 7)
    program = compiled(function, dynamic=dynamic)
    assert_same(program(x), function(x), rtol=1e-5, atol=1e-5)
    assert_same(gradients(program, [x]), gradients(function, [x]), rtol=1e-5, atol=1e-5)


def test_operator_of_the_user_that_writes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        increment(y, 1.0)
        increment(x, 5.0)
        return y + x

    mine, eager = torch.ones(4), torch.ones(4)
    assert_same(compiled(function)(mine), function(eager))
    assert_same(mine, eager, exact=True)


def test_cond() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() - 1, (x,)) + 1

    program = compiled(function)
    for sign in (1.0, -1.0):
        x = torch.rand(5) * sign
        assert_same(program(x), function(x))
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


def test_while_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def function(x: torch.Tensor) -> torch.Tensor:
        def goes_on(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return i < 5

        def body(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, x * 1.5 + 1

        return while_loop(goes_on, body, (torch.tensor(0), x))[1] * 2

    x = torch.randn(4)
    expected = x
    for _ in range(5):
        expected = expected * 1.5 + 1
    assert_same(compiled(function)(x), expected * 2)


def test_flex_attention() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: torch.where(i >= j, score, -1e9)) * 2

    q, k, v = (torch.randn(1, 2, 16, 16) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2
    assert_same(compiled(function, fullgraph=False)(q, k, v), expected, rtol=1e-4, atol=1e-5, check_stride=False)


def test_attention_keeps_its_library_call() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    arguments = [torch.randn(2, 4, 16, 8) for _ in range(3)]
    assert_same(compiled(function)(*arguments), function(*arguments), rtol=1e-4, atol=1e-5)
    assert_same(gradients(compiled(function), arguments), gradients(function, arguments), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_autograd(dynamic: bool) -> None:
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))
    forward = compiled(model, fullgraph=False)
    options = {"options": {"strict": True}} if IS_TILE else {}
    for rows in (2, 3):
        x = torch.randn(rows, 5)
        model.zero_grad()
        model(x).sum().backward()
        expected = [parameter.grad for parameter in model.parameters()]
        model.zero_grad()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=BACKEND, **options), dynamic=dynamic):
            forward(x).sum().backward()
        assert_same([parameter.grad for parameter in model.parameters()], expected)


def test_compiled_autograd_accumulates() -> None:
    """Gradients that are there already are written by the graph, whose inputs come in one list."""
    weights = [torch.randn(3, 3, requires_grad=True) for _ in range(3)]
    x = torch.randn(2, 3)

    def loss() -> torch.Tensor:
        return (((x @ weights[0]) @ weights[1].t()) @ weights[2]).sum()

    expected = [2 * each for each in torch.autograd.grad(loss(), weights)]
    options = {"options": {"strict": True}} if IS_TILE else {}
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend=BACKEND, **options)):
        for step in range(3):
            loss().backward()
            if step == 1:
                assert_same([each.grad for each in weights], expected)
    assert_same([each.grad for each in weights], [1.5 * each for each in expected])


def test_tangents_of_arguments() -> None:
    """A call within a level of forward-mode differentiation runs in eager mode: a program would drop the tangents."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.exp() * 2

    x, tangent = torch.arange(3.0), torch.tensor([1.0, 0.5, -2.0])
    program = torch.compile(function, backend=BACKEND)
    for _ in range(2):
        assert_same(program(x), function(x))
        with forward_ad.dual_level():
            results = [forward_ad.unpack_dual(each(forward_ad.make_dual(x, tangent))) for each in (program, function)]
        assert_same(results[0].tangent, results[1].tangent)
