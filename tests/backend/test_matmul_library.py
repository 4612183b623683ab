"""Products of float32 matrices: whoever computes them, they equal the ones in float64 to a few rounding errors."""

from __future__ import annotations

import pytest
import torch

from tests.compiling import assert_same, compiled, fresh, tile_only
from torch_tile.errors import OptionError

pytestmark = tile_only

ROWS, INNER, COLUMNS, BATCH = 200, 160, 144, 6  # enough work for oneDNN to be asked


def layouts(*sizes: int) -> list[torch.Tensor]:
    """The same sizes, stored in several ways: contiguous, transposed, a part of a wider tensor, expanded batch."""
    wide = torch.randn(*sizes[:-1], sizes[-1] + 5)[..., 2:-3]
    transposed = torch.randn(*sizes[:-2], sizes[-1], sizes[-2]).mT
    repeated = torch.randn(sizes[-2:]).expand(sizes)
    return [torch.randn(sizes), transposed, wide, repeated]


def check(function, *args: torch.Tensor, library: str) -> None:  # type: ignore[no-untyped-def]
    fresh()  # one more entry of the same function each time
    expected = function(*(a.double() for a in args))
    with torch.no_grad():
        result = compiled(function, matmul_library=library)(*args)
    assert result.is_contiguous()
    # Rounding errors of a sum of INNER products of normal numbers grow like its square root.
    error = (result.double() - expected).abs().max().item()
    assert error < 1e-5 * INNER**0.5, f"{error} {[a.stride() for a in args]}"


@pytest.mark.parametrize("library", ["auto", "aten", "onednn"])
def test_products(library: str) -> None:
    for a in layouts(ROWS, INNER):
        for b in layouts(INNER, COLUMNS):
            check(torch.mm, a, b, library=library)
    for a in layouts(BATCH, ROWS, INNER)[::3]:
        for b in layouts(BATCH, INNER, COLUMNS):
            check(torch.bmm, a, b, library=library)


@pytest.mark.parametrize("library", ["auto", "onednn"])
def test_products_with_addend(library: str) -> None:
    a, b = torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER).t()
    for sizes in [(COLUMNS,), (1,), (), (ROWS, 1), (1, COLUMNS), (ROWS, COLUMNS)]:
        check(torch.addmm, torch.randn(sizes), a, b, library=library)
        check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), torch.randn(sizes), a, b, library=library)
    a, b = torch.randn(BATCH, ROWS, INNER), torch.randn(BATCH, INNER, COLUMNS)
    check(torch.baddbmm, torch.randn(BATCH, 1, COLUMNS), a, b, library=library)
    check(lambda c, a, b: torch.baddbmm(c, a, b, alpha=3), torch.randn(ROWS, COLUMNS), a, b, library=library)


def test_addend_is_not_read_when_beta_is_zero() -> None:
    a, b = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)
    nothing = torch.full((COLUMNS,), float("nan"))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), nothing.nan_to_num(), a, b, library="onednn")
    fresh()
    result = compiled(lambda c, a, b: torch.addmm(c, a, b, beta=0), matmul_library="onednn")(nothing, a, b)
    assert not result.isnan().any()


def test_linear_with_gradients() -> None:
    layer = torch.nn.Linear(INNER, COLUMNS)
    x = torch.randn(4, ROWS, INNER, requires_grad=True)
    compiled(layer, matmul_library="onednn")(x).square().sum().backward()
    gradients = [x.grad, layer.weight.grad, layer.bias.grad]
    x.grad = layer.weight.grad = layer.bias.grad = None
    layer.double()(x.double()).square().sum().backward()
    for result, expected in zip(gradients, [x.grad, layer.weight.grad, layer.bias.grad], strict=True):
        assert result is not None and expected is not None
        assert_same(result, expected.to(result.dtype), rtol=1e-4, atol=1e-3)


def test_eager_bits_with_aten() -> None:
    a, b, c = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS), torch.randn(COLUMNS)
    function = compiled(lambda c, a, b: torch.addmm(c, a, b), matmul_library="aten")
    assert_same(function(c, a, b), torch.addmm(c, a, b), exact=True)


def test_switched_off_by_torch() -> None:
    a, b = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)
    function = compiled(torch.mm, matmul_library="onednn")
    with torch.backends.mkldnn.flags(enabled=False):
        assert_same(function(a, b), torch.mm(a, b), exact=True)


def test_sizes_that_do_not_fit_get_torch_message() -> None:
    function = compiled(torch.mm, matmul_library="onednn", dynamic=True)
    with pytest.raises(Exception, match=r"size|shape"):
        function(torch.randn(ROWS, INNER), torch.randn(INNER + 1, COLUMNS))


def test_unknown_library() -> None:
    with pytest.raises(OptionError, match="option 'matmul_library' expected one of auto, aten, onednn, got 'mkl'"):
        torch.compile(torch.mm, backend="tile", options={"matmul_library": "mkl"})
