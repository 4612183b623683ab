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
