"""The kernels of `flex_attention` on the CPU: masks by blocks, sizes that no block divides, gradients.

For those on GPU see tests/gpu/test_flex_attention.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.backend.flex_programs import SCORES, causal, check, holes, operands
from tests.compiling import IS_TILE, compiled, count, gradients
from torch_tile.frontend.flex import lower

pytestmark = pytest.mark.skipif(not IS_TILE, reason="tests of kernels of this backend")


@pytest.fixture(autouse=True)
def _gradients_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.nn.attention.flex_attention as public

    # torch 2.13 refuses gradients on the CPU before any backend sees the graph.
    monkeypatch.setattr(public, "_validate_device", lambda *_: None)


@pytest.mark.parametrize("mask", [None, causal, holes])
@pytest.mark.parametrize("block", [16, 32, 128])
def test_masks(mask: Any, block: int) -> None:
    block_mask = create_block_mask(mask, 2, None, 64, 64, device="cpu", BLOCK_SIZE=block) if mask else None
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask), *operands())


@pytest.mark.parametrize(("length", "kv_length"), [(1, 70), (70, 1), (65, 47), (130, 130)])
def test_lengths_that_no_block_divides(length: int, kv_length: int) -> None:
    block_mask = create_block_mask(holes, 2, None, length, kv_length, device="cpu", BLOCK_SIZE=32)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=block_mask, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1)

    check(function, *operands(length=length, kv_length=kv_length))


def test_widths() -> None:
    for width, v_width in ((8, 8), (24, 40), (80, 16)):
        q, k, _ = operands(width=width)
        v = torch.randn(2, 2, 64, v_width)
        check(lambda q, k, v: flex_attention(q, k, v), q, k, v)


def test_grouped_heads_share_gradients() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(
            q, k, v, enable_gqa=True, scale=0.3, score_mod=lambda s, b, h, i, j: s + h * 0.25 - j * 0.1
        )

    check(function, *operands(heads=6, kv_heads=2))


def test_keys_that_a_batch_shares() -> None:
    q = operands(batch=3)[0]
    k, v = operands(batch=1)[1:]
    block_mask = create_block_mask(causal, 3, None, 64, 64, device="cpu", BLOCK_SIZE=32)
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask), q, k, v)


def test_sums_of_rows_and_their_gradient() -> None:
    block_mask = create_block_mask(holes, 2, None, 64, 64, device="cpu", BLOCK_SIZE=16)

    def sums(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=block_mask, return_lse=True)

    check(sums, *operands(), with_gradients=False)

    def both(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        out, lse = flex_attention(q, k, v, return_lse=True)
        return out * lse.unsqueeze(-1)

    check(both, *operands())


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_score_functions(name: str, dtype: torch.dtype) -> None:
    check(lambda q, k, v: flex_attention(q, k, v, score_mod=SCORES[name]), *operands(dtype=dtype))


def test_captured_tensors() -> None:
    bias, offsets, table = torch.randn(2, 64), torch.tensor([3, 11]), torch.randn(2, 127).t()
    documents = torch.arange(64).repeat(2, 1) // 20

    def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
        return documents[b, i] == documents[b][j]

    block_mask = create_block_mask(mask, 2, None, 64, 64, device="cpu", BLOCK_SIZE=16)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return s + bias[h, -1 - i] * 0.5 + table[i - j + 63, h] + offsets[b] * 0.125

        return flex_attention(q, k, v, score_mod=score, block_mask=block_mask)

    check(function, *operands())


def test_captured_tensors_with_gradients_are_computed_by_operators() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h, i])

    check(function, *operands(), torch.randn(2, 64))


def test_transposedoperands() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(2, 3))

    q, k, v = operands()
    check(function, q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous(), v.transpose(2, 3).contiguous())


def test_dynamic_lengths() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -1e9))

    program = compiled(function, dynamic=True)
    for batch, length in ((2, 64), (3, 33), (2, 129)):
        given = operands(batch=batch, length=length, kv_length=length)
        torch.testing.assert_close(program(*given), function(*given), rtol=1e-4, atol=1e-5)
    assert count("pycalls") == 0 and count("fallbacks") == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types(dtype: torch.dtype) -> None:
    block_mask = create_block_mask(causal, None, None, 64, 64, device="cpu", BLOCK_SIZE=16)
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask), *operands(dtype=dtype))


@pytest.mark.parametrize("scale", [-0.5, 0.0, -1e-42, 1e-42, 3])
@pytest.mark.parametrize("has_mask", [True, False])
def test_scales(scale: float, has_mask: bool) -> None:
    """The largest score is the least product where the scale is negative."""
    block_mask = create_block_mask(causal, None, None, 40, 40, device="cpu", BLOCK_SIZE=16) if has_mask else None
    given = operands(length=40, kv_length=40)
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask, scale=scale), *given)


@pytest.mark.parametrize("captured", [None, torch.float32, torch.float64])
def test_float64(captured: torch.dtype | None) -> None:
    """Gradients have its digits, though the sums that the forward pass hands on are declared as float32."""
    block_mask = create_block_mask(causal, None, None, 64, 64, device="cpu", BLOCK_SIZE=16)
    slopes = None if captured is None else torch.rand(8, dtype=captured)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        score = None if slopes is None else lambda s, b, h, i, j: s - (i - j) * slopes[h]
        return flex_attention(q, k, v, block_mask=block_mask, score_mod=score)

    given = list(operands(dtype=torch.float64))
    for ours, eager in zip(gradients(compiled(function), given), gradients(function, given), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-12, atol=1e-12)
    assert count("pycalls") == 0 and count("fallbacks") == 0


def test_sums_of_float64_have_the_type_that_torch_declares() -> None:
    q, k, v = operands(dtype=torch.float64)
    result, sums = compiled(lambda q, k, v: flex_attention(q, k, v, return_lse=True))(q, k, v)
    expected, exact = flex_attention(q, k, v, return_lse=True)
    torch.testing.assert_close(result, expected)
    assert sums.dtype is torch.float32
    torch.testing.assert_close(sums, exact.float())


def test_sizes_of_mask_blocks_may_be_symbols() -> None:
    program = compiled(flex_attention, dynamic=True)
    for block, length in ((64, 128), (32, 128), (32, 100)):
        block_mask = create_block_mask(causal, None, None, length, length, device="cpu", BLOCK_SIZE=block)
        given = operands(length=length, kv_length=length)
        expected = flex_attention(*given, block_mask=block_mask)
        torch.testing.assert_close(program(*given, block_mask=block_mask), expected, rtol=1e-4, atol=1e-5)
    assert count("pycalls") == 0 and count("fallbacks") == 0


def test_blocks_of_the_users_choice() -> None:
    block_mask = create_block_mask(causal, None, None, 64, 64, device="cpu", BLOCK_SIZE=64)
    options = {"BLOCK_M": 32, "BLOCK_N": 16}
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask, kernel_options=options), *operands())


def test_a_mask_whose_blocks_no_product_fits_is_computed_by_operators() -> None:
    block_mask = create_block_mask(causal, None, None, 64, 64, device="cpu", BLOCK_SIZE=8)
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask), *operands())


@pytest.mark.parametrize(("rows", "is_dense"), [(1, True), (15, True), (16, False), (100, False)])
def test_few_rows_take_the_dense_form(monkeypatch: pytest.MonkeyPatch, rows: int, is_dense: bool) -> None:
    calls: list[Any] = []
    inline = lower.inline_flex_attention
    monkeypatch.setattr(lower, "inline_flex_attention", lambda *given: (calls.append(given), inline(*given)))
    check(lambda q, k, v: flex_attention(q, k, v), *operands(length=rows, kv_length=77), with_gradients=False)
    assert bool(calls) == is_dense


@pytest.mark.parametrize("threads", [1, 2])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    block_mask = create_block_mask(causal, None, None, 200, 200, device="cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check(
            lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask, enable_gqa=True),
            *operands(heads=4, kv_heads=2, length=200, kv_length=200),
        )
    finally:
        torch.set_num_threads(before)
