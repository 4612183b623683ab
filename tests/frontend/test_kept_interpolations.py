"""Interpolations by a factor that keeps a size, of bytes, and of sizes that depend on data: as in eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import BACKEND, assert_same, compiled, tile_only

COPIED = [(1, "linear"), (2, "bilinear"), (2, "nearest"), (3, "trilinear"), (3, "nearest")]
SAMPLED = [(1, "nearest"), (2, "nearest-exact"), (2, "bicubic")]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("dims", "mode"), COPIED)
def test_interpolation_by_a_factor_that_keeps_a_size(dims: int, mode: str, dynamic: bool) -> None:
    """3 becomes 3 by 1.3, and 5 becomes 6: eager mode copies the one and samples the other."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=(1.3, 1.3, 2.0)[:dims], mode=mode)

    compiled_function = torch.compile(function, backend=BACKEND, dynamic=dynamic)
    for sizes in ((5, 3, 4), (4, 7, 2), (3, 3, 3)):
        x = torch.randn(2, 3, *sizes[:dims], requires_grad=True)
        y, expected = compiled_function(x), function(x)
        weights = torch.randn_like(y)
        assert_same(y, expected, rtol=1e-5, atol=1e-5)
        gradients = [torch.autograd.grad(z, x, weights) for z in (y, expected)]
        assert_same(*gradients, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dims", "mode"), SAMPLED)
def test_interpolation_that_samples_a_kept_size(dims: int, mode: str) -> None:
    """Values alone: the gradients of eager mode copy, where the functions sample."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=1.3, mode=mode)

    x = torch.randn(2, 3, *(3, 5)[:dims])
    assert_same(compiled(function)(x), function(x), rtol=1e-5, atol=1e-5)


def test_interpolation_without_a_mode_that_keeps_a_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=1.3)

    x = torch.randn(2, 3, 3, 5)
    assert_same(torch.compile(function, backend=BACKEND)(x), function(x))


@tile_only
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("dims", "mode"), COPIED)
def test_interpolation_without_gradients_is_one_call(dims: int, mode: str, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x + 1, scale_factor=(1.3, 1.3, 2.0)[:dims], mode=mode) * 2

    compiled_function = compiled(function, dynamic=dynamic)
    for sizes in ((5, 3, 4), (4, 7, 2), (3, 3, 3)):
        x = torch.randn(2, 3, *sizes[:dims])
        assert_same(compiled_function(x), function(x), rtol=1e-5, atol=1e-5)


@tile_only
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", [{"size": (9, 11)}, {"scale_factor": 1.7}, {"scale_factor": (0.5, 2.0)},
                                     {"scale_factor": 1.7, "align_corners": True},
                                     {"scale_factor": 1.7, "recompute_scale_factor": True}])  # fmt: skip
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolation_of_bytes(mode: str, options: dict[str, Any], dynamic: bool) -> None:
    """ATen's has weights in fixed point. Another rounding differs by one in many places."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, mode=mode, **options)

    compiled_function = compiled(function, dynamic=dynamic)
    for sizes in ((7, 13), (12, 5)):
        x = torch.randint(0, 256, (2, 3, *sizes), dtype=torch.uint8)
        assert torch.equal(compiled_function(x), function(x))


def test_interpolation_of_bytes_that_keeps_a_size() -> None:
    for mode in ("bilinear", "bicubic"):
        x = torch.randint(0, 256, (1, 3, 3, 6), dtype=torch.uint8)
        result = torch.compile(F.interpolate, backend=BACKEND)(x, scale_factor=1.2, mode=mode)
        assert_same(result, F.interpolate(x, scale_factor=1.2, mode=mode))


@pytest.mark.parametrize("options", [{"scale_factor": (1.5, 2.0)}, {"scale_factor": 1.3, "align_corners": True},
                                     {"scale_factor": 1.3, "recompute_scale_factor": True}])  # fmt: skip
def test_other_interpolations_are_compiled(options: dict[str, Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, mode="bilinear", **options)

    x = torch.randn(1, 2, 3, 5)
    assert_same(compiled(function)(x), function(x), rtol=1e-5, atol=1e-5)


def test_interpolation_of_a_size_that_depends_on_data() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x[x > 0][None, None], scale_factor=1.3, mode="linear") * 2

    compiled_function = torch.compile(function, backend=BACKEND)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for x in (torch.arange(-2.0, 4.0), torch.arange(-2.0, 9.0)):
            assert_same(compiled_function(x), function(x), rtol=1e-5, atol=1e-5)
