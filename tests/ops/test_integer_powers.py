"""Powers of integers: their layout, and numbers that the dtype does not hold."""

import itertools
from collections.abc import Callable

import pytest
import torch

from tests.compiling import compiled

LAYOUTS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "rows": lambda dtype: torch.randint(0, 4, (5, 6), dtype=dtype),
    "columns": lambda dtype: torch.randint(0, 4, (6, 5), dtype=dtype).t(),
    "every second row": lambda dtype: torch.randint(0, 4, (10, 6), dtype=dtype)[::2],
    "one row": lambda dtype: torch.randint(0, 4, (6,), dtype=dtype),
    "one row for all": lambda dtype: torch.randint(0, 4, (1, 6), dtype=dtype).expand(5, 6),
    "one column for all": lambda dtype: torch.randint(0, 4, (5, 1), dtype=dtype).expand(5, 6),
}


@pytest.mark.parametrize("dtypes", [(torch.int8, torch.int8), (torch.uint8, torch.int16)], ids=str)
def test_layout_of_two_tensors(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    for first, second in (pair for pair in itertools.product(LAYOUTS, repeat=2) if "columns" in pair):
        base, exponent = LAYOUTS[first](dtypes[0]), LAYOUTS[second](dtypes[1])
        torch.compiler.reset()
        result, expected = compiled(torch.pow)(base, exponent), torch.pow(base, exponent)
        assert torch.equal(result, expected) and result.dtype is expected.dtype
        assert result.stride() == expected.stride(), f"{first} to the power of {second}"


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("base", [300, -200, 127, -129, 2**40 + 3])
def test_base_wraps_around(base: int, dtype: torch.dtype) -> None:
    exponents = torch.arange(8, dtype=dtype)
    assert torch.equal(compiled(lambda x: base**x)(exponents), base**exponents)
