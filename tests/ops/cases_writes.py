"""Writes at positions that tensors name, their part in gradients, and scans."""

# ruff: noqa: E501  (tables: a case is a row)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tests.ops.case import Arguments, OpCase
from tests.ops.inputs import ALL, FLOATS, NUMBERS, UNIT, Inputs

PLAIN = (torch.float32, torch.bfloat16, torch.int64, torch.uint8)
# Sums of a few numbers, rounded after each: eager rounds less often where it works on sorted indices.
ROUNDED = {torch.bfloat16: (2e-2, 1e-1), torch.float16: (4e-3, 1e-2)}
WHY = "f16 and bf16 are rounded after each value"

aten = torch.ops.aten


def into(
    *shape: int, index: tuple[int, ...], values: tuple[int, ...] | None, below: int, negative: bool = False
) -> Callable[[Inputs], Sequence[Arguments]]:
    """A tensor, an index, values; the first dimension of the last two grows. Short and long, so that both parts of loops run."""

    def samples(make: Inputs) -> Sequence[Arguments]:
        sets = []
        for factor in (1, 9):
            position = make.index(make.size(factor * index[0]), *index[1:], below=below, negative=negative)
            rest: Arguments = () if values is None else (make.tensor(make.size(factor * values[0]), *values[1:]),)
            sets.append((make.tensor(*shape), position, *rest))
        return sets

    return samples


def write(
    name: str, function: Callable[..., Any], samples: Any, dtypes: tuple[torch.dtype, ...] = PLAIN, **rest: Any
) -> OpCase:
    return OpCase(name, function, samples, dtypes, tolerances=ROUNDED, reason=WHY, **rest)


def _reduced(method: str, dim: int, reduce: str, include_self: bool) -> Callable[..., Any]:
    return lambda x, i, v: getattr(x, method)(dim, i, v, reduce, include_self=include_self)


def _scattered(dim: int) -> Callable[[Inputs], Sequence[Arguments]]:
    shape, index = ((9, 5), (6, 5)) if dim == 0 else ((6, 9), (6, 20))
    return lambda make: [(make.tensor(*shape), make.index(*index, below=9), make.tensor(*index))]


def _indexed(make: Inputs) -> Sequence[Arguments]:
    return [(make.tensor(9, 5), make.index(make.size(13), below=9), make.tensor(make.size(13), 5))]


def reduce_cases() -> list[OpCase]:
    cases = []
    few = (torch.float32, torch.int64)
    many = (torch.float32, torch.float64, torch.int64, torch.int8, torch.uint8)
    for reduce in ("sum", "prod", "amax", "amin", "mean"):
        for include in (True, False):
            end = "" if include else "_without_self"
            for dim in (0, 1):
                cases.append(
                    OpCase(
                        f"scatter_reduce_{reduce}_{dim}{end}",
                        _reduced("scatter_reduce", dim, reduce, include),
                        _scattered(dim),
                        few if reduce == "prod" else many,
                        grad=reduce in ("sum", "mean", "amax"),
                        dynamic=False,
                    )
                )
            if reduce != "sum":
                function = _reduced("index_reduce", 0, reduce, include)
                cases.append(OpCase(f"index_reduce_{reduce}{end}", function, _indexed, few, grad=False))
    return cases


def _embedding(**options: Any) -> Callable[..., Any]:
    return lambda i, w: F.embedding(i, w, **options) * 2


def _tokens(make: Inputs) -> Sequence[Arguments]:
    return [
        (make.index(make.size(4), 7, below=11), make.tensor(11, 5)),
        (make.index(make.size(30), below=40), make.tensor(40, 130)),
        (make.index(below=11), make.tensor(11, 70)),
    ]


