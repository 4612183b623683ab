"""Each check over each operator case: values, gradients, dynamic sizes, layouts, extremes, repetition, as in eager."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree

from tests.compiling import IS_TILE, assert_same, compiled, copy_inputs, count, fresh, gradients
from tests.ops.accuracy import error, is_close_enough, wide
from tests.ops.case import OpCase
from tests.ops.cases import CASES
from tests.ops.inputs import Inputs


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def parameters(chosen: list[OpCase], dtypes: bool = True) -> pytest.MarkDecorator:
    """One test per case, and per dtype."""
    if not dtypes:
        return pytest.mark.parametrize("case", chosen, ids=str)
    pairs = [(case, dtype) for case in chosen for dtype in case.dtypes]
    return pytest.mark.parametrize("case,dtype", pairs, ids=[f"{case}-{name_of(dtype)}" for case, dtype in pairs])


POINTWISE = [case for case in CASES if case.operands]
WITH_GRADIENT = [case for case in CASES if case.grad and torch.float32 in case.dtypes]


def main_dtype(case: OpCase) -> torch.dtype:
    return torch.float32 if torch.float32 in case.dtypes else case.dtypes[0]


def assert_near(case: OpCase, dtype: torch.dtype, result: Any, expected: Any, arguments: Any) -> None:
    """As eager; float32's sums as near as eager's to those in float64, in units of the last place of what is usual."""
    if not (case.is_sum and dtype is torch.float32):
        assert_same(result, expected, *case.limits(dtype))
        return
    exact = scales = pytree.tree_leaves(case.function(*wide(arguments)))
    if case.is_linear:
        scales = pytree.tree_leaves(case.function(*(x.abs() for x in wide(arguments))))
    results, expecteds = pytree.tree_leaves(result), pytree.tree_leaves(expected)
    for index, (a, b, c, scale) in enumerate(zip(results, expecteds, exact, scales, strict=True)):
        if a.dtype is not torch.float32:
            assert_same(a, b)
            continue
        assert_same(torch.isfinite(a), torch.isfinite(b))
        ours, eagers = error(a, c, scale), error(b, c, scale)
        assert is_close_enough(ours, eagers, slack=2), f"result {index}: {ours} ulp, eager {eagers}"


@parameters(CASES)
def test_equals_eager(case: OpCase, dtype: torch.dtype) -> None:
    """Also: a second run gives the same bits, inputs stay as they were, and what should be a kernel is one."""
    for arguments in case.samples(Inputs(dtype)):
        fresh()
        expected = case.function(*copy_inputs(arguments))
        given = copy_inputs(arguments)
        function = compiled(case.function)
        result = function(*given)
        assert_near(case, dtype, result, expected, arguments)
        assert_same(given, arguments, exact=True)
        assert_same(function(*given), result, exact=True)
        if IS_TILE and case.generated:
            assert count("externs") == 0 and count("pycalls") == 0


@parameters(WITH_GRADIENT, dtypes=False)
def test_gradient_equals_eager(case: OpCase) -> None:
    """Against eager, or as close as eager is to the gradient in float64."""
    for arguments in case.samples(Inputs(torch.float32)):
        fresh()
        expected = gradients(case.function, arguments, case.constants)
        result = gradients(compiled(case.function), arguments, case.constants)
        for a, b in zip(result, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                assert a.dtype == b.dtype and a.shape == b.shape
        exact: list[Any] = []
        for index, (a, b) in enumerate(zip(result, expected, strict=True)):
            if a is None or b is None:
                continue
            scale = b.abs().max().item() if b.numel() and math.isfinite(b.abs().max()) else 1.0
            if torch.allclose(a, b, rtol=1e-5, atol=1e-5 * max(scale, 1.0), equal_nan=True):
                continue
            wide = pytree.tree_map_only(
                torch.Tensor, lambda t: t.detach().double() if t.is_floating_point() else t, arguments
            )
            exact = exact or gradients(case.function, wide, case.constants)
            allowed = 4 * (b.double() - exact[index]).abs().max() + 1e-6 * max(scale, 1.0)
            error = (a.double() - exact[index]).abs().max()
            assert error <= allowed, f"gradient {index}: error {error:.3g}, eager's allows {allowed:.3g}"


@parameters([case for case in CASES if case.dynamic], dtypes=False)
def test_dynamic_sizes(case: OpCase) -> None:
    dtype = main_dtype(case)
    function = compiled(case.function, dynamic=True)
    for grow in (0, 3, 12):
        for arguments in case.samples(Inputs(dtype, grow=grow)):
            assert_near(case, dtype, function(*arguments), case.function(*arguments), arguments)
    if case.operands:
        assert counters["stats"]["unique_graphs"] == 1


@parameters([case for case in WITH_GRADIENT if case.dynamic], dtypes=False)
@pytest.mark.slow
def test_gradient_with_dynamic_sizes(case: OpCase) -> None:
    function = compiled(case.function, dynamic=True)
    for grow in (0, 3):
        for arguments in case.samples(Inputs(torch.float32, grow=grow)):
            result = gradients(function, arguments, case.constants)
            for a, b in zip(result, gradients(case.function, arguments, case.constants), strict=True):
                if a is not None and b is not None:
                    scale = max(b.abs().max().item(), 1.0) if b.numel() else 1.0
                    assert_same(a, b, rtol=1e-4, atol=1e-4 * scale, check_stride=False)


# Layouts of a 6 x 10 operand, by name: other strides, offsets, broadcasts.
LAYOUTS = {
    "transposed": lambda make, domain: make.tensor(10, 6, domain=domain).t(),
    "stepped": lambda make, domain: make.tensor(12, 31, domain=domain)[1::2, 1::3],
    "offset": lambda make, domain: make.tensor(67, domain=domain)[7:].view(6, 10),
    "expanded_rows": lambda make, domain: make.tensor(1, 10, domain=domain).expand(6, 10),
    "expanded_columns": lambda make, domain: make.tensor(6, 1, domain=domain).expand(6, 10),
}
BROADCASTS = {
    "row": lambda make, domain: make.tensor(10, domain=domain),
    "column": lambda make, domain: make.tensor(6, 1, domain=domain),
    "scalar": lambda make, domain: make.tensor(domain=domain),
    "one": lambda make, domain: make.tensor(1, 1, domain=domain),
}


@parameters(POINTWISE, dtypes=False)
def test_layouts(case: OpCase) -> None:
    """Every operand in another layout; one program for all, and each operand broadcast in turn.

    Where operands disagree, torch's own decompositions choose other strides for the result than eager's kernels do.
    """
    make = Inputs(main_dtype(case))
    layouts = list(LAYOUTS.values())
    function = compiled(lambda sets: [case.function(*arguments) for arguments in sets])
    sets = [
        tuple(layouts[(start + i) % len(layouts)](make, domain) for i, domain in enumerate(case.operands))
        for start in range(len(layouts))
    ]
    if len(case.operands) > 1:
        for position in range(len(case.operands)):
            for broadcast in BROADCASTS.values():
                sets.append(
                    tuple(
                        broadcast(make, domain) if i == position else make.tensor(6, 10, domain=domain)
                        for i, domain in enumerate(case.operands)
                    )
                )
    assert_same(
        function(sets), [case.function(*arguments) for arguments in sets], *case.limits(make.dtype), check_stride=False
    )


@parameters(POINTWISE, dtypes=False)
def test_sizes_of_all_ranks(case: OpCase) -> None:
    """Scalars, empty tensors, one element, and lengths around the widths of vectors."""
    make = Inputs(main_dtype(case))
    shapes = [
        (),
        (0,),
        (3, 0, 2),
        (1,),
        (1, 1, 1),
        (7,),
        (15,),
        (16,),
        (17,),
        (63,),
        (64,),
        (65,),
        (3, 1, 5),
        (2, 3, 4, 5),
    ]
    sets = [tuple(make.tensor(*shape, domain=domain) for domain in case.operands) for shape in shapes]
    function = compiled(lambda sets: [case.function(*arguments) for arguments in sets])
    assert_same(function(sets), [case.function(*arguments) for arguments in sets], *case.limits(make.dtype))


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    math.inf,
    -math.inf,
    math.nan,
    1e-3,
    -1e-3,
    10.0,
    -10.0,
    88.5,
    -87.5,
    -104.0,
]
# Both ends of float32, and where exp overflows.
SPECIAL += [
    100.0,
    -100.0,
    1e4,
    -1e4,
    math.pi,
    math.pi / 2,
    2.0**-126,
    -(2.0**-126),
    2.0**-130,
    -(2.0**-149),
    3.0e38,
    -3.0e38,
    0.9999999,
    1.0000001,
]


# The largest number of float16, its least ones, and where exp overflows.
LOW_SPECIAL = [65504.0, -65504.0, 6e-8, -6e-8, 6.1e-5, 6.0e-5, 11.09, -17.5, 0.1, 3.5, 240.0, 256.5]
SPECIAL_VALUES = {
    torch.float32: SPECIAL,
    torch.float16: SPECIAL + LOW_SPECIAL,
    torch.bfloat16: SPECIAL + LOW_SPECIAL,
}
# Two units of the last place, and of the smallest number.
SPECIAL_LIMITS = {torch.float32: (1e-5, 1e-37), torch.float16: (2e-3, 1.2e-7), torch.bfloat16: (1.6e-2, 1e-37)}
WITH_SPECIAL = [
    pytest.param(
        case,
        dtype,
        id=f"{case}-{name_of(dtype)}",
        marks=[pytest.mark.slow] if dtype is torch.bfloat16 else [],
    )
    for case in POINTWISE
    for dtype in SPECIAL_VALUES
    if case.special and dtype in case.dtypes
]


@pytest.mark.parametrize("case,dtype", WITH_SPECIAL)
def test_special_values(case: OpCase, dtype: torch.dtype) -> None:
    """Zeros of both signs, infinities, NaN, subnormals, large arguments: all combinations, as eager or float64 says."""
    values = torch.tensor(SPECIAL_VALUES[dtype], dtype=dtype)
    rtol, atol = SPECIAL_LIMITS[dtype]
    if len(case.operands) > 2:
        values = values[::3]
    arguments = [t.contiguous() for t in torch.meshgrid(*[values] * len(case.operands), indexing="ij")]
    result = pytree.tree_leaves(compiled(case.function)(*arguments))
    expected = pytree.tree_leaves(case.function(*arguments))
    exact = pytree.tree_leaves(case.function(*(t.double() for t in arguments)))
    for a, b, c in zip(result, expected, exact, strict=True):
        if not a.is_floating_point():
            assert_same(a, b)
            continue
        c = c.to(a.dtype)
        near = torch.isclose(a, b, rtol, atol, equal_nan=True) | torch.isclose(a, c, rtol, atol, equal_nan=True)
        bad = (~near).nonzero()
        at = [(tuple(t[tuple(i)].item() for t in arguments), a[tuple(i)].item(), b[tuple(i)].item()) for i in bad[:8]]
        assert len(bad) == 0, f"{len(bad)} differ; (arguments), result, eager: {at}"


@parameters([case for case in POINTWISE if torch.bfloat16 in case.dtypes], dtypes=False)
@pytest.mark.slow
def test_low_precision_layouts(case: OpCase) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        make = Inputs(dtype)
        sets = [tuple(layout(make, domain) for domain in case.operands) for layout in LAYOUTS.values()]
        function = compiled(lambda sets: [case.function(*arguments) for arguments in sets])
        assert_same(function(sets), [case.function(*arguments) for arguments in sets], *case.limits(dtype))
