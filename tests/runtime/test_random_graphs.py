"""Random graphs of pointwise operators, views and reductions against eager; random chains of views into a sum.

A graph is a list of small numbers, so that hypothesis can shrink it; each number is interpreted by what is possible
there. `HYPOTHESIS_PROFILE=fuzz` runs many more examples, TORCH_TILE_TEST_EXAMPLES a given number.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.compiling import assert_same, compiled, compiler_seconds, fresh
from tests.fuzz.oracle import too_far

pytestmark = pytest.mark.fuzz

EXAMPLES = int(os.environ.get("TORCH_TILE_TEST_EXAMPLES", "0"))
SIZES = [0, 1, 2, 3, 5, 8, 16, 17, 33, 64]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]
MAX_ELEMENTS = 1 << 14

Tensors = list[torch.Tensor]
Step = tuple[int, int, int, int]  # kind, operand, another operand, a parameter
Move = Callable[[int, torch.Tensor], torch.Tensor]


FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
# Shrinking compiles hundreds of graphs: only where there is time.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if FUZZ else [])]


def examples(count: int) -> Callable[[Any], Any]:
    return settings(max_examples=EXAMPLES or count * (40 if FUZZ else 1), phases=PHASES)


# Building: every function takes the step's operand (and maybe another) and a number, and gives a tensor or None.


def as_float(x: torch.Tensor) -> torch.Tensor:
    """Integers as floats: float32, and float64 where the exact answer is computed (`wide_floats`)."""
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


@contextlib.contextmanager
def wide_floats() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def bounded(x: torch.Tensor) -> torch.Tensor:
    """Keeps values small, so that rounding errors stay comparable through a long graph."""
    return x.clamp(-8, 8) if x.dtype != torch.bool else x


UNARY: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: torch.exp(-as_float(x).abs()),
    lambda x: torch.log1p(as_float(x).abs()),
    lambda x: torch.tanh(as_float(x)),
    lambda x: torch.sigmoid(as_float(x)),
    lambda x: torch.sqrt(as_float(x).abs() + 0.25),
    lambda x: torch.erf(as_float(x)),
    lambda x: torch.sin(as_float(x)),
    lambda x: torch.relu(x) if x.dtype != torch.bool else ~x,
    lambda x: -x if x.dtype != torch.bool else ~x,
    lambda x: x.abs() if x.dtype != torch.bool else x,
    lambda x: x * 2 + 1,
    lambda x: x.to(torch.get_default_dtype()),
    lambda x: x.to(torch.float64),
    lambda x: (x > 0) if x.dtype != torch.bool else x.logical_not(),
    lambda x: x.to(torch.int64) if not x.is_floating_point() else (x * 0 + 3).nan_to_num().to(torch.int64),
]
BINARY: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: as_float(x) - as_float(y),
    torch.maximum,
    torch.minimum,
    lambda x, y: as_float(x) / (as_float(y).abs() + 0.5),
    lambda x, y: torch.where(x.bool(), x, y),
    lambda x, y: (x != 0) & (y != 0),
]


def reduced(x: torch.Tensor, parameter: int) -> torch.Tensor | None:
    if x.dim() == 0 or x.numel() == 0:
        return None
    dim, keep, kind = parameter % x.dim(), bool(parameter // 4 % 2), parameter // 8 % 6
    scale = 1 / math.sqrt(x.shape[dim])
    if kind == 0:
        return as_float(x).sum(dim, keepdim=keep) * scale
    if kind == 1:
        return as_float(x).mean(dim, keepdim=keep)
    if kind == 2:
        return x.amax(dim, keepdim=keep)
    if kind == 3:
        return x.amin(dim, keepdim=keep)
    if kind == 4:
        return x.bool().any(dim, keepdim=keep)
    return torch.softmax(as_float(x), dim)


def viewed(x: torch.Tensor, parameter: int) -> torch.Tensor | None:
    """A view, or a copy that moves elements."""
    kind, rest = parameter % 12, parameter // 12
    if kind == 0:
        return x.unsqueeze(rest % (x.dim() + 1)) if x.dim() < 4 else None
    if kind == 1:
        return x.reshape(-1)
    if x.dim() == 0:
        return None
    dim = rest % x.dim()
    size = x.shape[dim]
    if kind == 2:
        return x.transpose(dim, (rest // 4) % x.dim())
    if kind == 3:
        return x.squeeze(dim)
    if kind == 4:
        return x.narrow(dim, size // 3, size - size // 3)
    if kind == 5:
        return x[(slice(None),) * dim + (slice(rest % 2, None, 2),)]
    if kind == 6:
        return x.select(dim, rest % size) if size else None
    if kind == 7:
        return x.flip(dim)
    if kind == 8:
        return torch.cat([x, x.narrow(dim, 0, size // 2)], dim) if x.numel() < MAX_ELEMENTS else None
    if kind == 9:
        return x.unsqueeze(0).expand(3, *x.shape) if x.dim() < 4 and x.numel() < MAX_ELEMENTS else None
    if kind == 10:
        divisor = next((d for d in (2, 3, 5, 4) if size % d == 0 and size), None)
        return x.unflatten(dim, (divisor, -1)) if divisor and x.dim() < 4 else None
    return x.flatten(max(dim - 1, 0), dim)


def broadcastable(x: torch.Tensor, y: torch.Tensor) -> bool:
    if any(a != b and 1 not in (a, b) for a, b in zip(reversed(x.shape), reversed(y.shape), strict=False)):
        return False
    return math.prod(torch.broadcast_shapes(x.shape, y.shape)) <= MAX_ELEMENTS


def apply(step: Step, values: Tensors) -> torch.Tensor | None:
    kind, first, second, parameter = step
    x, y = values[-1 - first % len(values)], values[-1 - second % len(values)]
    if kind < 4:
        return UNARY[parameter % len(UNARY)](x)
    if kind < 7:
        return BINARY[parameter % len(BINARY)](x, y) if broadcastable(x, y) else None
    if kind < 9:
        return viewed(x, parameter)
    return reduced(x, parameter)


def evaluated(steps: list[Step], inputs: Sequence[torch.Tensor], move: Move | None = None) -> Tensors:
    """Every value of the graph; `move` changes each of them on its way."""
    values = list(inputs)
    for step in steps:
        value = apply(step, values)
        if value is not None:
            value = bounded(value)
            values.append(value if move is None else move(len(values), value))
    return values


def program(steps: list[Step]) -> Callable[..., Tensors]:
    """The graph as a function: copies of its last four values."""
    return lambda *inputs: [copied(v) for v in evaluated(steps, inputs)[-4:]]


def copied(v: torch.Tensor) -> torch.Tensor:
    return v * 1 if v.dtype != torch.bool else v.logical_not()


# Inputs: a base tensor seen through a permutation, a slice or an expansion.


@st.composite
def input_tensors(draw: st.DrawFn) -> torch.Tensor:
    dims = draw(st.integers(0, 4))
    shape = [draw(st.sampled_from(SIZES)) for _ in range(dims)]
    while math.prod(shape) > MAX_ELEMENTS:
        shape[shape.index(max(shape))] = 2
    dtype = draw(st.sampled_from(DTYPES))
    layout = draw(st.integers(0, 3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    permutation = draw(st.permutations(range(dims)))

    def fill(sizes: list[int]) -> torch.Tensor:
        if dtype == torch.bool:
            return torch.randint(2, sizes, generator=generator).bool()
        if dtype == torch.int64:
            return torch.randint(-4, 5, sizes, generator=generator)
        # Multiples of 1/8 are exact in bfloat16 too.
        return (torch.randint(-24, 25, sizes, generator=generator) / 8).to(dtype)

    if layout == 1 and dims:
        return fill([shape[p] for p in permutation]).permute([permutation.index(i) for i in range(dims)])
    if layout == 2 and dims:
        return fill([2 * n + 1 for n in shape[:1]] + shape[1:])[1::2]
    if layout == 3 and dims and shape[0]:
        return fill([1, *shape[1:]]).expand(shape)
    return fill(shape)


steps = st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5), st.integers(0, 599))
graphs = st.tuples(st.lists(input_tensors(), min_size=1, max_size=3), st.lists(steps, min_size=5, max_size=25))


def compare(steps: list[Step], inputs: Tensors, run: Callable[..., Tensors]) -> None:
    """Against float64, by eager's own error in units of noise (`tests/fuzz/oracle.py`).

    A value that eager computes without any rounding must be eager's. An answer that jumps (a comparison, an integer)
    must be float64's wherever neither noise nor eager's roundings change it.
    """
    result, eager = run(*inputs), evaluated(steps, inputs)
    expected = [copied(v) for v in eager[-4:]]
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    with wide_floats():
        exact = evaluated(steps, wide)
    is_rounded = [
        not torch.equal(a.double().nan_to_num(7), b.double().nan_to_num(7)) for a, b in zip(eager, exact, strict=True)
    ]
    runs = [[copied(v) for v in exact[-4:]]]
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)

        def moved(k: int, value: torch.Tensor, generator: torch.Generator = generator) -> torch.Tensor:
            if not is_rounded[k] or not value.is_floating_point():
                return value
            sign = torch.randint(0, 2, value.shape, generator=generator).double() * 2 - 1
            return value * (1 + torch.finfo(eager[k].dtype).eps * sign)

        with wide_floats():
            runs.append([copied(v) for v in evaluated(steps, wide, moved)[-4:]])
    for index, (a, b, *judges) in enumerate(zip(result, expected, *runs, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape, f"result {index}"
        if a.is_floating_point():
            text = too_far(a, b, judges, False)
            assert text is None, f"result {index}: {text}"
            continue
        is_sure = torch.stack([judge == b for judge in judges]).all(0)
        wrong = (a != b) & is_sure
        assert not wrong.any(), f"result {index}: {a[wrong][:4]}, not {b[wrong][:4]}"


@examples(60)
@given(graphs)
def test_random_graph(graph: tuple[Tensors, list[Step]]) -> None:
    inputs, chosen = graph
    fresh()
    function = program(chosen)
    compare(chosen, inputs, compiled(function))


@examples(25)
@given(graphs)
def test_random_graph_with_dynamic_sizes(graph: tuple[Tensors, list[Step]]) -> None:
    inputs, chosen = graph
    fresh()
    function = program(chosen)
    # The numbers of the steps are part of the program; only sizes are symbols.
    with torch._dynamo.config.patch(specialize_int=True):
        compare(chosen, inputs, compiled(function, dynamic=True))


def moved(x: torch.Tensor, parameter: int) -> torch.Tensor | None:
    """`viewed`, or an operator on all elements at once that moves them."""
    kind, rest = parameter % 16, parameter // 16
    if kind < 10 or x.dim() == 0 or x.numel() == 0:
        return viewed(x, parameter)
    dim = rest % x.dim()
    if kind == 10:
        return x.roll(1 + rest % 5, dim)
    if kind == 11:
        return F.pad(x, (rest % 3, 1)) if x.numel() < MAX_ELEMENTS else None
    if kind == 12:
        step = 1 + rest % 2
        is_small = x.dim() < 4 and x.shape[dim] >= 2 and 2 * x.numel() <= MAX_ELEMENTS
        return x.unfold(dim, 2, step) if is_small else None
    if kind == 13:
        return torch.cat([x.narrow(dim, x.shape[dim] // 2, x.shape[dim] - x.shape[dim] // 2), x], dim)[
            tuple(slice(0, n) for n in x.shape)
        ]
    if kind == 14:  # the same number of elements, cut at other places
        return x.permute(*reversed(range(x.dim()))).reshape(x.shape)
    return x.flip(tuple(range(x.dim())))


chains = st.tuples(input_tensors(), st.lists(st.integers(0, 599), min_size=2, max_size=10))
long_chains = st.tuples(input_tensors(), st.lists(st.integers(0, 599), min_size=10, max_size=40))


@pytest.mark.parametrize("dynamic", [False, True])
@examples(40)
@given(chains)
def test_chain_of_views_into_a_sum(dynamic: bool, chain: tuple[torch.Tensor, list[int]]) -> None:
    """Sums of small integers are exact: every misplaced element shows."""
    x, parameters = chain
    x = x.to(torch.int64) if x.dtype == torch.bool else (x.double() * 8).to(torch.int64)

    def function(x: torch.Tensor) -> Any:
        for parameter in parameters:
            value = viewed(x, parameter)
            x = x if value is None else value
        weights = torch.arange(x.numel()).reshape(x.shape)
        rows = (x * weights).sum(-1) if x.dim() else x
        return rows, (x * weights).sum(), x + 1

    fresh()
    with torch._dynamo.config.patch(specialize_int=True):
        assert_same(compiled(function, dynamic=dynamic)(x), function(x), exact=True, check_stride=False)


@pytest.mark.parametrize("dynamic", [False, True])
@examples(20)
@given(long_chains)
def test_long_chain_of_views(dynamic: bool, chain: tuple[torch.Tensor, list[int]]) -> None:
    """Index expressions stay within their budget however long the chain is: values are eager's, and time is bounded."""
    x, parameters = chain
    x = x.to(torch.int64) if x.dtype == torch.bool else (x.double() * 8).to(torch.int64)

    def function(x: torch.Tensor) -> Any:
        for parameter in parameters:
            value = moved(x, parameter)
            x = x if value is None else value
        return (x * torch.arange(x.numel()).reshape(x.shape)).sum(), x * 2 + 1

    fresh()
    with torch._dynamo.config.patch(specialize_int=True), compiler_seconds() as spent:
        result = compiled(function, dynamic=dynamic)(x)
    assert_same(result, function(x), exact=True, check_stride=False)
    assert spent.seconds < 5 + 0.05 * spent.nodes


@pytest.mark.parametrize("dtype,amount", [(torch.float32, 4e-6), (torch.float64, 1e-14), (torch.bool, 1)], ids=str)
def test_comparison_sees_one_wrong_element(dtype: torch.dtype, amount: float) -> None:
    steps = [(0, 0, 0, 0), (0, 0, 0, 13)] if dtype == torch.bool else [(0, 0, 0, 0)]  # exp, and whether it is above 0
    inputs = [(torch.arange(99) / 8).to(torch.float32 if dtype == torch.bool else dtype)]
    compare(steps, inputs, program(steps))

    def wrong(*inputs: torch.Tensor) -> Tensors:
        result = program(steps)(*inputs)
        result[-1][5] = ~result[-1][5] if dtype == torch.bool else result[-1][5] * (1 + amount)
        return result

    with pytest.raises(AssertionError):
        compare(steps, inputs, wrong)
