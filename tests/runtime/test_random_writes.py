"""Random programs that index, scan and write in place through views, on inputs that may share memory, against eager.

All values are small integers, also in floating point, so that results are exact and a misplaced element shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.compiling import BACKEND, assert_same, fresh
from tests.runtime.test_random_graphs import examples, viewed

pytestmark = pytest.mark.fuzz

SIZES = [0, 1, 2, 3, 5, 7, 8, 17, 32]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.bool]
MAX_ELEMENTS = 1 << 11
LIMIT = 8  # of every value

Tensors = list[torch.Tensor]
Step = tuple[int, int, int, int]  # kind, operand, another operand, a parameter


def clamped(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.bool else x.clamp(-LIMIT, LIMIT)


def positions(x: torch.Tensor, size: int) -> torch.Tensor:
    """Values as indices of a dimension."""
    return x.to(torch.int64).abs() % size


def converted(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x if x.dtype == dtype else x.to(dtype)


def read(x: torch.Tensor, y: torch.Tensor, parameter: int) -> torch.Tensor | None:
    """A value computed from others: indexing, scans, a few reductions and pointwise operators."""
    kind, rest = parameter % 18, parameter // 18
    if kind == 0:
        return converted(x, DTYPES[rest % len(DTYPES)])
    if kind == 1 and broadcastable(x, y):
        return torch.where(x > 0, y, x.to(y.dtype)) if x.dtype != torch.bool else x & (y != 0)
    if kind == 2 and broadcastable(x, y):
        return x + y
    if x.dim() == 0:
        return -x if x.dtype != torch.bool else ~x
    dim = rest % x.dim()
    size = x.shape[dim]
    if size == 0:
        return x.clone()
    if kind == 3 and y.numel() <= 64:
        return x.index_select(dim, positions(y.reshape(-1), size))
    if kind == 4 and 1 <= y.dim() <= 2 and x.dim() + y.dim() <= 5 and x.numel() * y.numel() <= MAX_ELEMENTS:
        return x[(slice(None),) * dim + (positions(y, size),)]
    if kind == 5:
        return x.gather(dim, positions(x, size))
    if kind == 6 and x.dtype != torch.bool:
        return x.cumsum(dim)
    if kind == 7:
        return x.cummax(dim)[rest // 4 % 2]
    if kind == 8:
        return x.cummin(dim)[rest // 4 % 2]
    if kind == 9:
        return x.roll(rest % 5, dim)
    if kind == 10 and x.dim() >= 2:
        return x.tril(rest % 3 - 1)
    if kind == 11:
        return torch.nn.functional.pad(x, [rest % 3 - 1, rest // 3 % 3]) if x.shape[-1] > 1 else None
    if kind == 12 and x.dtype != torch.bool:
        return x.sum(dim, keepdim=bool(rest % 2))
    if kind == 13:
        return x.amax(dim)
    if kind == 14 and x.dtype != torch.bool:
        return x.argmax(dim)
    if kind == 15:
        return torch.stack([x, x.flip(dim)], dim) if x.numel() < MAX_ELEMENTS and x.dim() < 4 else None
    if kind == 16:
        return x.sort(dim=dim, stable=True)[rest // 4 % 2]
    return x.repeat_interleave(2, dim) if x.numel() < MAX_ELEMENTS else None


def broadcastable(x: torch.Tensor, y: torch.Tensor) -> bool:
    if any(a != b and 1 not in (a, b) for a, b in zip(reversed(x.shape), reversed(y.shape), strict=False)):
        return False
    return math.prod(torch.broadcast_shapes(x.shape, y.shape)) <= MAX_ELEMENTS


def overlaps(x: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride(), strict=True))


def write(x: torch.Tensor, y: torch.Tensor, parameter: int) -> None:
    """Changes a view of `x`. Where several values meet in an element, the order does not matter."""
    kind, rest = parameter % 13, parameter // 13
    view = viewed(x, rest) if rest % 3 else x
    if view is None or overlaps(view) or overlaps(x):
        return
    x, is_bool = view, view.dtype == torch.bool
    if kind == 0:
        x.fill_(True) if is_bool else x.add_(1)
    elif kind == 1:
        x.logical_not_() if is_bool else x.mul_(-2)
    elif kind == 2:
        x.zero_()
    elif kind == 3 and torch.broadcast_shapes(x.shape, y.shape) == x.shape if broadcastable(x, y) else False:
        x.copy_(y)
    elif kind == 4:
        x.masked_fill_(x > 0, 3) if not is_bool else x.masked_fill_(x, False)
    elif x.dim() == 0 or x.numel() == 0 or is_bool:
        x.fill_(1)
    elif kind == 5:
        x.scatter_add_(rest % x.dim(), positions(x, x.shape[rest % x.dim()]), x.clone())
    elif kind == 6:
        dim = rest % x.dim()
        x.scatter_reduce_(dim, positions(x, x.shape[dim]), x.clone(), ("amax", "amin", "sum")[rest // 4 % 3])
    elif kind == 7:
        dim = rest % x.dim()
        index = torch.arange(x.shape[dim]).flip(0)
        x.index_copy_(dim, index, x.clone())
    elif kind == 8:
        dim = rest % x.dim()
        x.index_add_(dim, torch.arange(x.shape[dim]) // 2, x.clone())
    elif kind == 9:
        x[positions(x.reshape(-1)[:5], x.shape[0])] = 2
    elif kind == 10:
        x.index_put_((torch.arange(x.shape[0]) // 2,), x.clone(), accumulate=True)
    elif kind == 11:
        x[x > 1] = -1
    elif kind == 12:
        x.index_fill_(rest % x.dim(), torch.zeros(1, dtype=torch.int64), 4)
    if not is_bool:
        x.clamp_(-LIMIT, LIMIT)


def program(steps: list[Step]) -> Callable[..., Tensors]:
    def function(*inputs: torch.Tensor) -> Tensors:
        values = list(inputs)
        for kind, first, second, parameter in steps:
            x, y = values[-1 - first % len(values)], values[-1 - second % len(values)]
            if kind < 3:
                write(x, y, parameter)
                continue
            value = viewed(x, parameter) if kind < 5 else read(x, y, parameter)
            if value is not None and value.numel() <= MAX_ELEMENTS:
                values.append(value if kind < 5 else clamped(value))
        return values[len(inputs) :][-4:] or [inputs[0] * 1]

    return function


@st.composite
def input_tensors(draw: st.DrawFn) -> Tensors:
    """One to three tensors, strided and permuted; the last may lie in the memory of the first."""
    result: Tensors = []
    for _ in range(draw(st.integers(1, 3))):
        shape = [draw(st.sampled_from(SIZES)) for _ in range(draw(st.integers(0, 3)))]
        while math.prod(shape) > MAX_ELEMENTS:
            shape[shape.index(max(shape))] = 2
        dtype, layout = draw(st.sampled_from(DTYPES)), draw(st.integers(0, 3))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
        low, high = (0, 2) if dtype == torch.bool else (-LIMIT, LIMIT + 1)
        sizes = [2 * n + 1 for n in shape[:1]] + shape[1:] if layout == 2 else list(shape)
        x = torch.randint(low, high, sizes, generator=generator).to(dtype)
        if layout == 1 and shape:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        result.append(x[1::2] if layout == 2 and shape else x)
    if len(result) > 1 and draw(st.integers(0, 3)) == 0 and result[0].dim():
        first = result[0]
        result[-1] = first[first.shape[0] // 2 :] if draw(st.booleans()) else first.transpose(0, -1)
    return result


steps = st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5), st.integers(0, 1999))
programs = st.tuples(input_tensors(), st.lists(steps, min_size=3, max_size=16))


def copied(inputs: Tensors) -> Tensors:
    """Copies that share memory as the originals do."""
    storages: dict[int, torch.UntypedStorage] = {}
    result = []
    for x in inputs:
        storage = x.untyped_storage()
        kept = storages.setdefault(storage.data_ptr() or id(x), storage.clone())
        result.append(torch.empty(0, dtype=x.dtype).set_(kept, x.storage_offset(), x.shape, x.stride()))
    return result


def shared(values: Tensors, inputs: Tensors) -> list[Any]:
    """Which values share memory with which inputs and values, and where in it they begin."""
    everything = [*inputs, *values]
    first = {id(x): next(i for i, y in enumerate(everything) if is_same_storage(x, y)) for x in everything}
    return [(first[id(x)], x.storage_offset() if first[id(x)] < len(inputs) else 0) for x in values if x.numel()]


def is_same_storage(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x is y or (x.numel() > 0 and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr())


@pytest.mark.parametrize("dynamic", [False, True])
@examples(60)
@given(programs)
def test_random_program(dynamic: bool, drawn: tuple[Tensors, list[Step]]) -> None:
    inputs, chosen = drawn
    if dynamic:  # torch refuses inputs of unknown sizes that share memory
        inputs = [x for i, x in enumerate(inputs) if not any(is_same_storage(x, y) for y in inputs[:i])]
    try:
        compare(inputs, program(chosen), BACKEND, dynamic)
    except Exception:
        assume(is_torch_right(inputs, program(chosen), dynamic))
        raise


def compare(inputs: Tensors, function: Callable[..., Tensors], backend: str, dynamic: bool) -> None:
    expected_inputs, given_inputs = copied(inputs), copied(inputs)
    expected = function(*expected_inputs)
    fresh()
    options = {"options": {"strict": True}} if backend == "tile" else {}
    with torch._dynamo.config.patch(specialize_int=True):
        result = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True, **options)(*given_inputs)
    assert_same(result, expected, exact=True, check_stride=False)
    assert_same(given_inputs, expected_inputs, exact=True)
    assert shared(result, given_inputs) == shared(expected, expected_inputs)


def is_torch_right(inputs: Tensors, function: Callable[..., Tensors], dynamic: bool) -> bool:
    """Whether what comes before any backend (Dynamo, AOTAutograd's functionalization) keeps the program's meaning."""
    try:
        compare(inputs, function, "aot_eager", dynamic)
    except Exception:  # it fails on some inputs that share memory, when it makes views of them again
        return False
    return True
