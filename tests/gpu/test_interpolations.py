"""Interpolations on a CUDA device: which dimensions ATen copies there, infinities and NaN, bytes, strides."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SIZES: list[dict[str, Any]] = [
    *({"scale_factor": factor} for factor in (2, 1.3, 1.9, 0.5, 1.0)),
    {"scale_factor": 1.7, "recompute_scale_factor": True},
    {"size": "same"},
    {"size": "other"},
]
MODES = {3: ("nearest", "nearest-exact", "linear"), 4: ("nearest", "nearest-exact", "bilinear")}
MODES[5] = ("nearest", "nearest-exact", "trilinear")
SHAPES = [(2, 3, 5), (2, 3, 2), (2, 3, 2, 5), (2, 3, 7, 3), (1, 2, 3, 2, 4)]
LAST = {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}


def images(shape: tuple[int, ...], dtype: torch.dtype, special: bool) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.randint(0, 255, shape, dtype=dtype, device="cuda")
    x = torch.randn(shape, device="cuda") * 50
    if special:
        for value, share in ((float("inf"), 0.2), (-3e38, 0.2), (float("nan"), 0.1)):
            x[torch.rand(shape, device="cuda") < share] = value
    return x.to(dtype)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_eager(shape: tuple[int, ...], sizes: dict[str, Any]) -> None:
    options = dict(sizes)
    if "size" in options:
        more = options["size"] == "other"
        options["size"] = [n + (2 - k % 2) * more for k, n in enumerate(shape[2:])]
    for mode, memory_format in itertools.product(MODES[len(shape)], {torch.contiguous_format, LAST[len(shape)]}):
        is_exact = mode.startswith("nearest")
        kinds = [(torch.float32, False), (torch.float32, True), (torch.bfloat16, False)]
        for dtype, special in [*kinds, *([(torch.uint8, False)] if is_exact else [])]:
            torch.compiler.reset()
            x = images(shape, dtype, special).contiguous(memory_format=memory_format)

            def function(x: torch.Tensor, mode: str = mode) -> torch.Tensor:
                return F.interpolate(x, mode=mode, **options)

            expected = function(x)
            result = torch.compile(function, backend="tile", fullgraph=True, options={"strict": True})(x)
            assert result.stride() == expected.stride(), (mode, memory_format)
            # Both compute in float32 and round once.
            rtol, atol = (0.0, 0.0) if is_exact else (1e-5, 1e-4) if dtype is torch.float32 else (1e-2, 1e-2)
            torch.testing.assert_close(result, expected, equal_nan=True, rtol=rtol, atol=atol)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_gradients(mode: str) -> None:
    for factor in (2, 1.3, 0.7):
        torch.compiler.reset()
        x = torch.randn(2, 3, 6, 7, device="cuda", requires_grad=True)

        def function(x: torch.Tensor, factor: float = factor) -> torch.Tensor:
            return F.interpolate(x, scale_factor=factor, mode=mode).sin()

        (expected,) = torch.autograd.grad(function(x).sum(), x)
        (result,) = torch.autograd.grad(torch.compile(function, backend="tile")(x).sum(), x)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_wide_maxima_and_their_places() -> None:
    """They go along one dimension after the other."""
    x = torch.randint(-3, 4, (2, 3, 29, 31), device="cuda").float()
    x[torch.rand(x.shape, device="cuda") < 0.1] = float("nan")
    x[torch.rand(x.shape, device="cuda") < 0.3] = float("-inf")
    for memory_format, (length, step, padding) in itertools.product(
        (torch.contiguous_format, torch.channels_last), ((9, 1, 4), (7, 6, 3), (13, 2, 0), (3, 2, 1))
    ):
        torch.compiler.reset()
        y = x.contiguous(memory_format=memory_format)

        def pool(x: torch.Tensor, window: tuple[int, int, int] = (length, step, padding)) -> Any:
            return F.max_pool2d(x, *window, return_indices=True)

        for result, expected in zip(torch.compile(pool, backend="tile")(y), pool(y), strict=True):
            torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
