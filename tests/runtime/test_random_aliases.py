"""Random programs of views, most of them made by calls, writes through them and reads around them, against eager.

Views change the dtype, the conjugate or the negative bit, or claim sizes and strides over a storage; inputs may lie in
one storage; custom operators write, or give back what they were given. All values are small integers, so results are
exact. `HYPOTHESIS_PROFILE=fuzz` runs many more examples, TORCH_TILE_TEST_EXAMPLES a given number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.compiling import BACKEND, assert_same, fresh
from tests.runtime.test_random_graphs import examples
from tests.runtime.test_random_writes import copied, is_same_storage, shared

pytestmark = pytest.mark.fuzz

Tensors = list[torch.Tensor]
Step = tuple[int, int, int, int]  # kind, operand, another operand, a parameter
DTYPES = [torch.float32, torch.int32, torch.bfloat16, torch.float64, torch.complex64, torch.bool, torch.uint8]
MOST = 256

aten = torch.ops.aten
_library = torch.library.Library("random_aliases", "DEF")
_library.define("same(Tensor x) -> Tensor")
_library.define("halves(Tensor x) -> Tensor[]")
_library.define("turn_(Tensor(a!) x) -> ()")
_library.define("add_into(Tensor x, Tensor(a!) out) -> Tensor")


def _turn(x: torch.Tensor) -> None:
    x.copy_(x.flip(0) if x.dim() else x)


def _add_into(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out.copy_(x)
    return x + 1 if x.dtype != torch.bool else ~x


for _name, _function in {
    "same": lambda x: x.view(x.shape),
    "halves": lambda x: list(x.chunk(2)),
    "turn_": _turn,
    "add_into": _add_into,
}.items():
    _library.impl(_name, _function, "CompositeExplicitAutograd")
operators = torch.ops.random_aliases


def view_as(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """The bits of integers as another dtype would be noise: what is read of them is compared bit for bit."""
    if x.dtype == torch.bool or dtype == torch.bool or x.is_complex() or dtype.is_complex:
        return None
    return x.view(dtype)


def viewed(x: torch.Tensor, parameter: int) -> torch.Tensor | None:
    """A view of x; None where there is none."""
    kind, rest = parameter % 22, parameter // 22
    dim = rest % x.dim() if x.dim() else 0
    if kind == 0:
        return view_as(x, (torch.int32, torch.float32, torch.uint8, torch.int16)[rest % 4])
    if kind == 1:
        return torch.view_as_complex(x) if x.dtype == torch.float32 and x.dim() and x.shape[-1] == 2 else None
    if kind == 2:
        return torch.view_as_real(x) if x.is_complex() and not x.is_conj() else None
    if kind == 3:
        return x.conj()
    if kind == 4:
        return x.real if x.is_complex() else None
    if kind == 5:
        return x.imag if x.is_complex() else None
    if kind == 6:
        return torch._neg_view(x) if x.dtype in (torch.float32, torch.int32) else None
    if kind == 7:
        return aten.alias.default(x)
    if kind == 8:
        return x.detach()
    if kind == 9:
        return x.view(-1)
    if kind == 10:
        return x.unsqueeze(rest % (x.dim() + 1)) if x.dim() < 4 else None
    if kind == 11:
        return x.squeeze()
    if x.dim() == 0:
        return x.expand(3) if kind == 12 else None
    size = x.shape[dim]
    if kind == 12:
        return x.transpose(dim, rest // 4 % x.dim())
    if kind == 13:
        return x.narrow(dim, rest % size, max(1, (size - rest % size) // 2)) if size else None
    if kind == 14:
        return x.select(dim, rest % size) if size else None
    if kind == 15:
        return x.unfold(dim, min(2, size), 1) if size else None
    if kind == 16:
        return x.diagonal(rest % 3 - 1) if x.dim() == 2 else None
    if kind == 17:
        return x.split(max(1, size // 2), dim)[0] if size else None
    if kind == 18:
        return x.unbind(dim)[-1] if size else None
    if kind == 19:
        return x.as_strided((2, 2), (1, 2), x.storage_offset()) if x.dim() == 1 and size > 3 else None
    if kind == 20:
        return x.as_strided((3,), (x.stride(0),)) if x.dim() == 1 and size > 2 else None
    return x.view(2, -1) if x.numel() % 2 == 0 and x.is_contiguous() else None


def read(x: torch.Tensor, y: torch.Tensor, parameter: int) -> torch.Tensor | None:
    kind, rest = parameter % 10, parameter // 10
    if kind == 0:
        return x.flip(0) if x.dim() else x * 1
    if kind == 1:
        return ~x if x.dtype == torch.bool else x * 2
    if kind == 2 and x.shape == y.shape and torch.bool not in (x.dtype, y.dtype):
        return x + y
    if kind == 3:
        return x.clone()
    if kind == 4:
        return x * 1 if rest % 2 else x + 0
    if kind == 5 and x.dtype != torch.bool:
        return x.sum(0) if x.dim() else x.sum()
    if kind == 6 and not x.is_complex():
        return x.amax() if x.numel() else None
    if kind == 7 and not x.is_complex() and x.dim():
        return x.sort(dim=0, stable=True)[0]
    if kind == 8:
        return torch.cat([x, x]) if x.dim() and x.numel() < MOST else None
    return x.to(torch.float32) if not x.is_complex() else x.resolve_conj()


def overlaps(x: torch.Tensor) -> bool:
    """Whether several places of x are one element."""
    reached = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride < reached:
                return True
            reached = stride * (size - 1) + reached
    return False


def write(x: torch.Tensor, y: torch.Tensor, parameter: int) -> None:
    if overlaps(x):
        return
    kind = parameter % 7
    if kind == 0:
        x.logical_not_() if x.dtype == torch.bool else x.add_(1)
    elif kind == 1:
        x.zero_()
    elif kind == 2:
        x.fill_(1)
    elif kind == 3 and x.shape == y.shape and (x.is_complex() or not y.is_complex()):
        x.copy_(y)
    elif kind == 4:
        x.copy_(x.flip(0) if x.dim() else x)
    elif kind == 5 and x.is_contiguous() and not (x.is_conj() or x.is_neg()):
        operators.turn_(x)
    elif kind == 6 and x.shape == y.shape and x.dtype == y.dtype and not is_same_storage(x, y):
        operators.add_into(y.clone(), x)


def program(steps: list[Step]) -> Callable[..., Tensors]:
    def function(*inputs: torch.Tensor) -> Tensors:
        values, results = list(inputs), []
        for kind, first, second, parameter in steps:
            x, y = values[-1 - first % len(values)], values[-1 - second % len(values)]
            if kind < 3:
                write(x, y, parameter)
                continue
            value = viewed(x, parameter) if kind < 7 else read(x, y, parameter)
            if value is not None and 0 < value.numel() <= MOST:
                values.append(value)
                if kind >= 7 or parameter % 3 == 0:
                    results.append(value)
        return results[-5:] or [inputs[0] * 1]

    return function


@st.composite
def input_tensors(draw: st.DrawFn) -> Tensors:
    result: Tensors = []
    for _ in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from(DTYPES))
        shape = draw(st.sampled_from([(), (1,), (8,), (4, 2), (2, 4), (3, 4, 2), (12,)]))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
        base = torch.randint(0, 2 if dtype == torch.bool else 8, (40,), generator=generator).to(dtype)
        if dtype.is_complex:
            base = torch.complex(base.real, base.real.flip(0))
        offset = draw(st.sampled_from([0, 0, 2, 8]))
        size = torch.Size(shape).numel()
        x = base[offset : offset + size].view(shape)
        if draw(st.integers(0, 3)) == 0 and x.dim() > 1:
            x = x.transpose(0, -1)
        if draw(st.integers(0, 5)) == 0:
            x = x.conj() if x.is_complex() else torch._neg_view(x) if x.dtype == torch.float32 else x
        result.append(x)
        if draw(st.integers(0, 2)) == 0:  # another one over the same storage
            start = draw(st.sampled_from([0, 1, 4, 8]))
            result.append(base[start : start + 8])
    return result


steps = st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5), st.integers(0, 1999))
programs = st.tuples(input_tensors(), st.lists(steps, min_size=3, max_size=12))
COUNTS: Counter[str] = Counter()


@examples(60)
@given(programs)
def test_random_views_by_calls(drawn: tuple[Tensors, list[Step]]) -> None:
    inputs, chosen = drawn
    function = program(chosen)
    try:
        function(*_like(inputs))
    except RuntimeError:  # eager mode refuses a view or a write
        COUNTS["refused"] += 1
        assume(False)
    COUNTS["programs"] += 1
    try:
        compare(inputs, function, BACKEND)
    except Exception:
        COUNTS["torch"] += 1
        assume(_is_torch_right(inputs, function))
        raise


def _flipped(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """x with the bits turned that `like` has set."""
    return x.conj() if like.is_conj() else torch._neg_view(x) if like.is_neg() else x


def _like(inputs: Tensors) -> Tensors:
    """Copies that share memory, and have the bits, that the originals do."""
    plain = copied([_flipped(x, x) for x in inputs])
    return [_flipped(y, x) for x, y in zip(inputs, plain, strict=True)]


def compare(inputs: Tensors, function: Callable[..., Any], backend: str) -> None:
    expected_inputs, given_inputs = _like(inputs), _like(inputs)
    expected = function(*expected_inputs)
    fresh()
    options = {"options": {"strict": True}} if backend == "tile" else {}
    result = torch.compile(function, backend=backend, dynamic=False, fullgraph=True, **options)(*given_inputs)
    assert_same(result, expected, exact=True, check_stride=False)
    assert_same(given_inputs, expected_inputs, exact=True)
    assert shared(result, given_inputs) == shared(expected, expected_inputs)


def _is_torch_right(inputs: Tensors, function: Callable[..., Any]) -> bool:
    """Whether what comes before any backend (Dynamo, AOTAutograd's functionalization) keeps the program's meaning."""
    try:
        compare(inputs, function, "aot_eager")
    except Exception:
        return False
    return True
