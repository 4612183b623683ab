"""Attention is kept whole on CUDA alone; what a mask becomes there."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.compiling import assert_same
from torch_tile.frontend import attention


def test_graphs_on_the_cpu_stay_as_they_are() -> None:
    kept: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        kept.append(attention.keep_attention(gm))
        return gm.forward

    q, mask = torch.randn(1, 2, 8, 16), torch.ones(8, 8, dtype=torch.bool)
    function = torch.compile(lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), backend=backend)
    assert_same(function(q, mask), F.scaled_dot_product_attention(q, q, q, attn_mask=mask))
    assert kept == [0]


def test_mask_as_a_bias() -> None:
    q, mask = torch.randn(2, 3, 7, 16), torch.rand(7, 7) > 0.4
    bias = attention._bias_of(mask, q)
    assert bias.shape == (1, 1, 7, 7) and bias.dtype is q.dtype
    scores = q @ q.transpose(-1, -2) / 4 + bias
    expected = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    rows = mask.any(-1)  # others have nothing to attend to
    assert_same((scores.softmax(-1) @ q)[:, :, rows], expected[:, :, rows], 1e-5, 1e-5)
