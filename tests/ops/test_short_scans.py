"""Running sums and products of rows of a few elements, with what is special about them."""

from __future__ import annotations

import pytest
import torch

from tests.compiling import BACKEND

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool, torch.uint8)


def rows(length: int, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(70, length) * 20
    if dtype.is_floating_point:
        x[0], x[1, 0], x[2, -1] = -0.0, float("nan"), float("inf")
    return x.to(dtype) if dtype is not torch.uint8 else x.abs().to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_equal_bits(length: int, dtype: torch.dtype) -> None:
    """Few sums, each in the dtype that ATen adds in: nothing may differ."""

    def scans(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        last = x.view(7, 10, -1)
        return x.cumsum(1), x.cumprod(-1), last.cumsum(2), x.cumsum(1, dtype=torch.float64), x.t().cumsum(1)

    torch.compiler.reset()
    x = rows(length, dtype)
    for found, expected in zip(torch.compile(scans, backend=BACKEND)(x), scans(x), strict=True):
        assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        if found.dtype.is_floating_point:
            assert torch.equal(found.signbit() & (found == 0), expected.signbit() & (expected == 0))


def test_gradients() -> None:
    for f in (lambda x: x.cumsum(1), lambda x: x.cumprod(1), lambda x: x.sin().cumsum(1, dtype=torch.float64)):
        torch.compiler.reset()
        x = torch.randn(50, 3, requires_grad=True)
        expected = torch.autograd.grad(f(x).square().sum(), x)
        found = torch.autograd.grad(torch.compile(f, backend=BACKEND)(x).square().sum(), x)
        torch.testing.assert_close(found, expected)
