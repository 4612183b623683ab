"""`max_autotune` and attention written out, on a CUDA device."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled, fresh
from torch_tile.debug.record import recording
from torch_tile.frontend.products import fuse, tune

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
MODE = "max-autotune-no-cudagraphs"


def gelu_linear(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(F.linear(x, w, b))


def relu_linear(x: Any, w: Any, b: Any) -> Any:
    return F.relu(F.linear(x[None], w, b)) + 1


def two_results(x: Any, w: Any, b: Any) -> Any:
    y = F.linear(x, w, b)
    return y, F.silu(y)


def gated(x: Any, w: Any, b: Any) -> Any:
    return F.silu(F.linear(x, w)) * F.linear(x, w * 0.5 + 0.1)


def batched(x: Any, w: Any, b: Any) -> Any:
    return torch.sigmoid(torch.bmm(torch.stack((x, x * 2)), torch.stack((w.t(), w.t())))) * b


def _check(function: Callable[..., Any], operands: list[torch.Tensor], **how: Any) -> None:
    with torch.no_grad():
        found = torch.compile(function, backend="tile", dynamic=False, **how)(*operands)
        eager, exact = function(*operands), function(*(o.double() for o in operands))
    results = [list(value) if isinstance(value, tuple) else [value] for value in (found, eager, exact)]
    for ours, theirs, right in zip(*results, strict=True):
        assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
        unit = torch.finfo(theirs.dtype).eps * right.abs().max()
        assert (ours.double() - right).abs().max() <= 2 * (theirs.double() - right).abs().max() + unit


@pytest.mark.parametrize("function", [gelu_linear, relu_linear, two_results, gated, batched])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sizes", [(1, 256, 64), (16, 2048, 256), (200, 336, 130), (512, 512, 512)])
def test_any_candidate(
    function: Callable[..., Any], dtype: torch.dtype, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(str((function.__name__, dtype, sizes)))
    candidates_for = fuse.candidates_for

    def one(*args: Any) -> list[Any]:
        found = candidates_for(*args)
        return [choose.choice(found)] if found else []

    monkeypatch.setattr(fuse, "candidates_for", one)
    monkeypatch.setattr(tune, "_WORTH", 1e9)
    monkeypatch.setenv("TORCH_TILE_STRICT", "1")
    torch.manual_seed(0)
    rows, depth, columns = sizes
    shapes = ((rows, depth), (columns, depth), (columns,))
    operands = [torch.randn(*shape, device="cuda").to(dtype) for shape in shapes]
    operands[1] *= depth**-0.5
    _check(function, operands, mode=MODE)


def test_the_fastest_is_kept() -> None:
    torch.manual_seed(0)
    x, w = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((1024, 512), (1024, 512)))
    b = torch.randn(1024, device="cuda", dtype=torch.bfloat16)
    with recording() as graphs:
        _check(gelu_linear, [x, w * 0.05, b], mode=MODE)
    assert any(note.startswith("max_autotune, addmm") for graph in graphs for note in graph.notes)


def plain(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.transpose(-2, -1) * 0.125).softmax(-1) @ v


def masked(q: Any, k: Any, v: Any) -> Any:
    mask = torch.ones(q.shape[-2], k.shape[-2], device=q.device).tril()
    scores = (q @ k.transpose(-2, -1) * 0.125).masked_fill(mask == 0, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


@pytest.mark.parametrize("function", [plain, masked])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(2, 4, 32, 16), (4, 2, 130, 64), (2, 2, 512, 128), (2, 4, 77, 40), (1, 2, 300, 256)])
def test_attention_written_out(function: Callable[..., Any], dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    fresh()
    torch.manual_seed(0)
    operands = [torch.randn(*shape, device="cuda").to(dtype) for _ in range(3)]
    with recording() as graphs, torch.no_grad():
        compiled(function)(*operands)
    assert not any("bmm" in op for graph in graphs for _, op, _ in graph.externs)
    _check(function, operands)
