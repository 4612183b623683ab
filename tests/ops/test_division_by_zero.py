"""Division of integers by a tensor that holds zero ends with eager's error, wherever in a kernel the zero is met."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)

OPS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "floor": torch.floor_divide,
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("name", OPS)
def test_zero_among_divisors(name: str, dtype: torch.dtype) -> None:
    """Sizes with and without a rest beyond the last full vector, whose missing lanes are not checked."""
    f = compiled(OPS[name], dynamic=True)
    for size in (2, 16, 37, 100):
        a = torch.arange(1, size + 1).to(dtype)
        assert_same(f(a, a), OPS[name](a, a))
        for position in {0, size // 2, size - 1}:
            b = a.clone()
            b[position] = 0
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                f(a, b)


def test_zero_in_a_reduction() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a // b).sum(-1)

    a = torch.arange(1, 7 * 33 + 1).reshape(7, 33)
    f = compiled(function)
    assert_same(f(a, a), function(a, a))
    b = a.clone()
    b[6, 32] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(a, b)


def test_elements_outside_are_not_checked() -> None:
    """Padding is no element of the quotient, and reads no divisor."""

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(a // b, (3, 5), value=9) + 1

    a = torch.arange(1, 20)
    fresh()
    assert_same(compiled(function)(a, a), function(a, a))
    assert count("externs") == 0


def test_constant_divisor() -> None:
    a = torch.arange(-20, 20)
    assert_same(compiled(lambda x: x // 3 + x % 5)(a), a // 3 + a % 5)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(lambda x: x // 0)(a)
