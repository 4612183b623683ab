"""Gradients of resized and indexed images whose channels lie side by side."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from tests.compiling import BACKEND
from torch_tile.frontend.channels_last_scatters import order_scatters

ROWS = torch.tensor([3, 0, 3, 7])

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "smaller": lambda x: F.interpolate(x, size=(5, 7)),
    "larger": lambda x: F.interpolate(x, size=(19, 23)),
    "exact": lambda x: F.interpolate(x, size=(5, 7), mode="nearest-exact"),
    "rows": lambda x: x[:, :, ROWS],
    "columns": lambda x: x[:, :, :, ROWS],
    "pixels": lambda x: x[:, :, ROWS, ROWS],
    "images": lambda x: x[ROWS % 2],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str, dtype: torch.dtype) -> None:
    function = FUNCTIONS[name]
    x = torch.randn(2, 64, 16, 16, dtype=dtype).contiguous(memory_format=torch.channels_last).requires_grad_()
    result = function(x)
    change = torch.randn_like(result)
    change = change.contiguous(memory_format=torch.channels_last) if result.dim() == 4 else change
    (expected,) = torch.autograd.grad(result, x, change)
    (found,) = torch.autograd.grad(torch.compile(function, backend=BACKEND)(x), x, change)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, check_stride=False)


def test_what_is_ordered() -> None:
    def scatter(values: torch.Tensor, rows: torch.Tensor, is_added: bool = True) -> torch.Tensor:
        zeros = values.new_zeros(2, 64, 16, values.shape[3])
        return torch.ops.aten.index_put(zeros, [None, None, rows], values, is_added)

    def count(values: torch.Tensor, is_added: bool = True) -> int:
        gm = make_fx(lambda v, r: scatter(v, r, is_added), tracing_mode="fake")(values, ROWS)
        found = order_scatters(gm)
        torch.testing.assert_close(gm(values, ROWS), scatter(values, ROWS, is_added), rtol=0, atol=0)
        return found

    values = torch.arange(2.0 * 64 * 4 * 16).view(2, 64, 4, 16)
    assert count(values) == 0
    assert count(values.contiguous(memory_format=torch.channels_last)) == 1
    assert count(values.contiguous(memory_format=torch.channels_last)[:, :, :, :1]) == 0  # few elements
    assert count(torch.ones(2, 64, 4, 16).contiguous(memory_format=torch.channels_last), is_added=False) == 0
