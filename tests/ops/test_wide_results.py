"""Reductions asked for a wider dtype than their operand's are computed in it."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled

f64 = torch.float64
REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": lambda x: x.mean(dtype=f64),
    "mean of dims": lambda x: x.mean((0, 1), keepdim=True, dtype=f64),
    "mean of rows": lambda x: x.mean(1, dtype=f64),
    "mean of columns": lambda x: x.mean(0, dtype=f64),
    "sum": lambda x: x.sum(dtype=f64),
    "sum of rows": lambda x: x.sum(1, dtype=f64),
    "nansum": lambda x: x.nansum(dtype=f64),
    "nanmean": lambda x: x.nanmean(1, dtype=f64),
    "prod": lambda x: (x / 1000).prod(1, dtype=f64),
    "cumsum": lambda x: x.cumsum(1, dtype=f64),
    "cumprod": lambda x: (x / 1000).cumprod(1, dtype=f64),
    "norm": lambda x: torch.linalg.vector_norm(x, dtype=f64),
    "norm of order 3": lambda x: torch.linalg.vector_norm(x, 3, 1, dtype=f64),
    "matrix norm": lambda x: torch.linalg.matrix_norm(x, dtype=f64),
    "softmax": lambda x: F.softmax(x, 1, dtype=f64),
    "log_softmax": lambda x: F.log_softmax(x, 0, dtype=f64),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS.values(), ids=REDUCTIONS.keys())
def test_result_has_the_accuracy_of_its_dtype(reduction: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    x = (torch.rand(300, 400) + 1000).to(dtype)
    result = compiled(reduction)(x)
    # The operand is divided in its own dtype first where a reduction says so.
    expected = reduction(x)
    assert result.dtype is expected.dtype is f64
    torch.testing.assert_close(result, expected, rtol=1e-13, atol=0)
