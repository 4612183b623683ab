"""Results that view inputs, other results or negatives, and views of inputs that are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.compiling import BACKEND, assert_same, compiled, fresh


def _of_one_piece(x: torch.Tensor) -> Any:
    return x.unbind(-2)[0].reshape(-1), x.unbind(-2)[0]


def _of_a_result(x: torch.Tensor) -> Any:
    y = x * 2
    views = y.view(y.shape), y.squeeze(0)[:], y.view(-1).view(y.shape), y.chunk(1)[0], y[None].unbind(0)[0]
    return y, *views, x.chunk(1)[0]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("function", [_of_one_piece, _of_a_result])
def test_views_that_are_alike_are_tensors_of_their_own(function: Callable[..., Any], training: bool) -> None:
    """A view of all elements in the same shape shares memory, not the object: changing the shape of one is not seen in
    the others."""
    x = torch.randn(1, 1) if function is _of_one_piece else torch.randn(3, 4)
    x.requires_grad_(training)
    fresh()
    results, expected = compiled(function)(x), function(x)
    assert len({id(each) for each in (x, *results)}) == len(results) + 1
    assert len({each.data_ptr() for each in results}) == len({each.data_ptr() for each in expected})
    results[0].detach().add_(1)
    expected[0].detach().add_(1)
    assert_same([each.detach() for each in results], [each.detach() for each in expected])
    assert all(each._version == results[0]._version for each in results if each.data_ptr() == results[0].data_ptr())
    results[1].detach().unsqueeze_(0)
    assert [each.shape for each in results] == [each.shape for each in expected]


def _complex_of_negative(t: torch.Tensor) -> Any:
    z = torch.view_as_complex(torch._neg_view(t + 0))
    return z, torch._conj(z[0]), z.real


def _real_of_negative(t: torch.Tensor) -> Any:
    z = torch._neg_view(torch.view_as_complex(t + 0))
    return torch.view_as_real(z)[..., 1:], z.imag, z.conj()


def _adjoint_without_imaginary_part(t: torch.Tensor) -> Any:
    z = torch.complex(t[..., 0], t[..., 1]).adjoint()
    z.imag.zero_()
    return z


def _parts(z: torch.Tensor) -> Any:
    return z.real, z.conj()[0].imag, torch.view_as_real(z.resolve_conj()), z.conj()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("function", "of"),
    [
        (_complex_of_negative, lambda t: t),
        (_real_of_negative, lambda t: t),
        (_adjoint_without_imaginary_part, lambda t: t),
        (torch.view_as_complex, torch._neg_view),
        (_parts, lambda t: torch._neg_view(torch.view_as_complex(t))[1:]),
        (_parts, lambda t: torch._neg_view(torch.view_as_complex(t).conj())),
    ],
    ids=["complex", "real", "adjoint", "negative", "negative complex", "negative conjugate"],
)
def test_results_over_negatives_of_another_dtype(function: Any, of: Any, dynamic: bool) -> None:
    """Real parts of what is the negative of its memory, and complex numbers made of such parts."""
    argument = of(torch.randn(3, 4, 2))
    fresh()
    results, expected = compiled(function, dynamic=dynamic)(argument), function(argument)
    assert_same(results, expected)
    for one, other in zip(pytree.tree_leaves(results), pytree.tree_leaves(expected), strict=True):
        assert one.is_conj() == other.is_conj()
        assert one.data_ptr() == other.data_ptr() or not root_is(other, argument)


def root_is(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def test_an_input_that_begins_within_its_memory_is_restrided() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x[:1] = x.sum()
        torch.broadcast_tensors(x, x)[0].transpose_(0, 1)  # Dynamo refuses x.transpose_
        return x[0]

    fresh()
    call = compiled(function)
    for offset in (0, 7, 7, 3):
        mine, theirs = torch.arange(64.0), torch.arange(64.0)
        inputs = [memory[offset : offset + 40].view(5, 8)[:, 1:7] for memory in (mine, theirs)]
        assert_same(call(inputs[0]), function(inputs[1]))
        assert_same(mine, theirs)
        assert inputs[0].storage_offset() == inputs[1].storage_offset()
        assert inputs[0].stride() == inputs[1].stride()


def _empty_write(x: torch.Tensor) -> Any:
    x[0:0] = 1
    return x.diagonal() + 1, x.diagonal(-1) * 2, x.unfold(0, 2, 1) + 1


def _row(x: torch.Tensor) -> Any:
    x[1:2].mul_(2)
    return x.diagonal(1) + 1, x.unfold(1, 2, 1) + 1


def _between_elements(x: torch.Tensor) -> Any:
    x[0] = 1
    return x.as_strided((2, 2), (1, 1), 8) + 1


def _from_the_first(x: torch.Tensor) -> Any:
    y = x.as_strided((2, 2), (1, 1))
    x[0] = 1
    return y + 1


WITHIN_MEMORY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "stepped": lambda x: x.view(4, 5)[1:, 1::2],
    "offset": lambda x: x[7:13].view(3, 2),
    "short": lambda x: x[:6].view(3, 2),
    "all": lambda x: x.view(4, 5),
    "turned": lambda x: x.view(5, 4)[1:].t(),
    "long": lambda x: x[2:17].view(3, 5),
}


@pytest.mark.filterwarnings("ignore:torch_tile. graph")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", WITHIN_MEMORY)
@pytest.mark.parametrize("function", [_empty_write, _row, _between_elements, _from_the_first])
def test_strided_views_of_written_inputs(function: Any, layout: str, dynamic: bool) -> None:
    """Positions count from the input's own first element, or from its storage's; no memory is read that eager mode does
    not read."""
    mine, theirs = torch.arange(20.0), torch.arange(20.0)
    fresh()
    result = torch.compile(function, backend=BACKEND, dynamic=dynamic)(WITHIN_MEMORY[layout](mine))
    assert_same(result, function(WITHIN_MEMORY[layout](theirs)))
    assert_same(mine, theirs)


def _written_whole(x: torch.Tensor) -> Any:
    x.mul_(2)
    return x.as_strided((2, 2), (1, 1), 2) * 1


def _written_whole_and_read_within(x: torch.Tensor) -> Any:
    x.mul_(2)
    return x.as_strided((2, 2), (1, 1), 8) * 1


def _viewed_and_written_whole(x: torch.Tensor) -> Any:
    y = x.as_strided((2, 2), (1, 1), 8)
    x.mul_(2)
    return y * 1


def _written_through(x: torch.Tensor) -> Any:
    x.as_strided((2,), (1,), 8).mul_(3)
    return x * 2


def _written_by_index(x: torch.Tensor) -> Any:
    x[1] = x.as_strided((1,), (1,), 1) * 2
    return torch.as_strided(x, (2,), (1,), x.storage_offset() + 1) * x[0, 0]


@pytest.mark.filterwarnings("ignore:torch_tile. graph")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", WITHIN_MEMORY)
@pytest.mark.parametrize(
    "function",
    [
        _written_whole,
        _written_whole_and_read_within,
        _viewed_and_written_whole,
        _written_through,
        _written_by_index,
        _from_the_first,
    ],
)
def test_strided_views_count_from_the_storage(function: Any, layout: str, dynamic: bool, training: bool) -> None:
    """A view at an offset of the storage reaches what eager mode reaches, also where tracing copies the input."""
    results = []
    fresh()
    for call in (torch.compile(function, backend=BACKEND, dynamic=dynamic), function):
        memory = torch.arange(20.0).requires_grad_(training)
        x = WITHIN_MEMORY[layout](memory * 1)
        result = call(x)
        if training:
            result.sum().backward()
        assert x._base is not None
        results.append((result.detach(), x._base.detach(), memory.grad if training else None))
    assert_same(*results)


OVERLAPPING: dict[str, Callable[[int], torch.Tensor]] = {
    "one element": lambda n: torch.ones(1).expand(n),
    "rows": lambda n: torch.ones(1, 4).expand(n, 4),
    "columns": lambda n: torch.arange(3.0).view(3, 1).expand(3, n),
    "windows": lambda n: torch.arange(n + 8.0).unfold(0, 4, 2),
    "diagonals": lambda n: torch.arange(40.0).as_strided((n, 4), (2, 1)),
    "apart": lambda n: torch.randn(n, 8)[:, ::2],
}
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda x: x.view(x.shape),
    "reshape": lambda x: x.reshape(x.shape),
    "flatten": lambda x: x.flatten(),
    "expand": lambda x: x.expand(2, *x.shape),
    "slice": lambda x: x[..., 1:].unsqueeze(0),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_gradients_of_views_of_inputs_whose_elements_share_memory(name: str) -> None:
    for view in VIEWS.values():

        def function(x: torch.Tensor, view: Callable[[torch.Tensor], torch.Tensor] = view) -> tuple[torch.Tensor, ...]:
            return view(x), x * 2

        torch.compiler.reset()
        compiled = torch.compile(function, backend="tile")
        for n in (5, 7):  # sizes are symbols from the second on
            x = OVERLAPPING[name](n).detach().requires_grad_()
            gradients = []
            for call in (function, compiled):
                result, twice = call(x)
                weights = torch.arange(float(result.numel())).view(result.shape)
                gradients += torch.autograd.grad((result * weights).sum() + twice.sum(), x)
            torch.testing.assert_close(*gradients)


def test_angles_of_one_row() -> None:
    """A copy in contiguous order has other strides in dimensions of one element alone."""
    z = torch.randn(6, 1, dtype=torch.complex64).t()
    compiled = torch.compile(lambda z: z.angle() * 2, backend="tile", options={"strict": True})
    torch.testing.assert_close(compiled(z), z.angle() * 2)


PIECES: dict[str, Callable[[torch.Tensor], Any]] = {
    "split": lambda x: x.split(2, 1),
    "chunk": lambda x: (x * 2, x.chunk(2)[1]),
    "unbind": lambda x: x.unbind(0)[1].view(2, 2),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PIECES)
def test_writes_into_pieces_are_refused(name: str, dynamic: bool) -> None:
    """As in eager mode: a gradient could not follow what is written into one of several views, or into their base."""
    f = PIECES[name]
    for call in (f, torch.compile(f, backend=BACKEND, dynamic=dynamic)):
        for writes_piece in (True, False):
            leaf = torch.ones(4, 4, requires_grad=True)
            x = leaf * 1
            piece = call(x)[-1] if name != "unbind" else call(x)
            assert piece._is_view()
            if writes_piece:
                with pytest.raises(RuntimeError, match="is a view and"):
                    piece.mul_(5)
                piece.sum().backward()
                assert leaf.grad is not None and leaf.grad.sum() == piece.numel()
            else:
                x.mul_(3)
                with pytest.raises(RuntimeError, match="is a view and"):
                    piece.sum().backward()
