"""Indices that turn along the axis of the vectors: borders that are reflected or repeated, alone and under what reads
them, at lengths around those of vectors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled, count, fresh

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.float64]
PADS: dict[int, list[tuple[int, ...]]] = {
    1: [(1, 0), (2, 3), (6, 6)],
    2: [(2, 2, 2, 2), (0, 3, 1, 0), (6, 5, 0, 0)],
    3: [(1, 1, 1, 1, 1, 1), (3, 0, 0, 2, 1, 0)],
}


def _make(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape).mul(50).to(dtype)


@pytest.mark.parametrize("length", [7, 16, 33, 130])
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", PADS)
def test_borders(rank: int, mode: str, length: int) -> None:
    """One program with every pad, in two dtypes; nothing is computed, so every bit is eager's."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return [F.pad(z, pad, mode=mode) for pad in PADS[rank] for z in (x, y)]

    shape = (*(2, 3, 8, 9)[: rank + 1], length)
    x, y = _make(torch.float32, *shape), _make(torch.bfloat16, *shape)
    assert_same(compiled(function)(x, y), function(x, y), exact=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d).removeprefix("torch."))
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_layouts(dtype: torch.dtype, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        return F.pad(x, (3, 2, 1, 4), mode="replicate"), x.flip(-1).roll(2, -1)

    other = compiled(function, dynamic=dynamic)
    for length in (41, 64):
        x = _make(dtype, 2, 4, 6, length)
        for given in (x, x.transpose(2, 3), x.contiguous(memory_format=torch.channels_last), x[..., ::2]):
            fresh()
            assert_same(other(given), function(given), exact=True, check_stride=False)


def test_clamped_positions() -> None:
    """Positions along the axis that the program itself clamps, from both sides and in steps."""

    def function(x: torch.Tensor) -> Any:
        i = torch.arange(x.shape[-1])
        last = x.shape[-1] - 1
        near = (i + 3).clamp(max=last)
        far = (2 * i - 5).clamp(0, last)
        turned = (last - i - 4).clamp(min=0)
        return x[:, near], x[:, far], x[:, turned] - x[:, near], x[:, far].sum(-1), x[:, torch.minimum(near, turned)]

    x = torch.randn(5, 75)
    fresh()
    assert_same(compiled(function)(x), function(x))
    assert count("externs") == 0


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_stencil(mode: str) -> None:
    def function(x: torch.Tensor) -> Any:
        p = F.pad(x, (1, 1, 1, 1), mode=mode)
        dx = p[..., 1:-1, 2:] - p[..., 1:-1, :-2]
        dy = p[..., 2:, 1:-1] - p[..., :-2, 1:-1]
        return (dx * dx + dy * dy + 1e-3).sqrt(), p.mean((-1, -2)), p.amax(-1)

    for width in (9, 64, 133):
        x = torch.randn(3, 10, width)
        fresh()
        assert_same(compiled(function)(x), function(x), rtol=1e-5, atol=1e-5)
