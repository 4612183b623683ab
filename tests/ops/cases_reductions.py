"""Sums, products, extrema, variances, tests, softmax: over rows, columns, several axes and everything."""

# ruff: noqa: E501  (tables: a case is a row)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.ops.case import Arguments, OpCase
from tests.ops.inputs import ALL, ANY, FLOATS, NUMBERS, Domain, Inputs

ORDER = "additions in another order than eager's"
# Eager adds in another order, and terms of both signs cancel.
SUM: dict[str, Any] = {
    "is_sum": True,
    "tolerances": {torch.float16: (5e-3, 5e-3), torch.bfloat16: (3e-2, 3e-2)},
    "reason": ORDER,
}

INTEGER_SUMS = (*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool)


def over_all_axes(
    reduce: Callable[..., Any], several: bool = True, everything: bool = True
) -> Callable[[torch.Tensor], Any]:
    """Rows, columns, the middle kept, two axes, everything."""

    def function(x: torch.Tensor) -> Any:
        results = [reduce(x, -1), reduce(x, 0), reduce(x, 1, keepdim=True)]
        if several:
            results += [reduce(x, (0, 2)), reduce(x, (0, 1, 2))]
        if everything:
            results.append(reduce(x))
        return tuple(results)

    return function


def cube(domain: Domain = ANY) -> Callable[[Inputs], Sequence[Arguments]]:
    return lambda make: [(make.tensor(make.size(5), 7, 19, domain=domain),)]


def distinct(make: Inputs) -> Sequence[Arguments]:
    return [(make.permutation(make.size(5), 7, 19),)]


NEAR_ONE = Domain(0.8, 1.2)

PLAIN = [
    OpCase("sum", over_all_axes(torch.sum), cube(), ALL, is_linear=True, **SUM),
    OpCase("sum_to_float64", lambda x: torch.sum(x, 1, dtype=torch.float64), cube(), (torch.float32, torch.int64)),
    OpCase("sum_of_bfloat16_in_float32", lambda x: torch.sum(x, 1, dtype=torch.float32), cube(), (torch.bfloat16,), **SUM),
    OpCase("mean", over_all_axes(torch.mean), cube(), is_linear=True, **SUM),
    OpCase("prod", over_all_axes(torch.prod, several=False), cube(NEAR_ONE), FLOATS[:2], tolerances={torch.float32: (1e-4, 1e-4)}, reason=ORDER, generated=False),
    OpCase("prod_integer", lambda x: (x.prod(), x.prod(0)), cube(), (torch.int64, torch.int32, torch.bool), grad=False),
    OpCase("amax", over_all_axes(torch.amax), cube(), ALL),
    OpCase("amin", over_all_axes(torch.amin), cube(), ALL),
    OpCase("max_values_indices", lambda x: (*torch.max(x, -1), *torch.max(x, 0), x.max()), distinct, NUMBERS[:5], generated=False),
    OpCase("min_values_indices", lambda x: (*torch.min(x, -1), *torch.min(x, 0), x.min()), distinct, NUMBERS[:5], generated=False),
    OpCase("argmax", over_all_axes(torch.argmax, several=False), cube(), NUMBERS, grad=False),
    OpCase("argmin", over_all_axes(torch.argmin, several=False), cube(), NUMBERS, grad=False),
    OpCase("any", over_all_axes(torch.any), lambda m: [(m.tensor(m.size(5), 7, 19) > 1,), (torch.zeros(5, 7, 19),)], (torch.float32,), grad=False),
    OpCase("all", over_all_axes(torch.all), lambda m: [(m.tensor(m.size(5), 7, 19) > 1,), (torch.ones(5, 7, 19).int(),)], (torch.float32,), grad=False),
    OpCase("var", over_all_axes(torch.var), cube(), **SUM),
    OpCase("var_biased", over_all_axes(lambda x, *a, **k: torch.var(x, *a, correction=0, **k), everything=False), cube(), (torch.float32,), **SUM),
    OpCase("std", over_all_axes(torch.std), cube(), **SUM),
    OpCase("var_mean", lambda x: (*torch.var_mean(x, -1), *torch.var_mean(x, (0, 1))), cube(), **SUM),
    OpCase("std_mean", lambda x: (*torch.std_mean(x, -1), *torch.std_mean(x)), cube(), (torch.float32,), **SUM),
    OpCase("logsumexp", lambda x: (torch.logsumexp(x, -1), torch.logsumexp(x, (0, 1))), cube(), **SUM),
    OpCase("norm", lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1, -1), x.norm(dim=0)), cube(), **SUM, generated=False),
    OpCase("count_nonzero", lambda x: (x > 0).sum(-1), cube(), NUMBERS, grad=False),
    OpCase("aminmax", lambda x: tuple(torch.aminmax(x, dim=-1)), distinct, (torch.float32, torch.int64), grad=False),
    OpCase("sum_of_product", lambda x: ((x * x).sum(-1), (x.exp() * x).sum(0)), cube(), **SUM),
    OpCase("centered", lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1), cube(), **SUM),
    OpCase("two_levels", lambda x: (x.sum(-1) * 0.1).amax(0) + x.amax(-1).sum(0), cube(), **SUM),
    OpCase("sum_of_transposed", lambda x: x.transpose(0, 2).sum(-1) + x.permute(2, 1, 0)[..., 0], cube(), **SUM),
    OpCase("sum_after_view", lambda x: x.reshape(-1, 7).sum(0) + x.reshape(x.shape[0], -1).sum(1)[0], cube(), **SUM),
    OpCase("integer_statistics", lambda x: (x.sum(), x.amax(0), x.float().mean(-1), x.double().var(0)), cube(), (torch.int32, torch.int8, torch.uint8), grad=False, **SUM),
    OpCase("cumsum", lambda x: x.cumsum(-1) * 2, cube(), (torch.float32, torch.int64), generated=False, **SUM),
]  # fmt: skip

SOFTMAX = [
    OpCase(f"{name}_{where}", lambda x, f=function, d=dim: f(x * 1.5, d), cube(), **SUM)
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax))
    for where, dim in (("rows", -1), ("columns", 0), ("middle", 1))
] + [
    OpCase("softmax_to_float32", lambda x: torch.softmax(x, -1, dtype=torch.float32).to(x.dtype), cube(), (torch.bfloat16, torch.float16)),
    OpCase("softmax_masked", lambda x: torch.softmax(x.masked_fill(torch.arange(19, device=x.device) > 11, float("-inf")), -1), cube()),
    OpCase("softmax_scaled_bias", lambda x: torch.softmax(x / 8 + x[:, :1], -1) * 2, cube(), (torch.float32,), **SUM),
]  # fmt: skip

CASES: list[OpCase] = [*PLAIN, *SOFTMAX]
