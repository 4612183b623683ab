"""Planned peak memory: as counted by the allocator, and at or below eager's for models."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_tile
from tests.compiling import IS_TILE
from tests.models import zoo

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)

MB = 1 << 20


def test_what_a_program_holds_at_most() -> None:
    """sin and cos of 1 MB are one kernel that writes both; the product needs a third; views and inputs need nothing."""
    x = torch.randn(512, 512)

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() @ x.cos()).t()[1:]

    explanation = torch_tile.explain(f, x)
    assert explanation.peak_bytes == 3 * MB
    assert explanation.eager_peak_bytes == 3 * MB
    # Pointwise work between needs memory in eager mode alone.
    explanation = torch_tile.explain(lambda x: torch.tanh(F.gelu(x * 2) + 1), x)
    assert explanation.peak_bytes == MB
    assert explanation.eager_peak_bytes == 2 * MB
    # With sizes that may change it is that of the sizes at hand.
    assert torch_tile.explain(lambda x: torch.tanh(F.gelu(x * 2) + 1), x, dynamic=True).peak_bytes == MB
    # What is saved for the backward is held from the forward on.
    x.requires_grad_()
    explanation = torch_tile.explain(lambda x: (x.exp() @ x.detach()).sum(), x)
    assert explanation.peak_bytes <= explanation.eager_peak_bytes


def test_as_much_as_the_allocator_counts() -> None:
    """The plan against bytes that were mapped for buffers, which the pool counts."""
    from torch_tile import _C

    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1)
        return (y @ x).relu().sum(0)

    x = torch.randn(1024, 1024)
    planned = torch_tile.explain(f, x).peak_bytes
    function = torch.compile(f, backend="tile")
    function(x)
    _C.empty_cache()
    before = _C.buffer_statistics()["used_bytes"]
    function(x)
    assert _C.buffer_statistics()["peak_bytes"] - before >= 0.9 * planned
    assert planned == 8 * MB


# Programs that hold more than eager mode: open failures, and how many times as much they may hold. In llama, a kernel
# reads three tensors of the graph where eager mode has reduced them to one. In vit and convnet, partial sums stand
# beside what a kernel reads and writes. In vit, too, launches that share a parallel region keep what they read until
# its end: whether an input is the caller's is not known there.
OPEN = {
    ("llama", "training"): 1.006,
    ("vit", "training"): 1.05,
    ("convnet", "training"): 1.004,
}


@pytest.mark.model
@pytest.mark.parametrize("what", ["inference", "training"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit", "convnet"])
def test_of_models_is_at_most_eagers(name: str, what: str) -> None:
    pytest.importorskip("transformers")
    entry = zoo.BY_NAME[name]
    model, inputs = entry.build(layers=2), entry.inputs(batch=2, length=64 if name == "vit" else 32)
    with torch.set_grad_enabled(what == "training"):
        explanation = torch_tile.explain(lambda **given: model(**given).loss, **inputs)
    assert explanation.eager_peak_bytes is not None and explanation.peak_bytes > 0
    most = OPEN.get((name, what), 1)
    assert explanation.peak_bytes <= most * explanation.eager_peak_bytes
    if explanation.peak_bytes > explanation.eager_peak_bytes:
        pytest.xfail(f"{explanation.peak_bytes / explanation.eager_peak_bytes:.3f} times eager's")
