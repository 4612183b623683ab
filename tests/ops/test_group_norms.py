"""Group norms where channels lie side by side, beside float64 and eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import BACKEND


def norm(x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> torch.Tensor:
    return F.group_norm(x, groups, weight, bias, eps)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)


def check(x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None) -> None:
    """The result has at most twice eager mode's error, its dtype and its strides."""
    wide = [each if each is None else each.double() for each in (x, weight, bias)]
    exact = norm(wide[0], groups, *wide[1:])
    expected = norm(x, groups, weight, bias)
    found = torch.compile(norm, backend=BACKEND, fullgraph=True)(x, groups, weight, bias)
    assert found.dtype is expected.dtype
    assert found.stride() == expected.stride()
    if x.dtype is torch.float64:
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-12)
        return
    error, eager = ((each.double() - exact).abs().max() for each in (found, expected))
    assert error <= 2 * eager + 2 * torch.finfo(x.dtype).eps * exact.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("is_affine", [False, True])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [((2, 12, 5, 7), 3), ((1, 32, 8, 8), 8), ((3, 64, 9, 2), 2), ((2, 6, 3, 4, 5), 2), ((2, 6, 4, 4), 6)],
)
def test_channels_last(shape: tuple[int, ...], groups: int, is_affine: bool, dtype: torch.dtype) -> None:
    x = channels_last(torch.randn(shape).to(dtype))
    parameters = [torch.randn(shape[1]).to(dtype) for _ in range(2)] if is_affine else []
    check(x, groups, *parameters)


@pytest.mark.parametrize("mean", [0.0, 10.0, 1000.0, -30000.0])
def test_means_far_from_zero(mean: float) -> None:
    """Eager mode subtracts squares in float32: with a mean of 1000 no digit of its result is right."""
    x = channels_last(torch.randn(2, 24, 28, 28) + mean)
    exact = norm(x.double(), 6)
    found = torch.compile(norm, backend=BACKEND)(x, 6)
    assert (found - exact).abs().max() <= 4e-7 * max(10, abs(mean))


def test_special_values() -> None:
    x = channels_last(torch.randn(3, 8, 4, 4))
    x[0, 1, 2, 3], x[1, 6, 0, 0], x[2, 0:2] = torch.nan, torch.inf, 3.0
    expected = norm(x.contiguous(), 4)
    found = torch.compile(norm, backend=BACKEND)(x, 4)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, equal_nan=True, check_stride=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients(dtype: torch.dtype) -> None:
    x = channels_last(torch.randn(2, 16, 6, 5).to(dtype))
    parameters = [torch.randn(16).to(dtype) for _ in range(2)]
    change = channels_last(torch.randn(x.shape).to(dtype))

    def gradients(function: Any, *operands: torch.Tensor) -> list[torch.Tensor]:
        leaves = [each.clone().requires_grad_() for each in operands]
        return list(torch.autograd.grad(function(leaves[0], 4, *leaves[1:]), leaves, change.to(operands[0].dtype)))

    exact = gradients(norm, *(each.double() for each in (x, *parameters)))
    expected = gradients(norm, x, *parameters)
    found = gradients(torch.compile(norm, backend=BACKEND), x, *parameters)
    for each, eager, wide in zip(found, expected, exact, strict=True):
        assert each.stride() == eager.stride()
        error, allowed = ((one.double() - wide).abs().max() for one in (each, eager))
        assert error <= 2 * allowed + 4 * torch.finfo(dtype).eps * wide.abs().max()


def test_dynamic_sizes() -> None:
    function = torch.compile(norm, backend=BACKEND, dynamic=True)
    for shape in ((2, 12, 5, 7), (3, 12, 8, 8), (1, 12, 16, 3), (4, 24, 6, 6)):
        x = channels_last(torch.randn(shape))
        torch.testing.assert_close(function(x, 3), norm(x, 3), rtol=1e-5, atol=1e-5)


def test_nothing() -> None:
    for shape in ((0, 8, 4, 4), (2, 8, 1, 1)):
        x = channels_last(torch.randn(shape))
        torch.testing.assert_close(torch.compile(norm, backend=BACKEND)(x, 2), norm(x, 2), rtol=1e-4, atol=1e-5)
