"""`flex_attention` on the CPU: score and mask functions, block masks, grouped heads, captured tensors, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.compiling import IS_TILE, assert_same, compiled, count, gradients

close = {"rtol": 1e-4, "atol": 1e-5, "check_stride": False}


def _operands(heads: int = 2, kv_heads: int = 2, length: int = 32, kv_length: int = 32) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, h, n, 8) for h, n in ((heads, length), (kv_heads, kv_length), (kv_heads, kv_length))]


def _causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def _check(function: Callable[..., Any], *arguments: Any) -> None:
    assert_same(compiled(function)(*arguments), function(*arguments), **close)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


def test_score_function_with_what_it_captures() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        def score(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return torch.tanh(score / 3) * 3 + bias[h] * (j - i)

        return flex_attention(q, k, v, score_mod=score)

    _check(function, *_operands(), torch.randn(2))


def test_causal_block_mask() -> None:
    mask = create_block_mask(_causal, None, None, 32, 32, device="cpu", BLOCK_SIZE=16)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, block_mask=mask)

    q, k, v = _operands()
    assert_same(compiled(function)(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True), **close)
    _check(function, q, k, v)


def test_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.13 refuses gradients on the CPU before any backend sees the graph; both operators of it work."""
    import torch.nn.attention.flex_attention as public

    monkeypatch.setattr(public, "_validate_device", lambda *_: None)
    mask = create_block_mask(_causal, None, None, 32, 32, device="cpu", BLOCK_SIZE=16)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        def score(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return torch.tanh(score / 3) * 3 + bias[h, i] * 2

        return flex_attention(q, k, v, score_mod=score, block_mask=mask, enable_gqa=True)

    arguments = [*_operands(heads=4, kv_heads=2), torch.randn(4, 32)]
    expected = gradients(function, arguments)
    assert_same(gradients(compiled(function), arguments), expected, rtol=1e-4, atol=1e-5, check_stride=False)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


def test_rows_that_see_nothing_and_their_sums() -> None:
    mask = create_block_mask(
        lambda b, h, i, j: (i >= j) & (i % 5 != 2), None, None, 32, 32, device="cpu", BLOCK_SIZE=16
    )

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=mask, return_lse=True)

    _check(function, *_operands())


def test_grouped_heads_and_decoding() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        score = lambda score, b, h, i, j: score + h * 0.25 - j * 0.125  # noqa: E731
        return flex_attention(q, k, v, score_mod=score, enable_gqa=True, scale=0.5)

    _check(function, *_operands(heads=4, kv_heads=2))
    _check(function, *_operands(heads=4, kv_heads=2, length=1, kv_length=19))


def test_dynamic_lengths() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -1e9))

    program = compiled(function, dynamic=True)
    for length in (16, 24, 33):
        operands = _operands(length=length, kv_length=length)
        assert_same(program(*operands), function(*operands), **close)
    if IS_TILE:
        assert count("pycalls") == 0 and count("fallbacks") == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types(dtype: torch.dtype) -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs())

    operands = [tensor.to(dtype) for tensor in _operands()]
    exact = function(*[tensor.double() for tensor in operands])
    result, eager = compiled(function)(*operands), function(*operands)
    error = (result.double() - exact).abs().max().item()
    assert error <= 2 * (eager.double() - exact).abs().max().item() + 1e-12
