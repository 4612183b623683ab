"""Linear interpolations and those to the next point: values, strides and gradients as in eager mode."""

import functools
import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_tile
from tests.compiling import assert_same, compiled, gradients
from torch_tile.formulas import interpolation

FORMS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("bilinear", (2, 3, 7, 9), {"scale_factor": 2}),
    ("bilinear", (2, 3, 7, 9), {"scale_factor": 1.7}),
    ("bilinear", (2, 3, 7, 9), {"scale_factor": 2.5, "recompute_scale_factor": True}),
    ("bilinear", (1, 4, 1, 5), {"size": (6, 3)}),
    ("bilinear", (2, 3, 7, 9), {"size": (7, 9)}),
    ("bilinear", (2, 3, 7, 9), {"scale_factor": (2.0, 0.5)}),
    ("bilinear", (2, 3, 5, 9), {"size": (11, 1)}),
    ("trilinear", (1, 2, 3, 4, 5), {"scale_factor": 2}),
    ("trilinear", (1, 2, 3, 4, 5), {"size": (3, 9, 4)}),
]
IDS = [f"{mode} {shape} {options}".replace("'", "") for mode, shape, options in FORMS]
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


@pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "corners"])
@pytest.mark.parametrize(("mode", "shape", "options"), FORMS, ids=IDS)
def test_equals_eager(mode: str, shape: tuple[int, ...], options: dict[str, Any], align_corners: bool) -> None:
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    for dtype, memory_format in itertools.product(DTYPES, [torch.contiguous_format, last]):

        def function(x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, mode=mode, align_corners=align_corners, **options) * 2

        torch.compiler.reset()
        x = torch.randn(shape).to(dtype).contiguous(memory_format=memory_format).requires_grad_()
        y = x.detach().clone().requires_grad_()
        result, eager, expected = compiled(function)(x), function(y), function(x.detach().double())
        assert result.stride() == eager.stride() and result.dtype is eager.dtype
        error, own = ((r.detach().double() - expected).abs().max() for r in (result, eager))
        # A few roundings at most where eager mode is right by luck, or is the reference itself.
        assert error <= 2 * own + 4 * torch.finfo(dtype).eps * expected.abs().max()
        weight = torch.randn(result.shape).to(dtype)
        result.backward(weight)
        eager.backward(weight)
        tolerance = {torch.float32: 1e-4, torch.float64: 1e-12, torch.bfloat16: 0.2}[dtype]
        torch.testing.assert_close(x.grad, y.grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
@pytest.mark.filterwarnings("ignore:.*upsample.*is deprecated")
def test_bytes_by_older_names(name: str) -> None:
    x = torch.randint(0, 255, (1, 2, 3, 3), dtype=torch.uint8)
    function = getattr(F, name)
    assert torch.equal(compiled(lambda x: function(x, size=(5, 6)))(x), function(x, size=(5, 6)))


def test_bytes_of_no_images() -> None:
    x = torch.empty(0, 3, 4, dtype=torch.uint8)
    result, expected = compiled(lambda x: F.interpolate(x, 3))(x), F.interpolate(x, 3)
    assert result.shape == expected.shape and result.dtype is expected.dtype


def test_dynamic_sizes() -> None:
    call = compiled(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), dynamic=True)
    for sizes in ((2, 3, 7, 9), (1, 3, 20, 4), (2, 5, 3, 3)):
        x = torch.randn(sizes)
        torch.testing.assert_close(call(x), F.interpolate(x, scale_factor=2, mode="bilinear"))


def test_what_shrinks_reads_all_neighbours_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that no result reads would be computed otherwise."""
    called: list[tuple[int, ...]] = []
    by_dimension = interpolation.by_dimension
    monkeypatch.setattr(
        interpolation, "by_dimension", lambda x, *args: called.append(tuple(x.shape)) or by_dimension(x, *args)
    )
    for sizes, is_enlarged in (((14, 5), True), ((7, 3), True), ((5, 18), False)):
        torch.compiler.reset()
        called.clear()
        x = torch.randn(1, 2, 7, 9)
        result = compiled(lambda x: F.interpolate(x, sizes, mode="bilinear"))(x)  # noqa: B023
        torch.testing.assert_close(result, F.interpolate(x, sizes, mode="bilinear"))
        assert bool(called) == is_enlarged


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{"scale_factor": 2}, {"scale_factor": 2.5}, {"scale_factor": 0.5},
                                     {"scale_factor": 1.0}, {"size": (4, 16)}, {"size": (8, 8)}, {"size": (3, 16)},
                                     {"scale_factor": (1.0, 0.7)}, {"scale_factor": (1.3, 1.0)}], ids=str)  # fmt: skip
@pytest.mark.parametrize("align_corners", [False, True], ids=["edges", "corners"])
def test_what_is_not_finite_and_what_overflows(
    options: dict[str, Any], align_corners: bool, dtype: torch.dtype
) -> None:
    """Weighted sums, where a difference of neighbours would be infinite or NaN."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, mode="bilinear", align_corners=align_corners, **options)

    most = torch.finfo(dtype).max
    for values in ([torch.inf], [torch.nan], [-torch.inf, torch.inf], [most, -most, most]):
        x = torch.zeros(1, 1, 4, 8, dtype=dtype)
        x[0, 0, 2, 3 : 3 + len(values)] = torch.tensor(values, dtype=dtype)
        torch.compiler.reset()
        rounding = 4 * torch.finfo(dtype).eps * most if most in values else 0.0
        assert_same(compiled(function)(x), function(x), rtol=0.0, atol=rounding)
    if isinstance(options.get("scale_factor"), float):
        row = x[0]

        def of_rows(x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, mode="linear", align_corners=align_corners, **options)

        assert_same(compiled(of_rows)(row), of_rows(row))


