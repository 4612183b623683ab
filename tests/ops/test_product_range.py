"""Products whose parts leave the range of their type though the whole does not."""

from __future__ import annotations

import pytest
import torch

from tests.compiling import compiled, count, fresh


def alternating(rows: int, columns: int, power: int) -> torch.Tensor:
    """10 to the power, and its reciprocal, in turns."""
    signs = torch.arange(rows * columns).reshape(rows, columns) % 2 * 2 - 1
    return (10.0 ** (power * signs.double())).float()


def scattered(rows: int, columns: int) -> torch.Tensor:
    return (10.0 ** torch.randint(-18, 19, (rows, columns)).double()).float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize(
    "x",
    [alternating(1, 64, 3), alternating(8, 16, 7), alternating(64, 7, 3), scattered(64, 64), scattered(300, 5)],
    ids=["row", "large", "columns", "scattered", "long"],
)
def test_products(x: torch.Tensor, dim: int | None, dtype: torch.dtype) -> None:
    # Parts of all of the scattered numbers would leave the range of float64, too.
    x = (x[:8, :8] if dim is None else x).to(dtype)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.prod() if dim is None else x.prod(dim)

    fresh()
    result, exact = compiled(function)(x), function(x.double())
    assert count("externs") == 0
    torch.testing.assert_close(result, exact.to(dtype))


@pytest.mark.parametrize(
    ("dtype", "large"),
    [(torch.bfloat16, 1e25), (torch.float16, 3e4), (torch.float32, 1e25), (torch.float64, 1e200)],
    ids=lambda value: str(value)[6:] if isinstance(value, torch.dtype) else "",
)
@pytest.mark.parametrize(("shape", "dim"), [((37,), 0), ((300,), 0), ((64, 33), 1), ((33, 64), 0), ((3, 5, 6), 1)])
def test_running_products(dtype: torch.dtype, large: float, shape: tuple[int, ...], dim: int) -> None:
    """As in eager mode each number is joined to all before it, so the same of them leave the range."""
    torch.manual_seed(0)
    numbers = torch.tensor([large, 1 / large, large**0.5, large**-0.5, 1, 2, 0.5, -1], dtype=torch.float64)
    x = numbers[torch.randint(0, len(numbers), shape)].to(dtype)
    fresh()
    result = compiled(lambda x: x.cumprod(dim))(x)
    assert count("externs") == 0
    torch.testing.assert_close(result, x.cumprod(dim), atol=0, rtol={2: 1e-2, 4: 1e-5, 8: 1e-12}[x.element_size()])
