"""Softmax and log-sum-exp of few long rows, whose maximum and sum of exponentials are one reduction in pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compiling import assert_same, compiled, count, fresh, gradients, tile_only

Function = Callable[[torch.Tensor], torch.Tensor]

FUNCTIONS: dict[str, Function] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "loss": lambda x: torch.nn.functional.cross_entropy(x, torch.arange(len(x)) % 5, reduction="none"),
}
INFINITE = {
    "inf": [torch.inf],
    "two inf": [torch.inf, torch.inf],
    "-inf": [-torch.inf],
    "both": [torch.inf, -torch.inf],
    "nan": [torch.nan],
    "nan and inf": [torch.nan, torch.inf],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(1, 128000), (7, 100003), (3, 1 << 16)], ids=str)
def test_errors_are_eagers(shape: tuple[int, ...], name: str, dtype: torch.dtype) -> None:
    function = FUNCTIONS[name]
    for scale in (1.0, 30.0):
        x = (torch.randn(shape) * scale).to(dtype)
        x[:, 1::3] -= 100  # most of the sum comes late
        result, eager, exact = compiled(function)(x), function(x), function(x.double())
        assert result.dtype is eager.dtype and result.stride() == eager.stride()
        errors = [((r.double() - exact).abs() / exact.abs().clamp(min=1e-30)).max() for r in (result, eager)]
        assert errors[0] <= 2 * errors[1] + torch.finfo(dtype).eps


@pytest.mark.parametrize("values", INFINITE.values(), ids=INFINITE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_finite(name: str, values: list[float]) -> None:
    function = FUNCTIONS[name]
    x = torch.randn(4, 70001)
    for row, place in enumerate((0, 40000, 69990)):
        x[row, place : place + len(values)] = torch.tensor(values)
    x[3] = values[0]
    assert_same(compiled(function)(x), function(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_and_dynamic_sizes(name: str) -> None:
    function = FUNCTIONS[name]
    call = compiled(function, dynamic=True)
    for shape in ((2, 70001), (5, 90000), (300, 500)):
        x = torch.randn(shape)
        assert_same(call(x), function(x), rtol=2e-5, atol=2e-6)
        assert_same(gradients(call, [x]), gradients(function, [x]), rtol=1e-4, atol=1e-5)


@tile_only
def test_rows_are_read_twice_and_written_once() -> None:
    x = torch.randn(4, 100000)
    fresh()
    compiled(FUNCTIONS["softmax"])(x)
    assert count("kernels") == 3  # pairs of pieces, of rows, quotients