def _step(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """What reads the tensor before and after it is written in place."""
    before = x.sum(0)
    y = x * 1
    y[i] = v + before
    y[i] += 1
    return y.sum(-1) + before.sum()


WRITES = [
    OpCase("embedding_backward", _embedding(), _tokens),
    OpCase("embedding_backward_padding", _embedding(padding_idx=3), _tokens),
    OpCase(
        "embedding_backward_by_frequency",
        _embedding(scale_grad_by_freq=True),
        _tokens,
        (torch.float32,),
        generated=False,
    ),
    write(
        "index_put",
        lambda x, i, v: x.index_put((i,), v),
        lambda m: [(m.tensor(99, 5), m.order(99)[: m.size(14)], m.tensor(m.size(14), 5))],
        ALL,
    ),
    write(
        "index_put_one_value",
        lambda x, i: x.index_put((i,), x.new_ones(())),
        into(9, 5, index=(6,), values=None, below=9, negative=True),
        ALL,
    ),
    write(
        "index_put_accumulate",
        lambda x, i, v: x.index_put((i,), v, True),
        into(9, 5, index=(6,), values=(6, 5), below=9, negative=True),
        ALL,
    ),
    write(
        "index_put_accumulate_1d",
        lambda x, i, v: x.index_put((i,), v, True),
        into(9, index=(6,), values=(6,), below=9, negative=True),
        ALL,
    ),
    write(
        "index_put_second",
        lambda x, i, v: aten.index_put(x, [None, i], v, True),
        lambda m: [(m.tensor(m.size(4), 9), m.index(20, below=9, negative=True), m.tensor(m.size(4), 20))],
    ),
    write(
        "index_put_both",
        lambda x, i, j, v: x.index_put((i, j), v, True),
        lambda m: [(m.tensor(9, 5), m.index(m.size(40), below=9), m.index(m.size(40), below=5), m.tensor(m.size(40)))],
    ),
    write(
        "index_put_broadcast",
        lambda x, i, j, v: x.index_put((i[:, None], j[None]), v, True),
        lambda m: [(m.tensor(9, 5, 3), m.index(m.size(4), below=9), m.index(6, below=5), m.tensor(6, 3))],
    ),
    write(
        "index_put_apart",
        lambda x, i, j, v: aten.index_put(x, [i, None, j], v, True),
        lambda m: [
            (m.tensor(9, 3, 5), m.index(m.size(4), below=9), m.index(m.size(4), below=5), m.tensor(m.size(4), 3))
        ],
    ),
    write(
        "index_put_matrix",
        lambda x, i, v: x.index_put((i,), v, True),
        into(9, 5, index=(6, 2), values=(6, 2, 5), below=9),
    ),
    write(
        "index_put_mask",
        lambda x, v: (x.index_put((x > 0,), v), x.index_put((x[:, 0] > 0,), v, True)),
        lambda m: [(m.tensor(m.size(4), 9), m.tensor())],
        NUMBERS,
    ),
    write(
        "index_put_computed",
        lambda x, i, v: x.exp().index_put((i.clamp(max=5) * 1,), v.sigmoid() * 2, True).sum(-1),
        into(9, 5, index=(6,), values=(6, 5), below=9),
        (torch.float32,),
    ),
    write(
        "index_put_strided",
        lambda x, i, v: x.t().index_put((i,), v.t(), True),
        lambda m: [(m.tensor(5, 9), m.index(m.size(12), below=9), m.tensor(5, m.size(12)))],
    ),
    write(
        "written_in_place",
        _step,
        lambda m: [(m.tensor(9, 5), m.index(m.size(6), below=9).unique(), m.tensor(1, 5))],
        (torch.float32,),
        dynamic=False,
    ),
    write("index_backward", lambda x, i: x[i] * 3, into(9, 5, index=(6,), values=None, below=9, negative=True), FLOATS),
    write(
        "index_backward_both",
        lambda x, i, j: x[i, :, j] * 3,
        lambda m: [(m.tensor(9, 3, 5), m.index(m.size(40), below=9), m.index(m.size(40), below=5))],
        (torch.float32,),
    ),
    write(
        "gather_backward",
        lambda x, i: torch.gather(x, 0, i) * 3,
        into(9, 5, index=(6, 5), values=None, below=9),
        FLOATS,
    ),
    write(
        "gather_backward_columns",
        lambda x, i: torch.gather(x, 1, i) * 3,
        lambda m: [(m.tensor(m.size(4), 9), m.index(m.size(4), 77, below=9))],
        FLOATS,
    ),
    write(
        "scatter",
        lambda x, i, v: x.scatter(0, i, v),
        lambda m: [(m.tensor(9, 5), m.order(9)[:, None].expand(9, 5)[: m.size(3)], m.tensor(m.size(5), 7))],
        ALL,
        grad=False,
    ),
    write(
        "scatter_backward",
        lambda x, i, v: x.scatter(0, i, v),
        lambda m: [(m.tensor(9, 5), m.order(9)[:, None].expand(9, 5)[:4].contiguous(), m.tensor(4, 5))],
        (torch.float32,),
        dynamic=False,
    ),
    write(
        "scatter_columns",
        lambda x, i, v: x.scatter(1, i, v),
        lambda m: [(m.tensor(m.size(4), 9), m.order(9).expand(m.size(4), 9)[:, :7], m.tensor(m.size(4), 8))],
        grad=False,
    ),
    write(
        "scatter_value",
        lambda x, i: x.scatter(1, i, 3),
        lambda m: [(m.tensor(m.size(4), 9), m.index(m.size(4), 3, below=9))],
        ALL,
    ),
    write(
        "scatter_one_hot",
        lambda i: torch.zeros(i.shape[0], 11, device=i.device).scatter(1, i[:, None], 1.0) * 2,
        lambda m: [(m.index(m.size(4), below=11),)],
        (torch.float32,),
        grad=False,
    ),
    write(
        "scatter_fold",
        lambda x, i, v: (
            x.scatter(0, i, v, reduce="add"),
            x.scatter(0, i, v, reduce="multiply"),
            x.scatter(0, i, 2, reduce="add"),
        ),
        into(9, 5, index=(6, 5), values=(6, 5), below=9),
        (torch.float32, torch.int64),
        grad=False,
    ),
    write("scatter_add", lambda x, i, v: x.scatter_add(0, i, v), into(9, 5, index=(6, 5), values=(6, 5), below=9), ALL),
    write(
        "scatter_add_columns",
        lambda x, i, v: x.scatter_add(1, i, v),
        lambda m: [(m.tensor(m.size(4), 9), m.index(m.size(4), 77, below=9), m.tensor(m.size(4), 77))],
        ALL,
    ),
    write("scatter_add_1d", lambda x, i, v: x.scatter_add(0, i, v), into(9, index=(40,), values=(40,), below=9), ALL),
    write(
        "scatter_add_middle",
        lambda x, i, v: x.scatter_add(1, i, v),
        lambda m: [(m.tensor(4, 9, 70), m.index(3, m.size(20), 70, below=9), m.tensor(3, m.size(20), 70))],
    ),
    write(
        "scatter_add_smaller_index",
        lambda x, i, v: x.scatter_add(1, i, v),
        lambda m: [(m.tensor(9, 9), m.index(m.size(4), 3, below=9), m.tensor(m.size(6), 5))],
        grad=False,
        dynamic=False,
    ),
    write(
        "scatter_add_expanded",
        lambda x, i, v: x.scatter_add(0, i[:, None].expand(-1, 5), v),
        into(9, 5, index=(6,), values=(6, 5), below=9),
    ),
    write("index_add", lambda x, i, v: x.index_add(0, i, v), into(9, 5, index=(6,), values=(6, 5), below=9), ALL),
    write(
        "index_add_factor",
        lambda x, i, v: x.index_add(1, i.int(), v, alpha=2),
        lambda m: [(m.tensor(m.size(4), 9), m.index(20, below=9), m.tensor(m.size(4), 20))],
        (*FLOATS, torch.int64),
    ),
    write(
        "index_copy",
        lambda x, i, v: x.index_copy(0, i, v),
        lambda m: [(m.tensor(99, 5), m.order(99)[: m.size(14)], m.tensor(m.size(14), 5))],
        ALL,
    ),
    write(
        "index_fill",
        lambda x, i: (x.index_fill(0, i, 2), x.index_fill(1, i % 5, x.new_ones(()))),
        into(9, 5, index=(6,), values=None, below=9),
        ALL,
    ),
    write(
        "writes_of_nothing",
        lambda x, i, v: (x.index_put((i,), v, True), x[:0].index_put((i,), v, True), x.index_add(0, i, v)),
        lambda m: [(m.tensor(9, 5), m.index(0, below=9), m.tensor(0, 5))],
        (torch.float32, torch.int64),
        dynamic=False,
    ),
    *reduce_cases(),
]


def _lengths(*inner: int, domain: Any = None) -> Callable[[Inputs], Sequence[Arguments]]:
    options = {} if domain is None else {"domain": domain}
    return lambda make: [(make.tensor(make.size(n), *inner, **options),) for n in (1, 5, 37, 300)]


def _rows(make: Inputs) -> Sequence[Arguments]:
    return [(make.tensor(make.size(3), n, domain=UNIT),) for n in (1, 7, 16, 67, 1000)]


# Running sums round elsewhere than a serial loop does, and eager's own depend on the layout.
SCANNED = {torch.bfloat16: (2e-2, 1e-1), torch.float16: (4e-3, 2e-2)}


def scan(
    name: str, function: Callable[[torch.Tensor], Any], samples: Any, dtypes: tuple[torch.dtype, ...], **rest: Any
) -> OpCase:
    return OpCase(name, function, samples, dtypes, tolerances=SCANNED, reason="f16 and bf16 accumulate in f32", **rest)


SCANS = [
    scan("cumsum_rows", lambda x: x.cumsum(-1), _rows, (*NUMBERS, torch.bool)),
    scan("cumsum_columns", lambda x: x.cumsum(0), _lengths(70), NUMBERS),
    scan("cumsum_flat", lambda x: x.cumsum(0), _lengths(), NUMBERS),
    scan(
        "cumsum_middle",
        lambda x: x.cumsum(1),
        lambda m: [(m.tensor(m.size(2), 33, 5),), (m.tensor(m.size(2), 33, 80),)],
        PLAIN,
    ),
    scan(
        "cumsum_dtype",
        lambda x: (x.cumsum(0, dtype=torch.float64), x.cumsum(0, dtype=torch.int32)),
        _lengths(3),
        (torch.float32, torch.int64),
        grad=False,
    ),
    scan("cumsum_of_computed", lambda x: (x.exp() * 2).cumsum(-1) + 1, _rows, (torch.float32, torch.bfloat16)),
    scan(
        "cumsum_of_view",
        lambda x: (x.t().cumsum(0), x.flip(1).cumsum(1).flip(1), x.reshape(-1).cumsum(0), x[:, ::2].cumsum(1)),
        _rows,
        (torch.float32, torch.int32),
    ),
    scan("cumsum_of_reshaped", lambda x: x.view(-1, 2).sum(1).cumsum(0), _lengths(6), (torch.float32,)),
    scan(
        "cumsum_of_nothing",
        lambda x: (x.cumsum(0), x.cumsum(1), x.cumprod(1)),
        lambda m: [(m.tensor(0, 5),), (m.tensor(5, 0),)],
        (torch.float32, torch.int64),
        dynamic=False,
    ),
    scan(
        "cumsum_scalar",
        lambda x: (x.cumsum(0), x.cummax(0), x.logcumsumexp(0)),
        lambda m: [(m.tensor(),)],
        FLOATS,
        dynamic=False,
    ),
    scan("cumprod_rows", lambda x: (1 + x / 8).cumprod(-1), _rows, FLOATS),
    scan("cumprod_columns", lambda x: x.cumprod(0), lambda m: [(m.tensor(m.size(6), 70),)], NUMBERS, grad=False),
    scan("logcumsumexp_rows", lambda x: x.logcumsumexp(-1), _rows, FLOATS),
    scan("logcumsumexp_columns", lambda x: x.logcumsumexp(0), _lengths(70), FLOATS),
    scan("cummax_rows", lambda x: x.cummax(-1), _rows, ALL),
    scan("cummax_columns", lambda x: x.cummax(0), _lengths(70), ALL),
    scan("cummin_rows", lambda x: x.cummin(-1), _rows, ALL),
    scan("cummin_columns", lambda x: x.cummin(0), _lengths(70), ALL),
]

CASES = WRITES + SCANS
