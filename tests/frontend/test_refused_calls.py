"""Calls that eager mode refuses and tracing would compute, signs of zero, layouts of gradients: as in eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.exc import TorchRuntimeError

from tests.compiling import BACKEND, assert_same, compiled, fresh, tile_only

Function = Callable[..., Any]
INTEGERS = torch.arange(-4, 5, dtype=torch.int8)


def _copied(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    return y[1:].copy_(y[:-1])


def _added(x: torch.Tensor) -> torch.Tensor:
    x[1:] += x[:-1]
    return x


def _transposed(x: torch.Tensor) -> torch.Tensor:
    y = x.clone().view(3, 3)
    return y.add_(y.t())


def _into(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    return torch.mul(y[1:], 2.0, out=y[:-1])


def _set_at(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[index] = value
    return y


def _set_within(x: torch.Tensor) -> torch.Tensor:
    x[torch.arange(8)] = x[1:]
    return x


REFUSED: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "copy": (_copied, (torch.randn(9),)),
    "add": (_added, (torch.randn(9),)),
    "transposed": (_transposed, (torch.randn(9),)),
    "out": (_into, (torch.randn(9),)),
    "add_to_expanded": (lambda x: x.expand(3, 9).add_(1), (torch.randn(9),)),
    "minus_bool": (lambda x: x - True, (INTEGERS,)),
    "bool_minus": (lambda x: True - x, (torch.randn(9),)),
    "bool_alpha": (lambda x: torch.add(x, x, alpha=True), (torch.randn(9),)),
    "product_into_integers": (lambda x: x.clone().mul_(torch.ones(9) / 2), (INTEGERS,)),
    "small_targets": (lambda x: F.cross_entropy(x, torch.zeros(9, dtype=torch.int32)), (torch.randn(9, 2),)),
    "relu_into_expanded": (lambda x: F.relu(x.expand(3, 9), inplace=True), (torch.randn(9),)),
    "set_by_itself": (lambda x: _set_within(x.clone()), (torch.randn(9),)),
    "short_sums_of_bools": (lambda x: x.view(3, 3).cumsum(-1, dtype=torch.bool), (torch.randn(9),)),
    "short_products_of_uint16": (lambda x: x.view(3, 3).cumprod(-1, dtype=torch.uint16), (torch.randn(9),)),
    "distances_of_halves": (F.pdist, (torch.randn(9, 2).half(),)),
    "airy_of_halves": (torch.special.airy_ai, (torch.randn(9).half(),)),
    "polynomial_of_halves": (lambda x: torch.special.chebyshev_polynomial_t(x, x), (torch.randn(9).half(),)),
    "hardshrink": (F.hardshrink, (INTEGERS,)),
    "hardshrink_of_bools": (lambda x: x.hardshrink(), (INTEGERS > 0,)),
    "pad_of_nothing": (lambda x: F.pad(x[:0], (-1, 1)) + 1, (torch.randn(9),)),
    "pad_cut_and_filled": (lambda x: F.pad(x, (4, -12)) * 2, (torch.randn(9),)),
    "uniform_backwards": (lambda x: x.clone().uniform_(2, 1), (torch.randn(9),)),
    "bernoulli_beyond_1": (lambda x: x.clone().bernoulli_(1.5), (torch.randn(9),)),
    "native_dropout_beyond_1": (lambda x: torch.native_dropout(x, 1.5, True)[0], (torch.randn(9),)),
    "numbers_of_another_dtype_at_indices": (_set_at, (torch.randn(9), torch.tensor([0, 2]), torch.tensor([1, 2]))),
    "sums_of_another_dtype": (
        lambda x, y: x.index_put((y,), x[:2].double(), True),
        (torch.randn(9), torch.tensor([0, 2])),
    ),
    "clamp_of_bools": (torch.clamp, (INTEGERS > 0, INTEGERS > 1, INTEGERS > 2)),
}

INDEX, ROWS, PAIR = torch.tensor([0, 2]), torch.randn(4, 6), torch.randn(2, 6)
WEIGHT, DOUBLE = torch.randn(6), torch.randn(6, dtype=torch.float64)
_COUNTS = torch.arange(6)
# Shapes and dtypes that no fake tensor refuses. A kernel would read past the end of the shorter operand.
MISFITS: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "select_scatter": (lambda x, y: x.select_scatter(y[:0], 0, 1), (ROWS, WEIGHT)),
    "select_scatter_of_another_rank": (lambda x, y: x.select_scatter(y, 0, 1), (ROWS, PAIR)),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 0, 1, 2), (ROWS, PAIR)),
    "slice_scatter_of_other_rows": (lambda x, y: x.slice_scatter(y[:, :5], 0, 1, 3), (ROWS, PAIR)),
    "slice_scatter_with_a_step": (lambda x, y: x.slice_scatter(y, 0, 0, 4, 2), (ROWS, PAIR[:1])),
    "diagonal_scatter": (lambda x, y: x.diagonal_scatter(y), (ROWS, WEIGHT)),
    "index_add": (lambda x, i, y: x.index_add(0, i, y[:1]), (ROWS, INDEX, PAIR)),
    "index_add_of_other_rows": (lambda x, i, y: x.index_add(0, i, y[:, :5]), (ROWS, INDEX, PAIR)),
    "index_add_of_another_dtype": (lambda x, i, y: x.index_add(0, i, y.double()), (ROWS, INDEX, PAIR)),
    "index_copy": (lambda x, i, y: x.index_copy(0, i, y[:1]), (ROWS, INDEX, PAIR)),
    "index_reduce": (lambda x, i, y: x.index_reduce(0, i, y[:1], "amax"), (ROWS, INDEX, PAIR)),
    "index_reduce_of_other_rows": (lambda x, i, y: x.index_reduce(0, i, y[:, :5], "mean"), (ROWS, INDEX, PAIR)),
    "index_put": (lambda x, i, y: x.index_put((i,), y[:, :5]), (ROWS, INDEX, PAIR)),
    "index_put_of_more": (lambda x, i, y: x.index_put((i,), y, True), (PAIR, INDEX[:1], ROWS)),
    "index_put_of_two": (lambda x, i, y: x.index_put((i, i), y), (ROWS, INDEX, torch.randn(3))),
    "setitem_behind_a_slice": (lambda x, i, y: _set_behind(x, i, y), (ROWS, INDEX, torch.randn(4, 3))),
    "put": (lambda x, i, y: x.put(i, y[:1]), (ROWS, INDEX, WEIGHT)),
    "layer_norm": (lambda x, w: F.layer_norm(x, (6,), w), (ROWS, DOUBLE)),
    "layer_norm_of_float64": (lambda x, w: F.layer_norm(x, (6,), w), (ROWS.double(), WEIGHT)),
    "batch_norm": (lambda x, w: F.batch_norm(x, w[:6], w[:6].abs()), (ROWS, DOUBLE)),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w), (ROWS, DOUBLE)),
    "cross_entropy": (lambda x, i, w: F.cross_entropy(x, i, w), (ROWS, _COUNTS[:4], DOUBLE)),
    "cross": (lambda x, y: torch.linalg.cross(x, y), (torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64))),
    "heaviside": (torch.heaviside, (WEIGHT, DOUBLE)),
    "max_unpool": (lambda x, i: F.max_unpool1d(x, i, 2), (_COUNTS.view(1, 1, 6), 2 * _COUNTS.view(1, 1, 6))),
}


def _set_behind(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, index] = value
    return y


@tile_only
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MISFITS)
def test_shapes_and_dtypes_that_eager_mode_refuses(name: str, dynamic: bool) -> None:
    function, arguments = MISFITS[name]
    with pytest.raises((RuntimeError, IndexError)):
        function(*arguments)
    torch.compiler.reset()
    with pytest.raises((RuntimeError, IndexError, TorchRuntimeError)):
        torch.compile(function, backend="tile", dynamic=dynamic)(*arguments)


# A call, and tensors of other sizes for the same graph.
LATER: list[tuple[Function, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = [
    (lambda x, y: x.slice_scatter(y * 2, 0, 1, 3), (torch.zeros(8, 4), PAIR[:, :4]), (torch.zeros(8, 4), ROWS[:3, :4])),
    (lambda x, y: x.select_scatter(y * 2, 0, 1), (ROWS, WEIGHT), (torch.zeros(4, 7), WEIGHT)),
    (lambda x, i, y: x.index_put((i,), y * 2), (ROWS, INDEX, PAIR), (ROWS, torch.arange(3), PAIR)),
    (lambda x, i, y: x.index_reduce(0, i, y * 2, "amax"), (ROWS, INDEX, PAIR), (ROWS, torch.arange(3), PAIR)),
]


@tile_only
def test_a_slice_that_ends_before_it_begins_is_not_written() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, start: int, end: int) -> torch.Tensor:
        z = x.clone()
        z[start:end] = y
        return z * 2

    compiled_function = compiled(function, dynamic=True)
    for start, end in ((2, 5), (5, 3), (3, 3)):
        x, y = torch.randn(9, 6), torch.randn(6)
        assert_same(compiled_function(x, y, start, end), function(x, y, start, end))


@tile_only
def test_losses_and_masks_of_two_dtypes_that_eager_mode_takes() -> None:
    x = torch.randn(9)
    for function, other in (
        (lambda x, y: F.soft_margin_loss(x, y), torch.randn(9, dtype=torch.float64)),
        (lambda x, y: F.soft_margin_loss(x, y), torch.tensor([1, -1, 1] * 3)),
        (lambda x, y: torch.where(x > 0, x, x).bfloat16().index_put((x > 0,), y.bfloat16()), torch.tensor(0.5)),
    ):
        assert_same(torch.compile(function, backend=BACKEND)(x, other).float(), function(x, other).float())


@tile_only
@pytest.mark.parametrize(("function", "fitting", "other"), LATER)
def test_a_later_call_whose_sizes_do_not_fit(
    function: Function, fitting: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]
) -> None:
    compiled_function = compiled(function, dynamic=True)
    assert_same(compiled_function(*fitting), function(*fitting))
    with pytest.raises(RuntimeError):
        compiled_function(*other)


@tile_only
@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_eager_mode_refuses(name: str) -> None:
    function, arguments = REFUSED[name]
    with pytest.raises(RuntimeError) as expected:
        function(*arguments)
    torch.compiler.reset()
    with pytest.raises(Exception) as refused:
        torch.compile(function, backend="tile", dynamic=False)(*arguments)
    assert str(expected.value)[:40] in str(refused.value)


REFUSED_INDICES: list[Function] = [
    lambda x, i: x.index_fill(0, i, 1.0),
    lambda x, i: x.clone().index_fill_(0, i, 1.0),
    lambda x, i: x.index_fill(0, i, torch.tensor(1.0)),
    lambda x, i: x[0].index_fill(0, i, 1.0),
    lambda x, i: F.batch_norm(x, None, None, training=True),
]


@tile_only
@pytest.mark.parametrize("function", REFUSED_INDICES)
def test_indices_that_eager_mode_refuses(function: Function) -> None:
    arguments = torch.ones(3), torch.tensor([0], dtype=torch.int32)
    for call in (function, torch.compile(function, backend="tile")):
        with pytest.raises(IndexError, match=r"index_fill_\(\): Expected dtype int64|Dimension out of range"):
            call(*arguments)


def _set_first(x: torch.Tensor) -> torch.Tensor:
    y = x.expand(3, 4)
    y[0] = 0.3
    return y


@tile_only
@pytest.mark.parametrize("write", [lambda x: x.expand(3, 4).fill_(0.3), lambda x: x.expand(3, 4).zero_(), _set_first])
def test_writes_of_one_value_to_expanded_tensors(write: Function) -> None:
    """Eager mode takes them; functionalization adds the three differences up."""
    torch.compiler.reset()
    mine, eager = torch.full((1, 4), 0.1), torch.full((1, 4), 0.1)
    assert_same(torch.compile(write, backend="tile")(mine), write(eager))
    assert_same(mine, eager)


@tile_only
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("factor", [None, 2.0])
def test_results_that_are_views_without_gradients(mode: Any, factor: float | None) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x if factor is None else x * factor
        with mode():
            view = y[0]
        return view, y * 3

    def gradient(f: Function) -> torch.Tensor:
        x = torch.ones(2, 3, requires_grad=True)
        sum(each.sum() for each in f(x)).backward()
        assert x.grad is not None
        return x.grad

    torch.compiler.reset()
    assert_same(gradient(torch.compile(function, backend="tile")), gradient(function))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "fill",
    [
        lambda x: x.fill_(x[0]),
        lambda x: x[1:].fill_(x[2]),
        lambda x: x.masked_fill_(x > 2, x[0]),
        lambda x: x.index_fill_(0, torch.tensor([1, 3]), x[2]),
    ],
    ids=["fill", "part", "masked", "at indices"],
)
def test_filling_with_an_element_of_the_tensor(fill: Function, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        fill(x)
        return x * 2

    own, eager = torch.arange(1.0, 6), torch.arange(1.0, 6)
    assert_same(compiled(function, dynamic=dynamic)(own), function(eager))
    assert_same(own, eager)


def test_writes_that_overlap_nothing_are_compiled() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[1:].copy_(y[1:])
        y[:4].add_(y[4:8])
        y[::2].mul_(y[1::2])
        return y

    x = torch.randn(10)
    assert_same(compiled(function)(x), function(x))


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_between_bounds_of_one_element(shape: tuple[int, ...], zero: float) -> None:
    x, bound = torch.tensor([0.0, -0.0, 1.0, -1.0, math.nan] * 9), torch.full(shape, zero)
    result = compiled(lambda x, b: x.clamp(b, b))(x, bound)
    assert_same(torch.copysign(torch.ones(()), result), torch.copysign(torch.ones(()), x.clamp(bound, bound)))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_samples_of_an_image(mode: str, padding_mode: str, align_corners: bool) -> None:
    """Outside of it there is 0, whatever its elements are. Eager's sign of a nearest element."""
    image = torch.tensor([[math.inf, 0.0, -1.0, -0.0], [math.nan, -2.0, -0.0, 3.0], [-1.5, 1.0, 2.0, 3.0]])
    images = torch.stack((image.view(1, 3, 4), -torch.rand(1, 3, 4)))
    grid = torch.rand(2, 9, 10, 2) * 3 - 1.5

    def function(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding_mode, align_corners)

    result, expected = compiled(function)(images, grid), function(images, grid)
    assert_same(result, expected, rtol=1e-4, atol=1e-5)
    if mode == "nearest":
        assert_same(torch.signbit(result), torch.signbit(expected))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_layout_of_the_gradient_of_padding(mode: str, memory_format: torch.memory_format) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (1, 1, 1, 1), mode=mode)

    x = torch.randn(2, 3, 5, 6).to(memory_format=memory_format).requires_grad_()
    results = [torch.autograd.grad(f(x).square().sum(), x)[0] for f in (compiled(function), function)]
    assert_same(*results)


