"""What must hold for any program: aliasing, mutation, autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled, copy_inputs


def same_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


# Aliasing


def test_same_tensor_twice() -> None:
    x = torch.randn(5, 17)
    function = compiled(lambda a, b: (a + b, (a * b).sum(-1)))
    assert_same(function(x, x), (x + x, (x * x).sum(-1)))
    y = torch.randn(5, 17)
    assert_same(function(x, y), (x + y, (x * y).sum(-1)))


def test_same_tensor_twice_with_mutation() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    x = torch.randn(5, 17)
    y = x.clone()
    assert_same(compiled(f)(x, x), f(y, y))
    assert_same(x, y, exact=True)


def test_overlapping_inputs() -> None:
    memory = torch.randn(64)
    a, b = memory.as_strided((5, 7), (3, 2)), memory.as_strided((5, 7), (2, 1), 4)
    function = compiled(lambda a, b: (a - b, a.sum(0), (a * 2).t()))
    assert_same(function(a, b), (a - b, a.sum(0), (a * 2).t()))


def test_views_of_one_base_with_mutation() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a.sum() + b

    first, second = torch.randn(12), None
    second = first.clone()
    assert_same(compiled(f, fullgraph=False)(first[:8], first[4:]), f(second[:8], second[4:]))
    assert_same(first, second, exact=True)


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "expanded": lambda: torch.randn(1, 6, 1, 5).expand(4, 6, 5, 5),
    "offset": lambda: torch.randn(1000)[13 : 13 + 600].view(4, 6, 5, 5),
    "channels_last": lambda: torch.randn(4, 6, 5, 5).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(5, 6, 5, 4).transpose(0, 3),
    "stepped": lambda: torch.randn(8, 6, 10, 15)[::2, :, ::2, ::3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_input_layouts(layout: str, dynamic: bool) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.sigmoid(x) * y + 1
        return z, z.sum((0, 2, 3)), z.amax(-1), z.flatten(1).softmax(-1), z.permute(0, 2, 3, 1).contiguous()

    x, y = LAYOUTS[layout](), torch.randn(6, 1, 1)
    assert_same(compiled(f, dynamic=dynamic)(x, y), f(x, y), rtol=1e-5, atol=1e-5)


# Mutation


def mutate_and_return(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(y)
    return x, x * 2


def mutate_view(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[1:3, ::2] = y[1:3, ::2] * 2
    x[:, -1].mul_(3)
    return x.sum(0)


def mutate_twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.mul_(y)
    before = x.clone()
    x.t().add_(1)
    return before, x[0]


def shift_within(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[1:] = x[:-1] + y[1:]
    return x.clone()


def transpose_within(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[:4, :4].copy_(x[:4, :4].t() + y[0, 0])
    return x + y


def swap(x: torch.Tensor, y: torch.Tensor) -> Any:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x - y


def normalise_in_place(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.sub_(x.mean(-1, keepdim=True)).div_(x.std(-1, keepdim=True) + 1)
    return (x * y).sum()


def data_dependent_rows(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[torch.tensor([0, 2])] = y[torch.tensor([2, 0])]
    return x * 1


def out_argument(x: torch.Tensor, y: torch.Tensor) -> Any:
    torch.add(x, y, out=x)
    return x.exp()


MUTATIONS = [
    mutate_and_return, mutate_view, mutate_twice, shift_within, transpose_within, swap, normalise_in_place,
    data_dependent_rows, out_argument,
]  # fmt: skip


@pytest.mark.parametrize("function", MUTATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_mutation(function: Callable[..., Any], dynamic: bool, layout: str) -> None:
    x, y = torch.randn(6, 9), torch.randn(6, 9)
    if layout == "transposed":
        x, y = torch.randn(9, 6).t(), torch.randn(9, 6).t()
    given, reference = copy_inputs((x, y)), copy_inputs((x, y))
    step = compiled(function, dynamic=dynamic, fullgraph=function is not out_argument)
    for _ in range(2):
        result, expected = step(*given), function(*reference)
        assert_same(result, expected, rtol=1e-5, atol=1e-5)
        assert_same(given, reference, rtol=1e-5, atol=1e-5)


def test_returned_input_is_the_input() -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    result = compiled(mutate_and_return)(x, y)
    assert result[0] is x


def test_inputs_are_unchanged_unless_declared() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x.clone()
        z.add_(1)
        w = (y * 2).t()
        w += 1
        return z, w, torch.cat([x, z]).relu_()

    x, y = torch.randn(4, 9), torch.randn(4, 9)
    before = copy_inputs((x, y))
    versions = x._version, y._version
    assert_same(compiled(f)(x, y), f(*before))
    assert_same((x, y), before, exact=True)
    assert (x._version, y._version) == versions


def test_outputs_alias_as_in_eager() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return x[1:], x.t(), y, y[0], y.view(-1)

    x = torch.randn(4, 5)
    result = compiled(f)(x)
    assert_same(result, f(x))
    assert same_storage(result[0], x) and same_storage(result[1], x)
    assert same_storage(result[2], result[3]) and same_storage(result[2], result[4])
    result[2].zero_()
    assert result[4].abs().sum() == 0
    assert not same_storage(compiled(f)(x)[2], result[2])


def test_outputs_do_not_share_by_accident() -> None:
    """Equal values and constants are one computation, but two tensors."""
    result = compiled(lambda x: (x + 1, x + 1, torch.zeros(5), torch.zeros(5)))(torch.randn(5))
    pointers = {t.data_ptr() for t in result}
    assert len(pointers) == len(compiled_outputs := result), compiled_outputs


def test_buffers_are_not_reused_between_calls() -> None:
    function = compiled(lambda x: ((x * 2).sum(-1), x + 1))
    x, y = torch.randn(33, 65), torch.randn(33, 65)
    first = function(x)
    kept = copy_inputs(first)
    function(y)
    assert_same(first, kept, exact=True)


# Autograd


def network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (F.layer_norm(torch.tanh(x @ w), (7,)) * w.sum(0)).sum()


def test_retain_graph() -> None:
    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    loss = compiled(network)(x, w)
    (first,) = torch.autograd.grad(loss, w, retain_graph=True)
    (second,) = torch.autograd.grad(loss, w, retain_graph=True)
    (third,) = torch.autograd.grad(loss, w)
    assert_same(second, first, exact=True)
    assert_same(third, first, exact=True)
    assert_same(first, torch.autograd.grad(network(x, w), w)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", [torch.tanh, torch.sigmoid, torch.exp, F.gelu, F.silu])
@pytest.mark.parametrize("dynamic", [False, True])
def test_retain_graph_where_saved_tensors_are_no_outputs(
    activation: Callable[[torch.Tensor], torch.Tensor], dynamic: bool
) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return activation(x @ w) @ w.t()

    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    result, expected = compiled(f, dynamic=dynamic)(x, w), f(x, w)
    for column in range(3):
        (gradient,) = torch.autograd.grad(result[:, column].sum(), w, retain_graph=True)
        (again,) = torch.autograd.grad(result[:, column].sum(), w, retain_graph=True)
        assert_same(again, gradient, exact=True)
        (right,) = torch.autograd.grad(expected[:, column].sum(), w, retain_graph=True)
        assert_same(gradient, right, rtol=1e-4, atol=1e-4)


def test_retain_graph_after_a_step_without_it() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ w) @ w.t()

    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    function = compiled(f)
    (once,) = torch.autograd.grad(function(x, w).sum(), w)
    loss = function(x, w).sum()
    for _ in range(2):
        assert_same(torch.autograd.grad(loss, w, retain_graph=True)[0], once, exact=True)


def test_two_forwards_before_backward() -> None:
    w = torch.randn(6, 7, requires_grad=True)
    xs = [torch.randn(5, 6) for _ in range(3)]
    function = compiled(network)
    losses = [function(x, w) for x in xs]
    for loss, x in reversed(list(zip(losses, xs, strict=True))):
        (result,) = torch.autograd.grad(loss, w)
        assert_same(result, torch.autograd.grad(network(x, w), w)[0], rtol=1e-4, atol=1e-4)


def test_compile_and_call_inside_backward() -> None:
    function = compiled(lambda g: torch.tanh(g) * 2)

    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return function(g)

    x = torch.randn(5, 6, requires_grad=True)
    x.register_hook(lambda g: compiled(lambda t: t + 1)(g))
    (Clipped.apply(x) ** 2).sum().backward()
    assert_same(x.grad, torch.tanh(2 * x.detach()) * 2 + 1)


def test_hook_inside_compiled_model() -> None:
    layer = torch.nn.Linear(6, 7)
    seen: list[torch.Tensor] = []
    x = torch.randn(5, 6)
    output = compiled(layer)(x)
    output.register_hook(lambda g: seen.append(compiled(lambda t: t * 3)(g)))
    output.sum().backward()
    assert_same(seen[0], torch.full((5, 7), 3.0))
    assert_same(layer.weight.grad, x.sum(0).expand(7, 6).contiguous(), rtol=1e-5, atol=1e-5)


def test_forward_under_no_grad_then_with_grad() -> None:
    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    function = compiled(network)
    with torch.no_grad():
        assert not function(x, w).requires_grad
    assert_same(
        torch.autograd.grad(function(x, w), w)[0], torch.autograd.grad(network(x, w), w)[0], rtol=1e-4, atol=1e-4
    )
    with torch.inference_mode():
        assert_same(function(x, w), network(x, w), rtol=1e-4, atol=1e-4)


def test_optimizer_step() -> None:
    """One graph updates all parameters in place."""
    parameters = [torch.randn(5, 7, requires_grad=True), torch.randn(9, requires_grad=True)]
    copies = [p.detach().clone().requires_grad_() for p in parameters]
    optimizers = [torch.optim.AdamW(ps, lr=0.1) for ps in (parameters, copies)]
    step = compiled(optimizers[0].step, fullgraph=False)
    for _ in range(3):
        for p, q in zip(parameters, copies, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        step()
        optimizers[1].step()
    assert_same(parameters, copies, rtol=1e-5, atol=1e-5)
