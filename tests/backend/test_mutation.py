"""Writes into inputs, views and buffers, results that alias them, caches, whole optimizers: as in eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.compiling import IS_TILE, assert_same, compiled, copy_inputs, count, tile_only


def _add_to_view(x: torch.Tensor) -> torch.Tensor:
    x[1:3].add_(1)
    return x * 2


def _column(x: torch.Tensor) -> torch.Tensor:
    x.t()[0].mul_(x[0, 1])
    return x.sum()


def _every_other(x: torch.Tensor) -> torch.Tensor:
    x[::2] = x[1::2] * 3
    return x.amax(1)


def _diagonal(x: torch.Tensor) -> torch.Tensor:
    x.diagonal().fill_(7)
    return x + 1


def _twice(x: torch.Tensor) -> torch.Tensor:
    y = x.diagonal()
    y[:4].zero_()
    x.add_(1)
    y[2:6].mul_(5)
    return y.sum() + x[0, 0]


def _shifted(x: torch.Tensor) -> torch.Tensor:
    x[1:].copy_(x[:-1].clone())
    return x


def _masked(x: torch.Tensor) -> torch.Tensor:
    x[x > 0] = -1.0
    return x.relu()


def _advanced(x: torch.Tensor) -> torch.Tensor:
    x[torch.tensor([0, 2]), torch.tensor([1, 1])] = 9.0
    return x.sum(0)


def _other_dtype(x: torch.Tensor) -> torch.Tensor:
    x.copy_((x * 10).to(torch.int32))
    return x


def _resized_view(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.unsqueeze(0).transpose(1, 2)
    y.sub_(1)
    return y, x


FUNCTIONS: list[Callable[..., Any]] = [
    _add_to_view,
    _column,
    _every_other,
    _diagonal,
    _twice,
    _shifted,
    _masked,
    _advanced,
    _other_dtype,
    _resized_view,
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__.strip("_"))
def test_writes_into_an_input(function: Callable[..., Any], dynamic: bool) -> None:
    program = compiled(function, dynamic=dynamic)
    for layout in (lambda t: t, lambda t: t.t(), lambda t: torch.stack([t, t], -1)[..., 0]):
        (mine,) = copy_inputs([layout(torch.randn(6, 6))])
        (eager,) = copy_inputs([mine])
        result, expected = program(mine), function(eager)
        assert_same(result, expected, check_stride=False)
        assert_same(mine, eager)


def test_writes_into_a_view_that_is_an_input() -> None:
    """The base of an input sees the write; its other elements stay."""

    def function(x: torch.Tensor) -> None:
        x.mul_(2)

    base, expected = torch.arange(24.0).view(4, 6), torch.arange(24.0).view(4, 6)
    compiled(function)(base[1:3, ::2])
    function(expected[1:3, ::2])
    assert_same(base, expected, exact=True)


def test_two_views_of_one_base() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * y

    base, expected = torch.arange(10.0), torch.arange(10.0)
    result = compiled(function)(base[:6], base[4:])
    assert_same(result, function(expected[:6], expected[4:]))
    assert_same(base, expected, exact=True)


def test_returned_aliases_share_storage() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y.t(), y[1:], x.view(-1), x

    x = torch.randn(3, 4)
    y, transposed, rest, flat, same = compiled(function)(x)
    assert (
        y.untyped_storage().data_ptr() == transposed.untyped_storage().data_ptr() == rest.untyped_storage().data_ptr()
    )
    assert flat.data_ptr() == x.data_ptr() and same is x


@pytest.mark.parametrize("dynamic", [False, True])
def test_view_of_a_written_input_that_has_an_offset(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x[:, :, x.shape[2] // 3 :].clamp_(-1, 1)
        n = x.shape[0]
        return x.narrow(0, n // 3, n - n // 3), x, x.detach(), x.transpose(0, 1)[1:, n // 3]

    program = compiled(function, dynamic=dynamic)
    for rows in (6, 8):
        base = torch.randn(2 * rows, 8, 8)
        expected = base.clone()
        results, references = program(base[1::2]), function(expected[1::2])
        assert_same(base, expected, exact=True)
        assert_same(results, references, exact=True)
        for result, reference in zip(results, references, strict=True):
            assert result.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
            assert result.storage_offset() == reference.storage_offset()


def test_view_of_a_written_input_in_training() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        x.mul_(2)
        return x.narrow(0, n // 3, n - n // 3), (x * y).sum()

    y, base = torch.randn(6, 4, requires_grad=True), torch.randn(12, 8)
    expected_y, expected = y.detach().clone().requires_grad_(), base.clone()
    result, total = compiled(function, dynamic=True)(base[::2, 1::2], y)
    reference, expected_total = function(expected[::2, 1::2], expected_y)
    total.backward()
    expected_total.backward()
    assert_same((result, total, base, y.grad), (reference, expected_total, expected, expected_y.grad))
    assert result.storage_offset() == reference.storage_offset()


def test_results_that_view_a_constant_share_its_memory() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = torch.full((8, 2), 1.5), torch.arange(6)
        return y.view(-1), x + y[0], y.t(), z[1:], z.view(2, 3), torch.ones(1).expand(5)

    x = torch.randn(2)
    results, expected = compiled(function)(x), function(x)
    assert_same(results, expected, exact=True)
    assert results[0].data_ptr() == results[2].data_ptr()
    assert results[3].data_ptr() == results[4].data_ptr() + 8
    results[0][0] = 7
    results[4][0, 2] = 5
    assert results[2][0, 0] == 7 and results[3][1] == 5 and results[5].stride() == (0,)


def test_buffers_of_batch_norm() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4, affine=False))
    eager = copy.deepcopy(model)
    program = compiled(model)
    for _ in range(3):
        x = torch.randn(2, 3, 8, 8)
        assert_same(program(x), eager(x), rtol=1e-4, atol=1e-5)
    for name, buffer in eager.named_buffers():
        assert_same(model.get_buffer(name), buffer, rtol=1e-5, atol=1e-6)


class _Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 4, 64, 8))

    def forward(self, key: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.keys[:, :, position] = key
        return self.keys.sum(2)


def test_cache_of_a_decoder() -> None:
    cache, eager = _Cache(), _Cache()
    program = compiled(cache)
    for step in range(4):
        arguments = (torch.randn(2, 4, 1, 8), torch.tensor([step * 3]))
        assert_same(program(*arguments), eager(*arguments))
    assert_same(cache.keys, eager.keys, exact=True)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=True),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adamw_amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, foreach=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01, foreach=True),
    "adam_single": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_as_a_graph(name: str) -> None:
    torch.manual_seed(0)
    shapes = [(4, 5), (7,), (3, 2, 2), (1,)] * 3
    mine = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    eager = [nn.Parameter(p.detach().clone()) for p in mine]
    optimizer, expected = OPTIMIZERS[name](mine), OPTIMIZERS[name](eager)
    step = compiled(optimizer.step, fullgraph=False)
    for _ in range(4):
        for a, b in zip(mine, eager, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        step()
        expected.step()
    assert_same([p.detach() for p in mine], [p.detach() for p in eager], rtol=1e-5, atol=1e-6)
    if IS_TILE:
        assert count("fallbacks") == 0


@tile_only
def test_foreach_optimizer_makes_few_kernels() -> None:
    """Many parameters of few shapes: launches may be many, kernels are shared."""
    mine = [nn.Parameter(torch.randn(16, 16)) for _ in range(40)]
    optimizer = torch.optim.AdamW(mine, lr=0.01, foreach=True)
    step = compiled(optimizer.step, fullgraph=False)
    for p in mine:
        p.grad = torch.randn_like(p)
    step()
    assert 0 < count("kernels") <= 12


def test_inputs_that_are_the_negative_of_their_memory() -> None:
    def negative(x: torch.Tensor) -> torch.Tensor:
        result = x.conj().imag
        assert result.is_neg()
        return result

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.mul_(2)
        return x * 2 + y

    def write(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.view(-1)

    a, b = torch.randn(2, 5, dtype=torch.complex64)
    call = compiled(run)
    for x, y in ((negative(a), b.real), (a.real, negative(b)), (negative(a), negative(b)), (a.real, b.real)):
        ours, theirs = y.clone(), y.clone()
        assert_same(call(x, ours), run(x, theirs))
        assert_same(ours, theirs)
    call = compiled(write)
    memory, expected = a.clone(), a.clone()
    assert_same(call(negative(memory)), write(negative(expected)))
    assert_same(memory, expected)


def test_meta_tensors_run_in_eager_mode() -> None:
    result = compiled(lambda x: (x @ x.t()).relu())(torch.empty(3, 4, device="meta"))
    assert result.is_meta and result.shape == (3, 3)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "view",
    [lambda x: x.view(x.shape), lambda x: x[1:], lambda x: x.expand(3, *x.shape), lambda x: x.unsqueeze(0).flatten()],
    ids=["same", "rest", "expanded", "flat"],
)
def test_returned_view_of_a_negative_argument(view: Callable[..., Any], dynamic: bool) -> None:
    """It begins where the argument's own memory has it, not where the copy without the bit does."""
    f = compiled(lambda x: (view(x), x * 2), dynamic=dynamic)
    for size in (4, 6):
        x = torch.complex(torch.arange(size) + 1.0, torch.arange(size) + 10.0).conj().imag
        result, expected = f(x), (view(x), x * 2)
        assert_same(result, expected, exact=True)
        assert result[0].storage_offset() == expected[0].storage_offset()
        assert result[0].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("dynamic", [False, True])
def test_indexed_writes_of_values_read_from_the_written_tensor(dynamic: bool) -> None:
    """What a write takes from the tensor it writes is read before it, also where another write made that tensor."""
    repeated, order = torch.tensor([0, 0]), torch.tensor([1, 2, 3, 4, 0])

    def again(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x[repeated] = x[repeated] + 1
        return x

    def reversed_rows(x: torch.Tensor) -> torch.Tensor:
        y = x.index_put((repeated,), torch.tensor(5.0))
        return y.index_copy(0, order, y.flip(0)).index_add(0, repeated, y[repeated])

    for function in (again, reversed_rows):
        x = torch.arange(20.0).view(5, 4)
        torch.compiler.reset()
        assert torch.equal(torch.compile(function, backend="tile", dynamic=dynamic)(x.clone()), function(x.clone()))
