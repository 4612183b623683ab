"""Bounds: no access beyond a tensor, harmless tails, errors for bad indices, other inputs after compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from tests.compiling import IS_TILE, assert_same, compiled, fresh
from tests.runtime.guard_pages import guarded_copy

# Memory bounds


GUARDED: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, y: (x * 2 + y, x.exp(), (x > y), x.double(), x.to(torch.int8)),
    "rows": lambda x, y: (
        x.sum(-1),
        (x * y).amax(-1),
        x.argmax(-1),
        torch.softmax(x, -1),
        F.layer_norm(x, (x.shape[-1],)),
    ),
    "columns": lambda x, y: (x.sum(0), (x * y).amax(0), x.var(0), torch.softmax(x, 0)),
    "everything": lambda x, y: (x.sum(), (x * y).amin(), x.var(), (x > 0).any()),
    "views": lambda x, y: (
        x.t() + y.t(),
        x.flip(0, 1) * 2,
        x[:, ::2] + 1,
        torch.cat([x, y], 1) * 2,
        F.pad(x, (1, 2, 3, 4)),
        x.reshape(-1)[1:] + 1,
    ),
    "strides": lambda x, y: (
        *(x[:, k::step].exp() for step in (2, 3, 4, 5) for k in range(min(step, x.shape[1]))),
        *(x[:, ::step].to(dtype) + 1 for step in (2, 3) for dtype in (torch.float64, torch.bfloat16)),
        y.to(torch.int8).clone()[:, ::2] + 1,
        y.bfloat16().clone()[:, ::3] + 1,
        x.double().clone()[:, ::2].sum(-1),
        x.flip(1) + 1,
        x.bfloat16().clone().flip(1) + 1,
    ),
    "quotients": lambda x, y: (
        *(x.repeat_interleave(step, 1)[:, : x.shape[1] * step - 1] + 1 for step in (3, 7)),
        y.to(torch.bfloat16).clone().repeat_interleave(3, 1)[:, 1:] + 1,
        y.to(torch.int8).clone().repeat(1, 3)[:, 1:] + 1,
        x[:, :5].clone().repeat(1, 30)[:, : x.shape[1]] + x,
    ),
    "low_precision": lambda x, y: (x.bfloat16() * y.bfloat16(), x.half().sum(-1), x.bfloat16().float().sum(0)),
    "integers": lambda x, y: (
        x.int() // 3,
        (x.long() * y.long()) % 7,
        x.to(torch.uint8) + 1,
        x.to(torch.int16).sum(0),
        (x > 0) | (y > 0),
    ),
    "gather": lambda x, y: (
        x[y.long().flatten()[:3] * 0],
        torch.gather(x, 1, y.long() * 0),
        F.embedding(y.long() * 0, x),
    ),
    "transposed": lambda x, y: (x.t().contiguous() + 1, (x + y).t().sum(0), x.t().softmax(0)),
}


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("dynamic", [False, True])
def test_no_access_beyond_a_tensor(name: str, dynamic: bool) -> None:
    """A fault would end the process, so the first failure is the last line of the log."""
    f = GUARDED[name]
    function = compiled(f, dynamic=dynamic)
    shapes = [(3, 5), (1, 17), (7, 31), (65, 33)] if dynamic else [(3, 5), (1, 1), (5, 17), (2, 64), (33, 130), (17, 1)]
    for shape in shapes:
        x, y = torch.randn(shape), torch.randn(shape)
        for flush in ("end", "start"):
            guarded = [guarded_copy(t, flush) for t in (x, y)]
            assert_same(function(*guarded), f(x, y), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int16, torch.bool, torch.bfloat16, torch.float64, torch.int64], ids=str
)
def test_no_access_beyond_a_tensor_by_dtype(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> Any:
        return x.logical_not(), x.sum(-1), x.float() + 1, x.t().contiguous(), x.amax(0)

    function = compiled(f, dynamic=True)
    for shape in ((3, 5), (2, 67), (9, 131)):
        x = (torch.randn(shape) * 10).abs().to(dtype)
        for flush in ("end", "start"):
            assert_same(function(guarded_copy(x, flush)), f(x), rtol=5e-2, atol=5e-2)


def test_writes_stay_inside_the_tensor() -> None:
    """In-place writes to guarded memory, contiguous and as columns."""

    def f(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y)
        x[:, 1:].mul_(2)

    for shape in ((3, 5), (7, 65), (1, 129)):
        fresh()
        x, y = torch.randn(shape), torch.randn(shape)
        expected = x.clone()
        f(expected, y)
        for flush in ("end", "start"):
            guarded = guarded_copy(x, flush)
            compiled(f)(guarded, guarded_copy(y, flush))
            assert_same(guarded, expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_division_by_a_tensor_with_masked_tails(dtype: torch.dtype) -> None:
    """Memory past a tail may hold zeros: those lanes must not divide."""

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y), (x // y).sum(-1)

    function = compiled(f)
    memory = torch.zeros(4096, dtype=dtype)
    for size in (1, 3, 15, 17, 63, 65):
        y = memory[:size]
        y.fill_(3)
        x = torch.arange(size, dtype=dtype) - (0 if dtype == torch.uint8 else 7)
        assert_same(function(x, y), f(x, y))
        y.zero_()


def test_integer_division_overflow() -> None:
    """INT_MIN / -1 traps on x86 when done naively."""
    for dtype in (torch.int64, torch.int32):
        x = torch.full((17,), torch.iinfo(dtype).min, dtype=dtype)
        y = torch.full((17,), -1, dtype=dtype)
        result = compiled(lambda x, y: x // y)(x, y)
        assert result.dtype == dtype and result.shape == x.shape


def test_integer_division_by_zero() -> None:
    """Eager raises; the process lives."""
    function = compiled(lambda x, y: x // y)
    x, y = torch.arange(33), torch.ones(33, dtype=torch.int64)
    assert_same(function(x, y), x)
    y[5] = 0
    with pytest.raises(RuntimeError, match=r"(?i)zero"):
        function(x, y)
    assert_same(function(x, torch.ones_like(y)), x)


def test_nan_past_the_tail() -> None:
    def f(x: torch.Tensor) -> Any:
        return x.sum(-1), x.amax(-1), x.sum(), x.argmax(-1), torch.softmax(x, -1), x.var(-1), x.sum(0), x.argmin(0)

    for rows, columns in ((3, 5), (5, 17), (2, 65), (33, 31)):
        fresh()
        memory = torch.full((rows + 4, columns + 70), float("nan"))
        x = memory[2 : 2 + rows, 3 : 3 + columns]
        x.copy_(torch.randn(rows, columns))
        assert_same(compiled(f)(x), f(x), rtol=1e-5, atol=1e-5)


def test_nan_propagates() -> None:
    x = torch.randn(9, 33)
    x[3, 5] = x[3, 20] = x[7, 32] = float("nan")

    def f(x: torch.Tensor) -> Any:
        return (
            x.amax(-1),
            x.amin(0),
            x.argmax(-1),
            x.argmin(-1),
            x.argmax(),
            x.clamp(-1, 1),
            torch.maximum(x, -x),
            x.relu(),
        )

    assert_same(compiled(f)(x), f(x))


def test_argmax_takes_the_first_of_equals() -> None:
    x = torch.tensor([[1, 3, 3, 2] * 20, [5] * 80, [0] * 79 + [9]], dtype=torch.float32)

    def f(x: torch.Tensor) -> Any:
        return x.argmax(-1), x.argmin(-1), x.argmax(0), x.argmax(), x.argmin()

    assert_same(compiled(f)(x), f(x))
    assert_same(compiled(f)(x.int()), f(x.int()))


# Errors at run time


INDEXED: dict[str, Callable[..., Any]] = {
    "index": lambda x, i: x[i] * 2,
    "embedding": lambda x, i: F.embedding(i, x) + 1,
    "gather": lambda x, i: torch.gather(x, 0, i[:, None].expand(-1, 5)) + 1,
    "index_select": lambda x, i: x.index_select(0, i) + 1,
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("bad", [9, -10, 2**40])
def test_index_out_of_range(name: str, bad: int) -> None:
    f = INDEXED[name]
    function = compiled(f)
    x, good = torch.randn(9, 5), torch.arange(7)
    assert_same(function(x, good), f(x, good))
    indices = good.clone()
    indices[3] = bad
    with pytest.raises((IndexError, RuntimeError)) as refused:
        f(x, indices)
    with pytest.raises((IndexError, RuntimeError) if not IS_TILE else refused.type):
        function(x, indices)
    assert_same(function(x, good), f(x, good))


def test_index_below_zero() -> None:
    """Indexing wraps negative numbers; an embedding does not."""
    x, i = torch.randn(9, 5), torch.tensor([-1, -9, 0, 8])
    assert_same(compiled(lambda x, i: x[i] + 1)(x, i), x[i] + 1)
    with pytest.raises((IndexError, RuntimeError)):
        compiled(lambda x, i: F.embedding(i, x) + 1)(x, i)


def test_other_inputs_after_compile() -> None:
    """Another dtype, size, rank, stride or requires_grad: compiled anew, never wrong."""
    f = lambda x: (x * 2 + 1).sum(-1)  # noqa: E731
    function = compiled(f, dynamic=None, fullgraph=False)
    inputs = [
        torch.randn(3, 5),
        torch.randn(3, 5).double(),
        torch.randn(4, 5),
        torch.randn(4, 9),
        torch.randn(5, 3).t(),
        torch.randn(2, 3, 5),
        torch.arange(15).view(3, 5),
        torch.randn(3, 5).bfloat16(),
        torch.randn(3, 5, requires_grad=True),
    ]
    with torch._dynamo.config.patch(recompile_limit=20):
        for x in inputs:
            assert_same(function(x).detach(), f(x).detach())


def test_data_dependent_sizes() -> None:
    def f(x: torch.Tensor) -> Any:
        y = (x * 2)[x > 0]
        return y.sum(), y + 1, x.nonzero().sum()

    x = torch.randn(5, 9)
    assert_same(compiled(f, fullgraph=False)(x), f(x), rtol=1e-5, atol=1e-5)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        fresh()
        for x in (torch.randn(5, 9), torch.randn(5, 9), torch.zeros(5, 9)):
            assert_same(compiled(f)(x), f(x), rtol=1e-5, atol=1e-5)


def test_unbacked_scalars() -> None:
    def f(x: torch.Tensor, n: torch.Tensor) -> Any:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 9)
        return torch.zeros(k) + 1, x * k

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        function = compiled(f)
        for k in (5, 0, 1, 9):
            assert_same(function(torch.randn(3), torch.tensor(k))[0], torch.ones(k))
    assert dict(counters["graph_break"]) == {}


def test_wide_and_long() -> None:
    """More than fits the scratch of one task, more inputs than registers stay right; test_large.py goes past 2^31."""
    tensors = [torch.randn(50) for _ in range(120)]
    f = lambda *ts: sum(t * i for i, t in enumerate(ts))  # noqa: E731
    assert_same(compiled(f)(*tensors), f(*tensors), rtol=1e-4, atol=1e-3)
    row = torch.randn(1, 300_001)
    g = lambda x: torch.softmax(x, -1)  # noqa: E731
    assert_same(compiled(g)(row), g(row), rtol=1e-4, atol=1e-9)


def test_subnormals_and_float_state() -> None:
    """Denormals are kept, or flushed, as the calling thread says."""
    x = torch.full((65,), 1e-40)
    function = compiled(lambda x: x * 0.5)
    assert_same(function(x), x * 0.5, exact=True)
    if torch.set_flush_denormal(True):
        try:
            flushed = function(x)
        finally:
            torch.set_flush_denormal(False)
        assert flushed.abs().sum() == 0
    assert_same(function(x), x * 0.5, exact=True)
