"""Whole models: inference, gradients and training against eager, dynamic sizes, decode steps, counts of kernels."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._dynamo.utils import counters

from tests.models import zoo
from torch_tile.counters import counters as tile_counters

pytestmark = pytest.mark.model

BACKEND = "tile"
SMALL = {"batch": 2, "length": 32}

every_model = pytest.mark.parametrize("entry", zoo.ENTRIES, ids=lambda entry: entry.name)


def sizes(entry: zoo.Entry) -> dict[str, int]:
    """Small batches; a ViT takes images of one size only."""
    return SMALL if entry.has_sequence else {"batch": 2}


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    return ((result.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)).item()


def gradients(model: torch.nn.Module, step, batch: zoo.Batch) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    step(**batch).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_inference(entry: zoo.Entry, dtype: torch.dtype) -> None:
    model, inputs = zoo.cast(entry.build().eval(), entry.inference_inputs(**sizes(entry)), dtype)
    with torch.no_grad():
        expected = model(**inputs).logits
        result = torch.compile(model, backend=BACKEND)(**inputs).logits
    assert result.dtype == expected.dtype
    assert result.stride() == expected.stride()
    # bf16 keeps 8 bits; eager rounds after every operation, fused kernels only where a value leaves the kernel.
    assert relative_error(result, expected) < (1e-5 if dtype is torch.float32 else 2e-2)


@every_model
def test_gradients_are_those_of_float64(entry: zoo.Entry) -> None:
    model = entry.build(layers=2).train()
    batch = entry.inputs(**sizes(entry))
    reference, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    exact = gradients(reference, reference, zoo.cast(reference, batch, torch.float64)[1])
    rounded = gradients(eager, eager, batch)
    result = gradients(model, torch.compile(model, backend=BACKEND), batch)
    assert result.keys() == exact.keys()
    for name, expected in exact.items():
        # A gradient that is zero in exact arithmetic is only noise in both (the bias of keys in attention).
        if expected.norm() < 1e-9 * max(g.norm() for g in exact.values()):
            continue
        limit = max(1e-4, 2 * relative_error(rounded[name], expected))
        assert relative_error(result[name], expected) < limit, name


@every_model
def test_training_follows_eager(entry: zoo.Entry) -> None:
    model = entry.build(layers=2).train()
    eager = copy.deepcopy(model)
    batches = [entry.inputs(seed=i, **sizes(entry)) for i in range(4)]
    expected = zoo.train(eager, eager, batches).losses
    result = zoo.train(model, torch.compile(model, backend=BACKEND), batches).losses
    # AdamW divides by the gradient's own size, so rounding in near-zero gradients shows in the later losses.
    assert result == pytest.approx(expected, rel=1e-3)
    assert result[0] == pytest.approx(expected[0], rel=1e-5)


@every_model
def test_one_graph_and_no_break(entry: zoo.Entry) -> None:
    model = entry.build(layers=2).train()
    model_step = torch.compile(model, backend=BACKEND)
    for seed in range(2):
        model_step(**entry.inputs(seed, **sizes(entry))).loss.backward()
    assert dict(counters["graph_break"]) == {}
    assert counters["stats"]["unique_graphs"] == 1
    assert tile_counters["kernels"] > 0
    assert tile_counters["fallbacks"] == 0


def test_equal_layers_share_their_kernels() -> None:
    """Twice the layers: no further kernel."""
    entry = zoo.BY_NAME["llama"]
    compiled = []
    for layers in (2, 4):
        torch.compiler.reset()
        tile_counters.clear()
        model = entry.build(layers=layers).eval()
        with torch.no_grad():
            torch.compile(model, backend=BACKEND)(**entry.inference_inputs(**SMALL))
        compiled.append(tile_counters["kernels"])
    assert compiled[0] == compiled[1] > 0


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_dynamic_batch_and_length(name: str) -> None:
    entry = zoo.BY_NAME[name]
    model = entry.build(layers=2).eval()
    function = torch.compile(model, backend=BACKEND, dynamic=True)
    with torch.no_grad():
        for batch, length in [(4, 32), (2, 24), (3, 41)]:
            inputs = entry.inference_inputs(batch=batch, length=length)
            assert relative_error(function(**inputs).logits, model(**inputs).logits) < 1e-5
    assert counters["stats"]["unique_graphs"] == 1


def test_decode_steps_with_static_cache() -> None:
    """The graph writes one token into the cache, in place, each time."""
    model, inputs, filled_cache = zoo.decode_state()
    function = torch.compile(model, backend=BACKEND)
    cache, expected_cache = filled_cache(), filled_cache()
    with torch.no_grad():
        for _ in range(3):
            expected = model(**inputs, past_key_values=expected_cache, use_cache=True).logits
            result = function(**inputs, past_key_values=cache, use_cache=True).logits
            assert relative_error(result, expected) < 1e-5
    for tensor, expected in zip(zoo.cache_tensors(cache), zoo.cache_tensors(expected_cache), strict=True):
        torch.testing.assert_close(tensor, expected)
