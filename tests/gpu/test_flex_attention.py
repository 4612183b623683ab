"""`flex_attention` on a CUDA device: kernels of the tile language, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.backend.flex_programs import SCORES, causal, check, holes, operands

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def _operands(**kind: Any) -> list[torch.Tensor]:
    return operands(**{"width": 64, "length": 256, "kv_length": 256, "dtype": torch.bfloat16, "device": "cuda", **kind})


@pytest.mark.parametrize("mask", [None, causal, holes])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("width", [64, 128])
def test_masks(mask: Any, dtype: torch.dtype, width: int) -> None:
    block_mask = create_block_mask(mask, 2, None, 256, 256, device="cuda") if mask else None
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask), *_operands(dtype=dtype, width=width))


@pytest.mark.parametrize(("length", "kv_length"), [(1, 300), (300, 1), (255, 447), (129, 129)])
def test_lengths_that_no_block_divides(length: int, kv_length: int) -> None:
    block_mask = create_block_mask(holes, 2, None, length, kv_length, device="cuda")

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=block_mask, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1)

    check(function, *_operands(length=length, kv_length=kv_length))


@pytest.mark.parametrize("width", [16, 40, 96, 256])
def test_widths(width: int) -> None:
    check(lambda q, k, v: flex_attention(q, k, v), *_operands(width=width))


def test_grouped_heads_share_gradients() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, enable_gqa=True, scale=0.3, score_mod=lambda s, b, h, i, j: s + h * 0.25)

    check(function, *_operands(heads=6, kv_heads=2))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_score_functions(name: str, dtype: torch.dtype) -> None:
    check(lambda q, k, v: flex_attention(q, k, v, score_mod=SCORES[name]), *_operands(dtype=dtype))


def test_captured_tensors() -> None:
    bias, offsets = torch.randn(2, 256, device="cuda"), torch.tensor([3, 11], device="cuda")
    documents = torch.arange(256, device="cuda").repeat(2, 1) // 90

    def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
        return documents[b, i] == documents[b][j]

    block_mask = create_block_mask(mask, 2, None, 256, 256, device="cuda")

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return s + bias[h, -1 - i] * 0.5 + offsets[b] * 0.125

        return flex_attention(q, k, v, score_mod=score, block_mask=block_mask)

    check(function, *_operands())


def test_a_cuda_graph_holds_it() -> None:
    block_mask = create_block_mask(causal, None, None, 256, 256, device="cuda")

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=block_mask) * 2

    given = _operands()
    program = torch.compile(function, backend="tile", options={"cudagraphs": True})
    for _ in range(3):
        torch.testing.assert_close(program(*given), function(*given), rtol=2e-2, atol=2e-2)


def test_dynamic_lengths() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -1e9))

    program = torch.compile(function, backend="tile", dynamic=True)
    for batch, length in ((2, 256), (3, 133), (2, 129)):
        given = _operands(batch=batch, length=length, kv_length=length)
        torch.testing.assert_close(program(*given), function(*given), rtol=2e-2, atol=2e-2)
