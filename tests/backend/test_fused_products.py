"""`max_autotune`: products with what surrounds them as kernels of the tile language."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_tile
from tests.compiling import IS_TILE, fresh
from torch_tile.debug.record import recording
from torch_tile.frontend import epilogues
from torch_tile.frontend.products import fuse, tune
from torch_tile.frontend.products.blocks import Blocks

pytestmark = pytest.mark.skipif(not IS_TILE, reason="kernels of this backend")
MODE = "max-autotune-no-cudagraphs"


def gelu_linear(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(F.linear(x, w, b))


def gelu_tanh_linear(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(F.linear(x[None], w, b), approximate="tanh") * 0.5


def two_results(x: Any, w: Any, b: Any) -> Any:
    y = F.linear(x, w, b)
    return y, F.silu(y), (y > 0.5)


def gated(x: Any, w: Any, b: Any) -> Any:
    return F.silu(F.linear(x, w)) * F.linear(x, w.flip(0).contiguous(), b)


def residual(x: Any, w: Any, b: Any) -> Any:
    y = torch.addmm(b, x, w.t(), beta=0.5, alpha=2)
    return (y + x[:, :1] * 2 + b.exp()).clamp(-3, 3).view(1, *y.shape)


def of_few_bits(x: Any, w: Any, b: Any) -> Any:
    return F.linear(x, (w * 10).to(torch.int8).detach().to(x.dtype) * 0.1) + b


def transposed(x: Any, w: Any, b: Any) -> Any:
    return torch.relu(x.t().contiguous().t() @ w.t().contiguous()) - b


def batched(x: Any, w: Any, b: Any) -> Any:
    left, right = torch.stack((x, -x, 2 * x)), torch.stack((w.t(), w.t() + 1, w.t()))
    return torch.sigmoid(torch.baddbmm(b, left, right)) * b


def column_of_ones(x: Any, w: Any, b: Any) -> Any:
    return torch.tanh(x @ w[:1].t()) + 1


FUNCTIONS = [
    gelu_linear, gelu_tanh_linear, two_results, gated, residual, of_few_bits, transposed, batched, column_of_ones,
]  # fmt: skip


def _choosing(monkeypatch: pytest.MonkeyPatch, number: int, most: int = 1) -> list[int]:
    """Has the candidate of this number (0: the library) win, if there are so many; gives how many there were."""
    candidates_for = fuse.candidates_for

    def blocks_of_kernels(*args: Any) -> list[Any]:
        return [each for each in candidates_for(*args) if isinstance(each, Blocks)][:most]

    monkeypatch.setattr(fuse, "candidates_for", blocks_of_kernels)
    counts: list[int] = []

    def measured(programs: list[Any], values: Any) -> list[float]:
        assert programs[0] is not None
        counts.append(len(programs))
        return [
            1.0 if k == number else 2.0 if program is not None else float("inf") for k, program in enumerate(programs)
        ]

    monkeypatch.setattr(tune, "measured", measured)
    return counts


@pytest.fixture(autouse=True)
def no_choices_on_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCH_TILE_CACHE", "0")
    monkeypatch.setenv("TORCH_TILE_STRICT", "1")
    # On processors where oneDNN is preferred, activations are its part of a product before candidates are timed.
    monkeypatch.setattr(epilogues, "fused_dtypes", lambda settings: (set(), set()))
    fresh()
    yield


def _operands(rows: int, depth: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*s).to(dtype) for s in ((rows, depth), (columns, depth), (columns,))]


def _flat(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


def _check(function: Callable[..., Any], operands: list[torch.Tensor]) -> list[Any]:
    with recording() as graphs, torch.no_grad():
        found = _flat(torch.compile(function, backend="tile", mode=MODE, dynamic=False)(*operands))
        eager, exact = _flat(function(*operands)), _flat(function(*(o.double() for o in operands)))
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride()
        if ours.dtype is torch.bool:
            # Where the rounding of the product decides, both may be wrong.
            assert (ours != theirs).float().mean() < 0.02
            continue
        unit = torch.finfo(theirs.dtype).eps * right.abs().max()
        assert (ours.double() - right).abs().max() <= 2 * (theirs.double() - right).abs().max() + 4 * unit
    return graphs


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(33, 70, 47), (1, 16, 64), (128, 128, 96)])
def test_a_kernel_computes_what_eager_mode_does(
    function: Any, dtype: torch.dtype, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _choosing(monkeypatch, 1)
    graphs = _check(function, _operands(*sizes, dtype))
    externs = [op for graph in graphs for _, op, _ in graph.externs]
    assert not any("mm" in op for op in externs)


@pytest.mark.parametrize("function", [gelu_linear, gated])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_row_as_a_sum(function: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(programs: list[Any], _: Any) -> list[float]:
        return [2.0, 1.0, *[3.0] * (len(programs) - 2)]

    monkeypatch.setattr(tune, "measured", measured)
    graphs = _check(function, _operands(1, 96, 40, dtype))
    assert not any("mm" in op for graph in graphs for _, op, _ in graph.externs)
    assert not any("fused_product" in kernel.name for graph in graphs for kernel in graph.kernels)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_all_blocks_compute_the_same(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = _choosing(monkeypatch, number, most=4)
    _check(gelu_linear, _operands(130, 300, 200, torch.float32))
    assert counts and counts[0] > number


def test_the_library_stays_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    _choosing(monkeypatch, 0)
    graphs = _check(gelu_linear, _operands(33, 70, 47, torch.float32))
    assert any("addmm" in op for graph in graphs for _, op, _ in graph.externs)
    notes = [note for graph in graphs for note in graph.notes]
    assert any("library 1000.0 us" in note and "64x64" in note for note in notes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    _choosing(monkeypatch, 1)

    def function(x: Any, w: Any, b: Any) -> Any:
        return F.gelu(F.linear(x, w, b)) + F.silu(F.linear(x, w * 0.5)) * F.linear(x, w + 1)

    def gradients(f: Any, operands: list[torch.Tensor]) -> Any:
        given = [o.detach().requires_grad_() for o in operands]
        out = f(*given)
        return [out, *torch.autograd.grad(out.float().square().sum().to(out.dtype), given)]

    operands = _operands(40, 64, 48, dtype)
    found = gradients(torch.compile(function, backend="tile", mode=MODE), operands)
    eager, exact = gradients(function, operands), gradients(function, [o.double() for o in operands])
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        unit = torch.finfo(theirs.dtype).eps * right.abs().max()
        assert (ours.double() - right).abs().max() <= 2 * (theirs.double() - right).abs().max() + 4 * unit


def test_a_value_that_is_returned_is_rounded_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    _choosing(monkeypatch, 1)

    def function(x: Any, w: Any, b: Any) -> Any:
        y = F.linear(x, w, b)
        return y, y * 3, y.float() - y.float().round()

    operands = _operands(64, 256, 64, torch.bfloat16)
    with torch.no_grad():
        y, scaled, fraction = torch.compile(function, backend="tile", mode=MODE)(*operands)
    assert torch.equal(scaled, y * 3) and torch.equal(fraction, y.float() - y.float().round())


def test_a_written_operand_is_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    _choosing(monkeypatch, 1)

    def function(x: Any, w: Any, b: Any) -> Any:
        y = F.linear(x, w)
        x.mul_(2)
        return F.gelu(y + b) + x.sum()

    operands = _operands(32, 32, 32, torch.float32)
    expected_x = operands[0].clone()
    expected = function(expected_x, *operands[1:])
    with torch.no_grad():
        found = torch.compile(function, backend="tile", mode=MODE)(*operands)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(operands[0], expected_x)


def test_a_result_that_is_needed_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    _choosing(monkeypatch, 1)

    def function(x: Any, w: Any, b: Any) -> Any:
        y = F.linear(x, w, b)
        return torch.relu(y) * torch.sort(y, -1).values.softmax(-1)

    _check(function, _operands(32, 32, 48, torch.float32))


def test_random_numbers_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = _operands(32, 32, 32, torch.float32)
    torch.manual_seed(7)
    with torch.no_grad():
        torch.compile(gelu_linear, backend="tile", mode=MODE)(*operands)
    after = torch.rand(4)
    torch.manual_seed(7)
    assert torch.equal(after, torch.rand(4))


def test_choices_are_kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TORCH_TILE_CACHE", "1")
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(tmp_path))
    counts = _choosing(monkeypatch, 1)
    operands = _operands(32, 32, 32, torch.float32)
    for _ in range(2):
        fresh()
        with torch.no_grad():
            # Another graph around the same product.
            torch.compile(lambda *args: gelu_linear(*args).sum(), backend="tile", mode=MODE)(*operands)
    fresh()
    with torch.no_grad():
        torch.compile(lambda *args: gelu_linear(*args) + 1, backend="tile", mode=MODE)(*operands)
    assert len(counts) == 2  # the sum, which is outside of the region, and the addition, which is in it


def test_equal_layers_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = _choosing(monkeypatch, 1)

    def layers(x: Any, w: Any, b: Any) -> Any:
        for _ in range(4):
            x = F.gelu(F.linear(x, w, b))
        return x

    _check(layers, _operands(32, 32, 32, torch.float32))
    assert len(counts) == 1


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TILE_AUTOTUNE_SECONDS", "0")
    counts = _choosing(monkeypatch, 1)
    graphs = _check(gelu_linear, _operands(33, 70, 47, torch.float32))
    assert not counts and any("addmm" in op for graph in graphs for _, op, _ in graph.externs)


def test_a_failure_leaves_the_library(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("TORCH_TILE_STRICT")

    def measured(*_: Any) -> Any:
        raise RuntimeError("no time")

    monkeypatch.setattr(tune, "measured", measured)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check(gelu_linear, _operands(33, 70, 47, torch.float32))
    assert torch_tile.counters["fallbacks"] == 0
    assert "is a call of the library, since timing kernels for it failed" in caplog.text


def test_dynamic_sizes_are_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = _choosing(monkeypatch, 1)
    compiled = torch.compile(gelu_linear, backend="tile", mode=MODE, dynamic=True)
    for rows in (33, 40):
        operands = _operands(rows, 70, 47, torch.float32)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*operands), gelu_linear(*operands), rtol=1e-4, atol=1e-5)
    assert not counts


def test_overlapping_and_expanded_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    _choosing(monkeypatch, 1)
    base = torch.randn(200)
    x, w = base.as_strided((24, 32), (2, 1)), base[:48].expand(32, 48).t()
    _check(gelu_linear, [x, w, base[:1].expand(48)])
