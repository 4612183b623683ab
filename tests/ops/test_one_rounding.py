"""A value of low precision has one rounding, whoever reads it: comparisons with its own maximum find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled, tile_only

Function = Callable[[torch.Tensor, torch.Tensor], Any]


def with_product(function: Callable[[torch.Tensor], Any]) -> Function:
    return lambda a, b: function(a * b)


# Of y = a * b, which eager rounds where it makes it. Results are exact: bits, positions, counts.
READERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "equal_to_maximum": lambda y: y == y.amax(-1, keepdim=True),
    "equal_to_minimum_of_columns": lambda y: y == y.amin(0),
    "argmax": lambda y: (y.argmax(-1), y.argmin(0), y.argmax()),
    "max_with_indices": lambda y: y.max(-1),
    "where_maximum": lambda y: torch.where(y == y.amax(-1, keepdim=True), y, 0),
    "greater_than_transposed": lambda y: (y[:, :64] > y[:, :64].t()) | (y[:, :64] == y[:, :64].t()),
    "difference_of_itself": lambda y: y - torch.cat([y[:, :7], y[:, 7:]], 1),
    "stored_and_read": lambda y: (y, y.float() * 3, y.float().amax(-1)),
    "stored_in_a_view": lambda y: (y[:, ::2], y.float() + 1),
    "floor": lambda y: torch.floor(y * 8),
    "to_integer": lambda y: ((y * 100).to(torch.int32), (y * 3).bool()),
    "is_infinite": lambda y: (y, torch.isinf(y * (6e4 if y.dtype is torch.float16 else 3e38))),
    "root_of_stored": lambda y: (y, y.abs().sqrt() == y.abs().sqrt().amax(-1, keepdim=True)),
    "flipped": lambda y: (y, (y * 0.7).flip(0) == (y * 0.7).amax(0)),
    "padded": lambda y: F.pad(y, (1, 1)) == F.pad(y, (1, 1)).amax(-1, keepdim=True),
    "chosen_twice": lambda y: (lambda w: (w.float() * 3, w == w.amax(-1, keepdim=True)))(torch.where(y > 0, y, y * 2)),
    "cummax": lambda y: y.cummax(-1),
    "max_pool": lambda y: F.max_pool1d(y[None], 3, return_indices=True),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("fusion", [True, False], ids=["fused", "apart"])
def test_readers_see_one_value(name: str, dtype: torch.dtype, fusion: bool) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(64, 4096).to(dtype), torch.randn(64, 4096).to(dtype)
    function = with_product(READERS[name])
    assert_same(compiled(function, fusion=fusion)(a, b), function(a, b), exact=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_dynamic_sizes_see_one_value(dtype: torch.dtype) -> None:
    function = compiled(lambda a, b: (a * b == (a * b).amax(-1, keepdim=True)).sum(-1), dynamic=True)
    for rows, columns in ((3, 5), (64, 4096), (65, 333)):
        a, b = torch.randn(rows, columns).to(dtype), torch.randn(rows, columns).to(dtype)
        y = a * b
        assert_same(function(a, b), (y == y.amax(-1, keepdim=True)).sum(-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_stages_that_compute_again_see_one_value(dtype: torch.dtype) -> None:
    """The exponential is long enough to be kept, its operand is read in every stage; eager's roundings may differ."""

    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        y = torch.tanh(torch.exp(a * b))
        z = y * 0.3
        return (z == z.amax(-1, keepdim=True)), (z == z.amin(-1, keepdim=True)), (y >= y.amax(-1, keepdim=True)).sum(-1)

    a, b = torch.randn(32, 777).to(dtype), torch.randn(32, 777).to(dtype)
    for mask in compiled(function)(a, b)[:2]:
        assert mask.any(-1).all()
    counts = compiled(function)(a, b)[2]
    assert (counts >= 1).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_what_the_backward_reads_is_what_was_returned(dtype: torch.dtype) -> None:
    """The gradient of amax goes to the elements that equal it."""

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a * b).amax(-1)

    a, b = torch.randn(16, 500).to(dtype), torch.randn(16, 500).to(dtype)
    gradients = []
    for run in (compiled(function), function):
        x = a.clone().requires_grad_()
        run(x, b).backward(torch.ones(16, dtype=dtype))
        gradients.append(x.grad)
    assert_same(gradients[0], gradients[1])


def test_a_comparison_sees_what_eager_rounded() -> None:
    """One reader, but it compares with what eager made of the same operands."""
    a, b = torch.randn(300, 7).bfloat16(), torch.randn(300, 7).bfloat16()
    assert compiled(lambda a, b, c: (a * b) == c)(a, b, a * b).all()
    assert compiled(lambda a, b, c: (a * b).float() == c)(a, b, (a * b).float()).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
def test_narrow_integers_wrap(dtype: torch.dtype) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        y = a * b + a
        return (
            y,
            y.int() - a.int(),
            y == y.amax(-1, keepdim=True),
            (y + y).sum(-1),
            (-y).abs(),
            y // 3,
            y.float().mean(-1),
        )

    limits = torch.iinfo(dtype)
    a = torch.randint(limits.min, limits.max + 1, (33, 77)).to(dtype)
    b = torch.randint(limits.min, limits.max + 1, (33, 77)).to(dtype)
    assert_same(compiled(function)(a, b), function(a, b))


@tile_only
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_fusion_changes_no_bits(dtype: torch.dtype) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        y = torch.sigmoid(a * b + 1) * a.t().reshape(a.shape)
        return y, torch.exp(y) - b, torch.where(y > 0, y * a, b / 3), (y * 2).flip(0), torch.cat([y, y + a], 1) * 0.7

    a, b = torch.randn(40, 65).to(dtype), torch.randn(40, 65).to(dtype)
    exactly = {"emulate_precision_casts": True} if dtype == torch.bfloat16 else {}
    assert_same(compiled(function, **exactly)(a, b), compiled(function, fusion=False, **exactly)(a, b), exact=True)
