"""Attention is kept whole on CUDA alone; what a mask becomes there, and what masks say nothing new."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled, count, fresh, tile_only
from torch_tile.frontend import attention


def test_graphs_on_the_cpu_stay_as_they_are() -> None:
    kept: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        kept.append(attention.keep_attention(gm))
        return gm.forward

    q, mask = torch.randn(1, 2, 8, 16), torch.ones(8, 8, dtype=torch.bool)
    function = torch.compile(lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), backend=backend)
    assert_same(function(q, mask), F.scaled_dot_product_attention(q, q, q, attn_mask=mask))
    assert kept == [None]


def test_mask_as_a_bias() -> None:
    q, mask = torch.randn(2, 3, 7, 16), torch.rand(7, 7) > 0.4
    bias = attention._bias_of(mask, q)
    assert bias.shape == (1, 1, 7, 7) and bias.dtype is q.dtype
    scores = q @ q.transpose(-1, -2) / 4 + bias
    expected = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    rows = mask.any(-1)  # others have nothing to attend to
    assert_same((scores.softmax(-1) @ q)[:, :, rows], expected[:, :, rows], 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=["bool", "f32"])
def test_bias_of_a_spread_mask(dtype: torch.dtype) -> None:
    q = torch.randn(2, 3, 7, 16)
    mask = (torch.rand(1, 1, 7, 1) > 0.4).to(dtype).expand(2, 1, 7, 7)
    bias = attention._bias_of(mask, q)
    assert bias.shape == (2, 1, 7, 7) and bias.stride(-1) == 1 and bias.stride(0) == 0
    assert_same(bias.exp(), mask.to(torch.float32) if dtype is torch.bool else mask.exp())


# Masks that the graph makes


def of_nothing(n: int) -> torch.Tensor:
    return (torch.arange(n)[None, None, :, None] >= 0).expand(2, 1, n, n)


def of_zeros(n: int) -> torch.Tensor:
    return torch.zeros(n, n)


def causal(n: int) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def causal_by_positions(n: int) -> torch.Tensor:
    return (torch.arange(n)[:, None] >= torch.arange(n)).unsqueeze(0).expand(2, -1, -1).unsqueeze(1)


def causal_infinities(n: int) -> torch.Tensor:
    return torch.full((n, n), float("-inf")).triu(1)


def a_window(n: int) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril() & torch.ones(n, n, dtype=torch.bool).triu(-2)


def large_negative(n: int) -> torch.Tensor:
    return torch.full((n, n), -1e4).triu(1)


def written(n: int) -> torch.Tensor:
    mask = torch.ones(n, n, dtype=torch.bool)
    mask[:, 3] = False
    return mask


def view_written(n: int) -> torch.Tensor:
    mask = torch.ones(1, n, n, dtype=torch.bool)
    mask.squeeze(0).tril_()
    return mask


MASKS = [
    (of_nothing, "nothing"), (of_zeros, "nothing"), (causal, "causal"), (causal_by_positions, "causal"),
    (causal_infinities, "causal"), (a_window, None), (large_negative, None),
    (written, None), (view_written, None),
]  # fmt: skip


@pytest.mark.parametrize("make, meaning", MASKS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_masks_made_in_the_graph(make: Any, meaning: str | None) -> None:
    seen: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        assert (attention.keep_attention(gm) is None) == (meaning is None)
        node = next(n for n in gm.graph.nodes if n.target in attention._TARGETS)
        seen.append((node.kwargs.get("attn_mask") is None, node.kwargs.get("is_causal", False)))
        return gm.forward

    q = torch.randn(2, 3, 9, 16)

    def function(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=make(q.shape[-2]))

    assert_same(torch.compile(function, backend=backend)(q), function(q), 1e-5, 1e-5)
    assert seen == [(meaning is not None, meaning == "causal")]


def test_masks_of_inputs_and_sizes_stay() -> None:
    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        assert attention.keep_attention(gm) is None
        return gm.forward

    q = torch.randn(2, 3, 9, 16)

    def of_an_input(q: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(9)[None, :] < lengths[:, None]
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask[:, None, None, :])

    lengths = torch.tensor([4, 9])
    assert_same(torch.compile(of_an_input, backend=backend)(q, lengths), of_an_input(q, lengths))

    def of_a_size(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=causal(q.shape[-2]))

    assert_same(torch.compile(of_a_size, backend=backend, dynamic=True)(q), of_a_size(q))


# A form that cannot be traced gives way to torch's own choice


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1


def whole(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> torch.Tensor:
    return torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~torch.ones(9, 9).tril().bool(), -1e30), -1) @ v


def broken(*_: Any, **__: Any) -> torch.Tensor:
    raise RuntimeError("this form cannot be traced")


@tile_only
@pytest.mark.parametrize("form", [whole, broken], ids=["whole", "broken"])
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_forms(
    form: Any, needs_gradient: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attention, "_choose", lambda given: form)
    fresh()
    tensors = [torch.randn(2, 3, 9, 8, requires_grad=needs_gradient) for _ in range(3)]
    with caplog.at_level(logging.WARNING, logger="torch_tile.frontend.aot"):
        result = compiled(attend, cache=False)(*tensors)
    assert_same(result, attend(*tensors), rtol=1e-5, atol=1e-5)
    if needs_gradient:
        gradients = torch.autograd.grad(result.sum(), tensors)
        assert_same(gradients, torch.autograd.grad(attend(*tensors).sum(), tensors), rtol=1e-5, atol=1e-5)
    assert ("cannot be traced" in caplog.text) == (form is broken)
    assert count("fallbacks") == 0


def test_views_of_a_mask_are_looked_at_once() -> None:
    """Each is a view of the two before it, in more ways than could ever be walked."""
    from torch_tile.frontend.attention_masks import _may_be_written

    graph = torch.fx.Graph()
    first = mask = graph.call_function(torch.ones, (8, 8))
    before = mask
    for _ in range(60):
        before, mask = mask, graph.call_method("expand_as", (before, mask))
    assert not _may_be_written(first)
    graph.call_method("add_", (mask, 1))
    assert _may_be_written(first)