def test_strided_scatter_into_an_expanded_tensor() -> None:
    def function(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(x, source, (2,), (1,), 0)

    arguments = torch.randn(1, 3).expand(4, 3), torch.randn(2)
    assert_same(compiled(function)(*arguments), function(*arguments))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("targets", [[[3, 0, -1, 1], [1, -1, 0, 0]], [[-1, 0, 1, 2], [0, 1, 2, 3]]])
def test_labels_behind_the_last_one_do_not_count(targets: list[list[int]], reduction: str) -> None:
    """torch takes the loss apart before a backend sees it, and counts them."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.multilabel_margin_loss(x, torch.tensor(targets), reduction=reduction) * 2

    values = torch.randn(2, 4)
    results = []
    for f in (torch.compile(function, backend=BACKEND), function):
        x = values.clone().requires_grad_()
        y = f(x)
        results.append((y, *torch.autograd.grad(y.sum(), x)))
    assert_same(*results)


def test_writes_under_vmap_are_compiled() -> None:
    def one(a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        b = a.clone()
        b.add_(i)
        b[1:3].mul_(2)
        return b

    x, i = torch.randn(4, 5), torch.randn(4)
    function = torch.func.vmap(one)
    torch.testing.assert_close(compiled(lambda x, i: torch.func.vmap(one)(x, i))(x, i), function(x, i))


def test_view_whose_base_is_written_through_detach() -> None:
    """torch's own assertion fails where such a view of a traced tensor is asked for its function."""

    def function(x: torch.Tensor) -> torch.Tensor:
        view = x.squeeze()
        other = view.detach()
        other.sub_(other.sum())
        return view

    results = []
    for call in (torch.compile(function, backend="tile", options={"strict": True}), function):
        x = torch.tensor([2.0, 3.0])[1:].requires_grad_()
        results.append((call(x).detach(), x.detach()))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_float_factor_of_integers(name: str) -> None:
    """With a dynamic factor torch's tracing lets it through."""
    function = getattr(torch, name)
    fresh()
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        torch.compile(lambda x, a: function(x, x, alpha=a), backend="tile", dynamic=True)(torch.arange(4), 1.5)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("accumulate", [False, True])
def test_values_that_do_not_fit_a_mask(count: int, accumulate: bool) -> None:
    def put(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((mask,), values, accumulate=accumulate)

    arguments = torch.zeros(4), torch.tensor([True, False, True, True]), torch.ones(count)
    for function in (put, compiled(put)):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            function(*arguments)


# --- operands of one memory -------------------------------------------------------------------------------------------

LISTS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "crossed": lambda x, y: torch._foreach_copy_([x, y], [y, x]),
    "twice": lambda x, y: torch._foreach_add_([x, x], 1),
    "crossed_factors": lambda x, y: torch._foreach_addcmul_([x, y], [y, x], [y, x]),
    "pieces": lambda x, y: torch._foreach_add_([x[:2], x[2:]], [y[:2], y[2:]]),
    "shifted_pieces": lambda x, y: torch._foreach_add_([x[:2], x[2:]], [x[2:], x[:2]]),
    "each_by_itself": lambda x, y: torch._foreach_mul_([x, y], [x, y]),
}


@pytest.mark.filterwarnings("ignore:torch_tile. graph")
@pytest.mark.parametrize("name", LISTS)
def test_lists_over_one_memory(name: str) -> None:
    """Eager mode goes through lists element by element."""
    results = []
    for call in (torch.compile(LISTS[name], backend=BACKEND), LISTS[name]):
        x, y = torch.arange(4.0), torch.arange(4.0) + 5
        call(x, y)
        results.append((x, y))
    assert_same(*results)


@pytest.mark.filterwarnings("ignore:torch_tile. graph")
def test_one_tensor_as_mean_and_variance() -> None:
    x = torch.randn(4, 3)
    results = []
    for call in (torch.compile(F.batch_norm, backend=BACKEND), F.batch_norm):
        statistics = torch.ones(3)
        results.append((call(x, statistics, statistics, training=True), statistics))
    assert_same(*results)


@pytest.mark.filterwarnings("ignore:torch_tile. graph")
def test_normalised_rows_of_an_expanded_weight() -> None:
    def look_up(weight: torch.Tensor) -> torch.Tensor:
        return F.embedding(torch.arange(3), weight.expand(4, 3), max_norm=0.5)

    results = []
    for call in (torch.compile(look_up, backend=BACKEND), look_up):
        weight = torch.tensor([[1.0, 2.0, 3.0]])
        results.append((call(weight), weight))
    assert_same(*results)


def test_mask_of_more_batches_than_the_queries() -> None:
    def attend(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, torch.ones(3, 1, 16, 16, dtype=torch.bool))

    assert torch.compile(attend, backend=BACKEND)(torch.randn(1, 2, 16, 8)).shape == (3, 2, 16, 8)


# --- NaN --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, math.inf])
def test_distances_of_nan(p: float) -> None:
    a, b = torch.tensor([[1, math.nan], [math.inf, 2]]), torch.tensor([[1.0, 2], [math.inf, 0]])
    assert_same(
        compiled(lambda a, b: (torch.cdist(a, b, p), F.pdist(a, p)))(a, b), (torch.cdist(a, b, p), F.pdist(a, p))
    )


def test_leaky_relu_without_slope_behind_a_product() -> None:
    x, w = torch.full((512, 64), math.nan), torch.ones(64, 64)
    with torch.no_grad():
        assert compiled(lambda x, w: F.leaky_relu(F.linear(x, w), 0.0))(x, w).isnan().all()


def test_zeros_of_mixed_dtypes() -> None:
    a, b = torch.tensor([0.0, -0.0]), torch.tensor([-0.0, 0.0]).bfloat16()

    def signs(a: torch.Tensor, b: torch.Tensor) -> Any:
        return 1 / torch.fmax(a, b), 1 / torch.fmin(a, b)

    assert_same(compiled(signs)(a, b), signs(a, b))


INFERENCE_WRITES: dict[str, Function] = {
    "add_": lambda x, y: x.add_(y),
    "view": lambda x, y: x[1:].mul_(y[1:]),
    "setitem": lambda x, y: x.__setitem__(0, 1.0),
    "out": lambda x, y: torch.add(y, 1, out=x),
    "foreach": lambda x, y: torch._foreach_add_([x], 1.0),
}


@pytest.mark.filterwarnings("ignore:torch_tile. graph")
@pytest.mark.parametrize("name", INFERENCE_WRITES)
def test_writes_of_inference_tensors(name: str) -> None:
    call = torch.compile(INFERENCE_WRITES[name], backend=BACKEND)
    with torch.inference_mode():
        x = torch.ones(3)
    call(torch.ones(3), torch.ones(3))
    for mode in (torch.enable_grad, torch.no_grad):
        with mode(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            call(x, torch.ones(3))
    expected = torch.ones(3)
    INFERENCE_WRITES[name](expected, torch.ones(3))
    with torch.inference_mode():
        x = torch.ones(3)
        call(x, torch.ones(3))
    assert torch.equal(x, expected)


def test_inference_tensors_that_are_read_are_compiled() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.clone().add_(1) * x

    with torch.inference_mode():
        x = torch.ones(3)
    assert_same(compiled(function)(x), function(x))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
@pytest.mark.parametrize("triangle", [torch.tril, torch.triu])
def test_triangles_of_wide_unsigned_integers(triangle: Function, dtype: torch.dtype) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for"):
        compiled(lambda x: triangle(x))(torch.zeros(3, 3, dtype=dtype))
