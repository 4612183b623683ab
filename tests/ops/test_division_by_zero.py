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


def test_quotients_of_64_bits() -> None:
    """Everything that rounding to double can get wrong: both ends of the range, powers of two and their neighbours."""
    least, most = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
    near = [(1 << k) + d for k in (0, 1, 2, 3, 10, 31, 32, 51, 52, 53, 54, 61, 62) for d in (-1, 0, 1)]
    values = sorted(
        {least, least + 1, least + 1023, most, most - 1, most - 1023, *near, *(-n for n in near), 7, 1000003}
    )
    a = torch.tensor(values).repeat_interleave(len(values))
    b = torch.tensor(values).repeat(len(values))
    random = torch.randint(least, most, (4096,), generator=torch.Generator().manual_seed(0))
    shift = torch.arange(4096) % 63
    a, b = torch.cat((a, random)), torch.cat((b, random.flip(0) >> shift))
    possible = (b != 0) & ~((a == least) & (b == -1))
    a, b = a[possible], b[possible]
    for op in OPS.values():
        assert_same(compiled(op)(a, b), op(a, b))
        for divisor in (3, 7, -10, 1000003, (1 << 53) + 1, most, least + 1):
            torch.compiler.reset()
            assert_same(compiled(op)(a, torch.tensor(divisor)), op(a, torch.tensor(divisor)))
            by_number = compiled(lambda a, op=op, divisor=divisor: op(a, divisor))
            assert_same(by_number(a), op(a, divisor))


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
