"""The operator suite on a CUDA device: values and gradients as in eager there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.compiling import assert_same, compiled, copy_inputs, fresh, gradients
from tests.ops.case import OpCase
from tests.ops.cases import CASES
from tests.ops.inputs import Inputs
from torch_tile.debug.record import recording

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

# The device adds up in another order than eager's kernels do.
LIMITS = {torch.float32: (1e-5, 1e-5), torch.float16: (4e-3, 4e-3), torch.bfloat16: (3.2e-2, 3.2e-2)}
SUM_LIMITS = (2e-5, 2e-5)
# What adds in whatever order threads come: torch's kernels, and ours.
ADDED_BY_ATOMICS = {"aten::scatter", "aten::scatter_add", "aten::scatter_reduce", "aten::index_add", "aten::index_put"}
NAMES_OF_ATOMICS = ("_scatter", "_index_put")
# Eager's kernels take a sixth of a float64 from a float32.
INEXACT_IN_EAGER = {("hardswish", torch.float64), ("hardsigmoid", torch.float64)}
PAIRS = [(case, dtype) for case in CASES for dtype in case.dtypes if (case.name, dtype) not in INEXACT_IN_EAGER]


def on_device(arguments: Any) -> Any:
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().to("cuda").requires_grad_(t.requires_grad), arguments
    )


def limits(case: OpCase, dtype: torch.dtype) -> tuple[float | None, float | None]:
    own, usual = case.limits(dtype), LIMITS.get(dtype, (None, None))
    if case.is_sum and dtype is torch.float32:
        return SUM_LIMITS
    return usual if own[0] is None else own


def assert_near(result: Any, case: OpCase, arguments: Any, rtol: float | None, atol: float | None) -> None:
    """As eager; sums of many numbers may also be as near as eager's to those in float64, which add up otherwise."""
    expected = case.function(*copy_inputs(arguments))
    try:
        assert_same(result, expected, rtol, atol)
    except AssertionError:
        if "cumsum" not in case.name:
            raise
        wide = pytree.tree_map_only(
            torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, copy_inputs(arguments)
        )
        exact = pytree.tree_leaves(case.function(*wide))
        for a, b, c in zip(pytree.tree_leaves(result), pytree.tree_leaves(expected), exact, strict=True):
            allowed = 2 * (b.double() - c).abs().max() + torch.finfo(b.dtype).eps * c.abs().max()
            assert (a.double() - c).abs().max() <= allowed


@pytest.mark.parametrize("case,dtype", PAIRS, ids=[f"{c}-{str(d).removeprefix('torch.')}" for c, d in PAIRS])
def test_equals_eager(case: OpCase, dtype: torch.dtype) -> None:
    for arguments in case.samples(Inputs(dtype)):
        fresh()
        arguments = on_device(arguments)
        given = copy_inputs(arguments)
        function = compiled(case.function)
        with recording() as graphs:
            result = function(*given)
        assert_near(result, case, arguments, *limits(case, dtype))
        assert_same(given, arguments, exact=True)
        again = function(*given)
        is_atomic = any(op.split(".")[0] in ADDED_BY_ATOMICS for graph in graphs for _, op, _ in graph.externs)
        is_atomic |= any(
            name in kernel.name for graph in graphs for kernel in graph.kernels for name in NAMES_OF_ATOMICS
        )
        if is_atomic:
            assert_same(again, result, *limits(case, dtype))
        else:
            assert_same(again, result, exact=True)


GRADIENTS = [case for case in CASES if case.grad and torch.float32 in case.dtypes]


@pytest.mark.parametrize("case", GRADIENTS, ids=str)
def test_gradient_equals_eager(case: OpCase) -> None:
    for arguments in case.samples(Inputs(torch.float32)):
        fresh()
        arguments = on_device(arguments)
        expected = gradients(case.function, arguments, case.constants)
        result = gradients(compiled(case.function), arguments, case.constants)
        for a, b in zip(result, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                scale = max(1.0, b.abs().max().item()) if b.numel() else 1.0
                assert_same(a, b, 1e-4, 1e-4 * scale, check_stride=False)


@pytest.mark.parametrize("case", [case for case in CASES if case.dynamic], ids=str)
def test_dynamic_sizes(case: OpCase) -> None:
    dtype = torch.float32 if torch.float32 in case.dtypes else case.dtypes[0]
    function = compiled(case.function, dynamic=True)
    for grow in (0, 3, 12):
        for arguments in case.samples(Inputs(dtype, grow=grow)):
            arguments = on_device(arguments)
            assert_near(function(*arguments), case, arguments, *limits(case, dtype))
