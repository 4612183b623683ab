"""Operators whose kernels give another dtype than their fake implementations say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiling import assert_same, compiled, count, fresh, tile_only

pytestmark = tile_only


@torch.library.custom_op("bad::lies", mutates_args=())
def lies(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype, copy=True)


@lies.register_fake
def _(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("bad::lies_in_a_list", mutates_args=())
def lies_in_a_list(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.clone(), x.double()]


@lies_in_a_list.register_fake
def _(x: torch.Tensor) -> list[torch.Tensor]:
    return [torch.empty_like(x), torch.empty_like(x)]


def _refused(function: Callable[..., Any], message: str, **options: Any) -> None:
    with pytest.raises(RuntimeError) as error:
        compiled(function, **options)(torch.ones(3))
    assert str(error.value).splitlines()[0] == message


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32])
def test_the_dtype_of_a_result_is_checked(dtype: torch.dtype, tmp_path: Path) -> None:
    """Kernels would read numbers of another type: past the end of the memory where the real elements are smaller."""
    message = f"result 0 of 'bad::lies' expected torch.float32, as its fake implementation says, got {dtype}"
    for is_warm in (False, True):
        fresh()
        _refused(lambda x: lies(x.sin(), dtype) + 1, message, cache_dir=str(tmp_path))
        assert count("graphs_from_disk") == is_warm


def test_each_result_of_a_list_is_checked() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        first, second = lies_in_a_list(x.sin())
        return first + second

    who = "'bad::lies_in_a_list' expected torch.float32, as its fake implementation says, got torch.float64"
    _refused(function, f"result 1 of {who}")


def test_an_operator_that_tells_the_truth() -> None:
    result = compiled(lambda x: lies(x.sin(), torch.float32) + 1)(torch.ones(3))
    torch.testing.assert_close(result, torch.ones(3).sin() + 1)


def test_zeros_without_memory() -> None:
    """The tangent of what does not depend on the input: a tensor whose memory no kernel may read."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch._efficientzerotensor((6,)).clone() + x

    def second_derivatives(x: torch.Tensor) -> torch.Tensor:
        index = torch.arange(5, -1, -1)
        return torch.func.hessian(lambda x: (x.index_select(0, index) * x).square().sum())(x)

    x = torch.randn(6)
    for each in (function, second_derivatives):
        assert_same(compiled(each)(x), each(x))


def test_mask_of_no_elements() -> None:
    """Of a tensor without elements ATen's dropout gives a mask of another dtype than its fake implementation."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    operands = [torch.randn(0, 9, requires_grad=True) for _ in range(2)]
    results = [compiled(function, fallback_random=True)(operands[0]), function(operands[1])]
    for result in results:
        result.sum().backward()
    assert_same(results[0].detach(), results[1].detach())
    assert_same(operands[0].grad, operands[1].grad)
