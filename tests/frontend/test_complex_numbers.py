"""Chains of complex operators, which kernels compute part by part: values of eager mode, zeros, infinities and NaN
included, and strides."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.compiling import BACKEND, compiled, copy_inputs, count, fresh

_Inputs = Sequence[torch.Tensor]
EDGES = [0.0, -0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan"), 3e38, 1e-30]


def pairs_of_edges() -> tuple[torch.Tensor, torch.Tensor]:
    numbers = torch.tensor([complex(a, b) for a, b in itertools.product(EDGES, EDGES)])
    first, second = torch.meshgrid(numbers, numbers, indexing="ij")
    return first.reshape(-1)[:6560].contiguous(), second.reshape(-1)[:6560].contiguous()  # whole vectors of ATen's


def real_of(value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "product and sum": lambda x, y: x * y + x,
    "difference": lambda x, y: (x - y) * 2.0,
    "numbers": lambda x, y: ((x + 2) * 3 - 1j) * (1 + 2j) - y * 1j,
    "alpha": lambda x, y: torch.add(x, y, alpha=2) * torch.sub(x, y, alpha=0.5),
    "real operand": lambda x, y: (x * y.real + y.real) * x - y.imag,
    "quotient by a real": lambda x, y: x / y.real * x,
    "quotient by a number": lambda x, y: (x / 3.0) * x,
    "conjugate": lambda x, y: x.conj() * y + 1,
    "square": lambda x, y: x**2 + y,
    "reciprocal": lambda x, y: x.reciprocal() + y,
    "negative": lambda x, y: -(x * y),
    "magnitude": lambda x, y: (x * y).abs(),
    "angle": lambda x, y: (x * y).angle(),
    "parts": lambda x, y: ((x * y).real * 2, (x * y).imag + 1, torch.view_as_real(x * y)),
    "of parts": lambda x, y: torch.complex(x.real, y.imag) * y,
    "choice": lambda x, y: torch.where(x.real > 0, x * y, y) * 2,
    "mean": lambda x, y: x.view(-1, 2).mean(1) + 1,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_edges(name: str) -> None:
    function = ARITHMETIC[name]
    given = pairs_of_edges()
    fresh()
    results, expected = (pytree.tree_leaves(f(*given)) for f in (compiled(function), function))
    for result, value in zip(results, expected, strict=True):
        own, eager = real_of(result), real_of(value)
        is_same = (own == eager) & (torch.signbit(own) == torch.signbit(eager)) | (own.isnan() & eager.isnan())
        assert is_same.all(), (own[~is_same][:4], eager[~is_same][:4])
        assert result.stride() == value.stride()


EXPONENTIALS: dict[str, Callable[..., Any]] = {
    "exponential": lambda x, y: x.exp(),
    "large": lambda x, y: (x * 40).exp(),
    "rotation": lambda x, y: y * torch.exp(1j * x.real),
    "polar": lambda x, y: torch.polar(x.real, x.imag) * y,
}


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_edges_of_exponentials(name: str) -> None:
    """Zeros, infinities and NaN where eager mode has them; other values as near to float64's."""
    function = EXPONENTIALS[name]
    for given in (pairs_of_edges(), (complexes(4096) * 3, complexes(4096))):
        fresh()
        results = [f(*given) for f in (compiled(function), function)]
        own, eager = map(real_of, results)
        is_plain = own.isfinite() & eager.isfinite() & (own != 0) & (eager != 0)
        is_same = (own == eager) & (torch.signbit(own) == torch.signbit(eager)) | (own.isnan() & eager.isnan())
        assert (is_same | is_plain).all()
        exact = function(*(x.to(torch.complex128) for x in given))
        has_digits = is_plain.all(-1) & (exact.abs() > 1e-36)
        error, limit = ((result - exact)[has_digits].abs() / exact[has_digits].abs() for result in results)
        assert error.max() <= 2 * limit.max()


def complexes(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype)


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[:, 1::2] *= 2
    result[:, 3] = 0
    result[0] = y[1]
    return result


def in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(y)
    x.add_(1)
    return x.abs()