@pytest.mark.parametrize("mode", ["linear", "nearest", "nearest-exact"])
@pytest.mark.parametrize("length", [(1 << 23) + 2, (1 << 24) + 3])
def test_long_rows(length: int, mode: str) -> None:
    """Positions of float32 round to the next whole number, which may lie behind the last point."""
    x = torch.arange(length, dtype=torch.float32)[None, None]
    result = compiled(lambda x: F.interpolate(x, scale_factor=2.0, mode=mode))(x)
    assert_same(result, F.interpolate(x, scale_factor=2.0, mode=mode))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_no_points_are_refused(mode: str, dynamic: bool) -> None:
    """As in eager mode; tracing gives an empty tensor."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=0.25, mode=mode)

    with pytest.raises(RuntimeError, match="should be greater than 0"):
        torch.compile(function, backend="tile", dynamic=dynamic)(torch.randn(1, 1, 4, 3))

    def no_channels(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(2, 3), mode=mode)

    with pytest.raises(RuntimeError, match="Non-empty 4D data tensor expected"):
        torch.compile(no_channels, backend="tile", dynamic=dynamic)(torch.randn(1, 0, 4, 3))


def test_rows_whose_batch_lies_innermost() -> None:
    x = torch.randn(17, 31, 3).permute(2, 0, 1)
    for mode in ("nearest", "nearest-exact", "linear"):
        for size in (15, 62):
            torch.compiler.reset()
            function = functools.partial(F.interpolate, size=size, mode=mode)
            assert_same(compiled(lambda x: function(x))(x), function(x), rtol=1e-5, atol=1e-5)  # noqa: B023


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_gradients_where_a_factor_of_one_keeps_a_size(mode: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=(1.5, 1.0), mode=mode)

    call = compiled(function, dynamic=True)
    for sizes in ((3, 3, 16, 5), (2, 3, 7, 9)):
        x = torch.randn(sizes)
        assert_same(call(x), function(x), rtol=1e-5, atol=1e-5)
        assert_same(gradients(call, [x]), gradients(function, [x]), rtol=1e-5, atol=1e-5)


REPEATED = [
    {"scale_factor": 2},
    {"scale_factor": 3},
    {"scale_factor": 7.0, "recompute_scale_factor": True},
    {"size": 12},
]


@pytest.mark.parametrize("options", [*REPEATED, {"scale_factor": 2.5}, {"scale_factor": 0.5}], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_to_the_next_point(dims: int, mode: str, options: dict[str, Any]) -> None:
    """Points that are repeated are no numbers in memory: nothing is gathered."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, mode=mode, **options)

    channels_last = {2: torch.channels_last, 3: torch.channels_last_3d}.get(dims)
    for memory_format in filter(None, (torch.contiguous_format, channels_last)):
        x = torch.randn(2, 3, *(4, 3, 6)[:dims]).contiguous(memory_format=memory_format)
        assert_same(compiled(function)(x), function(x), exact=True)
        expected = gradients(function, [x])
        assert_same(gradients(compiled(function), [x]), expected, rtol=1e-5, atol=1e-5, check_stride=False)
    if options in REPEATED:
        (graph,) = torch_tile.explain(compiled(function), x).graphs
        assert [kernel.name for kernel in graph.kernels] == ["fused_clone"]


def test_a_copy_of_all_points_is_new_memory() -> None:
    x = torch.randn(1, 2, 3, 3)
    result = compiled(lambda x: F.interpolate(x, scale_factor=1))(x)
    assert_same(result, x, exact=True)
    assert result.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("shape", [(2, 2, 3), (2, 2, 3, 8), (2, 2, 3, 4, 5)])
def test_averages_of_no_points(shape: tuple[int, ...]) -> None:
    """Averages over areas may have no points, unlike samples."""
    x = torch.randn(shape)

    def averaged(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, mode="area", size=[0, *shape[3:]])

    found, expected = compiled(averaged)(x), averaged(x)
    assert found.shape == expected.shape and found.stride() == expected.stride()