def from_reals(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    result = torch.zeros(5, 9, dtype=torch.complex64)
    result[1:] = x[1:].real
    return result * y


FORMS: dict[str, Callable[..., Any]] = {
    "written": written,
    "in place": in_place,
    "from reals": from_reals,
    "transposed": lambda x, y: (x.t() * y.t() + 1, (x.t() * y.t() + 1).t()),
    "views": lambda x, y: (x * y + 1).view(-1)[3:13].view(2, 5) * 2,
    "view of a result": lambda x, y: ((x * y + 1)[:, ::2], (x * y).real, (x * y).t().imag),
    "conjugate of a result": lambda x, y: ((x * y).conj(), (x * y + 1).t().conj(), (x * y).conj().imag),
    "concatenated": lambda x, y: torch.cat([x * 2, y * x], 1) + 1,
    "expanded": lambda x, y: (x[:1] * y + 1) * x[:, :1],
    "sums": lambda x, y: ((x * y).sum(1), (x * y).mean(), (x * x.conj()).real.sum()),
    "quotients": lambda x, y: x / y + 2.0 / (y + 3),
    "product of matrices": lambda x, y: ((x * 2 + 1) @ (y * 1j - 1).to(x.dtype).t()).abs(),
    "transform": lambda x, y: torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(y).conj() + 1).real,
    "other precision": lambda x, y: (x * y).to(torch.complex128) * y + 1,
    "gathered": lambda x, y: (x * y)[torch.tensor([2, 0])] * y[:2].flip(1) + 1,
    "zeros and ones": lambda x, y: (torch.ones(5, 9, dtype=x.dtype) * x + torch.zeros_like(x)) * y,
    "filled": lambda x, y: (torch.full((5, 9), 1 + 2j, dtype=x.dtype) * x + torch.full_like(x, 3)) * y,
    "new tensors": lambda x, y: (x.new_zeros(5, 9) + x.new_ones(5, 1)) * y + x.new_full((9,), -1j),
    "masked": lambda x, y: (x * y).masked_fill(x.real > 0, 1 - 1j) * torch.where(y.imag > 0, y, 2.0),
    "running products": lambda x, y: (x * y).cumprod(1) * x.prod(1, keepdim=True),
    "compared": lambda x, y: ((x * y) == (x * y), (x * y) != x, (x * y).isnan()),
    "picked": lambda x, y: (x * y).index_select(1, torch.tensor([3, 0])) + (x * y).gather(1, torch.tensor([[1, 2]])),
    "diagonals": lambda x, y: ((x * y).diagonal() * 2, torch.diagonal_scatter(x * y, y.diagonal() * 2) + 1),
    "added to": lambda x, y: (x * y).index_add(0, torch.tensor([0, 2, 0]), (y * x)[:3]) + 1,
    "lists": lambda x, y: [a * b + 1 for a, b in zip(x.split(3, 1), (x * y).chunk(3, 1), strict=True)],
    "windows": lambda x, y: ((x * y).unfold(1, 3, 2) * 2).sum(-1),
    "of booleans": lambda x, y: (x * (y.real > 0) + torch.arange(9)) * y,
    "powers": lambda x, y: (x * x + 1) ** 2 * y.exp(),
    "nothing": lambda x, y: (x[:0] * y[:0] + 1) * 2,
    "single": lambda x, y: (x.sum() * y[0, 0] + 1) * 2,
}  # fmt: skip
INPUTS: dict[str, Callable[[], _Inputs]] = {
    "contiguous": lambda: (complexes(5, 9), complexes(5, 9)),
    "strided": lambda: (complexes(9, 5).t(), complexes(5, 18)[:, ::2]),
    "conjugate": lambda: (complexes(5, 9).conj(), complexes(5, 9)),
    "double": lambda: (complexes(5, 9, dtype=torch.complex128), complexes(5, 9)),
}  # fmt: skip


def _compare(own: Any, eager: Any) -> None:
    for result, value in zip(pytree.tree_leaves(own), pytree.tree_leaves(eager), strict=True):
        assert (result.dtype, result.stride(), result.is_conj()) == (value.dtype, value.stride(), value.is_conj())
        torch.testing.assert_close(result, value, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("inputs, dynamic", [*((name, False) for name in INPUTS), ("contiguous", True)])
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, inputs: str, dynamic: bool) -> None:
    function, given = FORMS[name], INPUTS[inputs]()
    if (name, inputs) in (("views", "strided"), ("views", "conjugate")):
        given = [x.resolve_conj().contiguous() for x in given]
    if name == "in place":
        given = [given[0].to(torch.promote_types(given[0].dtype, given[1].dtype)), given[1]]
    own, eager = copy_inputs(given), copy_inputs(given)
    fresh()
    _compare(compiled(function, dynamic=dynamic)(*own), function(*eager))
    _compare(own, eager)


def rotated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * y).flatten(3).type_as(x)


def network(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = torch.complex(x, x * 2) * w + b
    z = torch.complex(torch.relu(z.real), torch.relu(z.imag))
    return (z * z.conj()).real.sum(-1) + z.abs().mean() + (2.0 * z - 1j * z + z / 2).abs().sum()


def spectral(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    modes = torch.fft.rfft2(x)
    result = torch.zeros(x.shape[0], w.shape[1], x.shape[2], x.shape[3] // 2 + 1, dtype=torch.complex64)
    result[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", modes[:, :, :4, :4], w)
    result[:, :, -4:, :4] = torch.einsum("bixy,ioxy->boxy", modes[:, :, -4:, :4], w)
    return torch.fft.irfft2(result, s=x.shape[-2:])


TRAINED: dict[str, tuple[Callable[..., Any], Callable[[], _Inputs]]] = {
    "rotated": (rotated, lambda: (torch.randn(2, 16, 4, 8), complexes(16, 1, 4))),
    "network": (network, lambda: (torch.randn(4, 5), complexes(5), complexes(5))),
    "spectral": (spectral, lambda: (torch.randn(2, 3, 16, 16), complexes(3, 5, 4, 4))),
    "quotient": (lambda x, y: x / y + x * 2, lambda: (complexes(5, 9), complexes(5, 9) + 3)),
    "magnitude": (lambda x, y: (x * y + x).abs(), lambda: (complexes(5, 9), complexes(5, 9))),
    "product of all": (lambda x, y: (x * y).prod(1) * y[:, 0], lambda: (complexes(5, 3), complexes(5, 3))),
    "running products": (lambda x, y: (x * y).cumprod(1) + x, lambda: (complexes(5, 3), complexes(5, 3))),
    "added to": (
        lambda x, y: x.index_add(0, torch.tensor([0, 0]), x[:2] * y[:2]),
        lambda: (complexes(5, 7), complexes(5, 7)),
    ),
    "replaced": (
        lambda x, y: (x * y).index_copy(0, torch.tensor([1]), y[:1] * x[:1]),
        lambda: (complexes(5, 7), complexes(5, 7)),
    ),
    "picked": (
        lambda x, y: (x * y)[:, torch.tensor([2, 0, 2])] * (x * y).gather(1, torch.tensor([[1], [0]])),
        lambda: (complexes(2, 7), complexes(2, 7)),
    ),
    "parts": (lambda x, y: (x * y).real * (x * y).imag + (x / y).angle(), lambda: (complexes(5, 7), complexes(5, 7))),
    "choice": (lambda x, y: torch.where(x.real > 0, x * y, y * 2) * x, lambda: (complexes(5, 7), complexes(5, 7))),
    "slices": (written, lambda: (complexes(5, 9), complexes(5, 9))),
    "concatenated": (lambda x, y: torch.cat([x * y, y[:, :2]], 1).flip(1), lambda: (complexes(5, 9), complexes(5, 9))),
    "conjugate": (lambda x, y: (x.conj() * y).sum(1) * x[:, 0].conj(), lambda: (complexes(5, 9), complexes(5, 9))),
}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients(name: str) -> None:
    function, make = TRAINED[name]
    given = [x.requires_grad_() for x in make()]

    def gradients(call: Callable[..., Any]) -> Any:
        result = call(*given)
        return [result.detach(), *torch.autograd.grad(real_of(result).square().sum(), given)]

    fresh()
    own, eager = gradients(compiled(function)), gradients(function)
    for result, value in zip(own, eager, strict=True):
        torch.testing.assert_close(result, value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [lambda x: (x * 2 + 1j) * x, lambda x: x.exp() * 1j], ids=["chain", "call"])
def test_gradients_that_are_conjugates(function: Callable[..., Any]) -> None:
    x = complexes(5, 6).requires_grad_()
    grad = complexes(5, 6).conj()
    fresh()
    (own,), (eager,) = (torch.autograd.grad(f(x), x, grad) for f in (compiled(function), function))
    torch.testing.assert_close(own, eager)


CONJUGATED: dict[str, Callable[..., Any]] = {
    "product": lambda x: (x * x.abs()).conj(),
    "beside a magnitude": lambda x: ((x * 2).conj(), x.abs()),
    "beside an angle": lambda x: ((x * 2).conj(), x.angle()),
    "beside an exponential": lambda x: ((x * 2).conj(), x.exp() * 2),
    "transposed": lambda x: ((x * 2).mH, x.abs()),
    "part": lambda x: ((x * x).conj()[1:], x * x.abs()),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CONJUGATED)
def test_gradients_of_results_that_are_conjugates(name: str, dynamic: bool) -> None:
    """AOTAutograd traces such a gradient as a conjugate, and calls with another tensor."""
    function = CONJUGATED[name]
    x = complexes(3, 4).requires_grad_()

    def gradient(call: Callable[..., Any]) -> Any:
        results = call(x)
        results = results if isinstance(results, tuple) else (results,)
        return torch.autograd.grad(sum(result.abs().sum() for result in results), x)[0]

    fresh()
    torch.testing.assert_close(gradient(compiled(function, dynamic=dynamic)), gradient(function))


def test_another_call_with_a_conjugate() -> None:
    function = ARITHMETIC["product and sum"]
    call = compiled(function)
    fresh()
    x, y = complexes(5, 6), complexes(5, 6)
    for given in ((x, y), (x.conj(), y), (x, y.conj()), (x.conj(), y.conj())):
        torch.testing.assert_close(call(*given), function(*given))


SHARED: dict[str, Callable[..., Any]] = {
    "real": lambda x: [(v := x * 2 + 1), v.real, v.imag],
    "all parts": lambda x: [(v := x * 2 + 1), torch.view_as_real(v)],
    "parts alone": lambda x: [(v := x * 2 + 1).real, v.imag],
    "part of a view": lambda x: [(v := x * 2 + 1), v[::2].real, v.t().imag],
    "conjugate": lambda x: [(v := x * 2 + 1), v.conj(), v.conj().imag],
}


@pytest.mark.parametrize("is_transposed", [False, True], ids=["contiguous", "transposed"])
@pytest.mark.parametrize("name", SHARED)
def test_results_that_share_memory(name: str, is_transposed: bool) -> None:
    function = SHARED[name]
    x = complexes(4, 6).t() if is_transposed else complexes(6, 4)
    fresh()
    for results in (compiled(function)(x), function(x)):
        assert len({result.untyped_storage().data_ptr() for result in results}) == 1
        results[0].zero_()
        assert name == "parts alone" or all((result == 0).all() for result in results)
    _compare(compiled(function)(x), function(x))


@pytest.mark.parametrize("shape", [(), (1,), (3, 1)], ids=str)
def test_real_operands_and_complex_numbers(shape: tuple[int, ...]) -> None:
    """Parts that are numbers, or have fewer elements than the value."""

    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        v = a + 0.5j
        w = b + a.unsqueeze(-1)
        return v, b - v, (b - v) == v, v.unsqueeze(-1).exp(), v.sum(), torch.where(v.real > 0, v, a), w.reshape(-1) * 2

    given = torch.randn(shape), complexes(4)
    fresh()
    _compare(compiled(function)(*given), function(*given))


@pytest.mark.parametrize("name", ["split", "chunk", "unbind"])
def test_parts_of_pieces_of_a_conjugate(name: str) -> None:
    arguments = {"split": (2, -1), "chunk": (2, -1), "unbind": (1,)}[name]

    def function(x: torch.Tensor) -> torch.Tensor:
        piece: torch.Tensor = getattr(x, name)(*arguments)[1]
        return piece.imag

    x = complexes(5, 6).requires_grad_()
    fresh()
    own, eager = (f(x.conj()) for f in (compiled(function), function))
    torch.testing.assert_close(own, eager)


def test_rotations_are_one_kernel() -> None:
    fresh()
    x, y = torch.randn(2, 16, 4, 8).bfloat16(), complexes(16, 1, 4)
    torch.testing.assert_close(compiled(rotated)(x, y), rotated(x, y))
    assert count("kernels") == 1


def test_operators_that_torch_takes_apart_for_real_numbers() -> None:
    x = complexes(5, 7)
    x[0, 0] = complex("nan")
    fresh()
    assert torch.equal(compiled(torch.nan_to_num)(x), torch.nan_to_num(x))
    with pytest.raises(RuntimeError, match="nansum"):
        compiled(torch.nansum)(x)


def test_single_operators() -> None:
    """A product by ATen is as good as a kernel; a quotient, which ATen computes number by number, is not."""
    x, y = complexes(5, 9), complexes(5, 9)
    fresh()
    assert torch.equal(torch.compile(lambda x, y: x * y, backend=BACKEND)(x, y), x * y)
    assert count("kernels") == 0
    fresh()
    torch.testing.assert_close(torch.compile(lambda x, y: x / y, backend=BACKEND)(x, y), x / y)
    assert count("kernels") == 1


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_sizes_beside_complex_numbers(dynamic: bool | None, dtype: torch.dtype) -> None:
    programs: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: (2 * x) * x.shape[0],
        lambda x: x.cos() / x.shape[0],
        lambda x: x.sum(0) / x.shape[0] + x.shape[1],
        lambda x: x.shape[0] - x * x,
        lambda x: x.shape[0] / (x * x + 3),
    ]
    for function in programs:
        torch.compiler.reset()
        run = compiled(function, dynamic=dynamic)
        for rows in (3, 5, 7):
            x = torch.randn(rows, 4, dtype=dtype)
            torch.testing.assert_close(run(x), function(x))
