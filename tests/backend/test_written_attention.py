"""Attention written operator by operator becomes one kernel (torch_tile/frontend/flex/written.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import IS_TILE, compiled
from torch_tile.debug.record import recording
from torch_tile.frontend.flex import written

pytestmark = pytest.mark.skipif(not IS_TILE, reason="kernels of this backend")


@pytest.fixture(autouse=True)
def on_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "DEVICES", {"cpu"})
    monkeypatch.setattr(written, "DTYPES", {torch.float32, torch.bfloat16})
    monkeypatch.setenv("TORCH_TILE_CACHE", "0")


def plain(q: Any, k: Any, v: Any) -> Any:
    return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
    scores = (q @ k.transpose(-2, -1)) * 0.3
    out = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
    return out.transpose(1, 2).contiguous().view(q.shape[0], q.shape[2], -1)


def in_float32(q: Any, k: Any, v: Any) -> Any:
    """As T5 has it: no scale, a bias of positions, softmax in float32."""
    bias = torch.linspace(-2, 2, q.shape[1] * q.shape[2] * k.shape[2]).view(1, q.shape[1], q.shape[2], -1)
    scores = torch.matmul(q, k.transpose(3, 2)) + bias.to(q.dtype)
    return torch.matmul(F.softmax(scores.to(torch.promote_types(q.dtype, torch.float32)), dim=-1).type_as(scores), v)


def windows(q: Any, k: Any, v: Any) -> Any:
    """As Swin has it: a mask for each window, in five dimensions."""
    n, h, length, _ = q.shape
    bias = torch.linspace(-1, 1, h * length * length).view(h, length, length).to(q.dtype)
    mask = torch.zeros(2, length, length).to(q.dtype)
    mask[1, :, : length // 2] = -100.0
    scores = (q * 0.25) @ k.transpose(-2, -1) + bias[None]
    scores = (scores.view(n // 2, 2, h, length, length) + mask[None, :, None]).view(n, h, length, length)
    return (F.dropout(scores.softmax(-1), 0.1, training=False) @ v).transpose(1, 2).reshape(n, length, -1)


def capped(q: Any, k: Any, v: Any) -> Any:
    return (20 * torch.tanh(q @ k.mT / 20)).softmax(-1) @ v


def of_three_dimensions(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.2, -1), v)


def grouped(q: Any, k: Any, v: Any) -> Any:
    """Each head of keys serves two of queries."""
    k, v = (t[:, : t.shape[1] // 2].repeat_interleave(2, 1) for t in (k, v))
    return plain(q, k, v)


def of_one_projection(q: Any, k: Any, v: Any) -> Any:
    b, h, length, width = q.shape
    x = q.transpose(1, 2).reshape(b, length, h * width)
    q, k, v = (t.view(b, length, h, width).transpose(1, 2) for t in torch.cat((x, x * 0.5, x + 1), -1).chunk(3, -1))
    return causal(q, k, v)


EQUAL = [plain, causal, in_float32, windows, capped, of_three_dimensions, grouped, of_one_projection]


def _operands(shape: tuple[int, ...], keys: int, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    batch, heads, length, width = shape
    return [torch.randn(batch, heads, n, width).to(dtype) for n in (length, keys, keys)]


def _check(function: Callable[..., Any], operands: list[torch.Tensor], is_kernel: bool = True) -> None:
    with recording() as graphs, torch.no_grad():
        found, eager = compiled(function)(*operands), function(*operands)
        exact = function(*(o.double() for o in operands))
    # Strides of dimensions of one element are those of torch's meta functions (docs/design/gaps.md).
    strides = [[s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (found, eager)]
    assert found.dtype == eager.dtype and found.shape == eager.shape and strides[0] == strides[1]
    assert torch.equal(found.isnan(), eager.isnan())
    found, eager, exact = (t.double().nan_to_num(0) for t in (found, eager, exact))
    unit = torch.finfo(operands[0].dtype).eps * exact.abs().max()
    assert (found - exact).abs().max() <= 2 * (eager - exact).abs().max() + 4 * unit
    assert is_kernel == (not any("bmm" in op for graph in graphs for _, op, _ in graph.externs))


@pytest.mark.parametrize("function", EQUAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 4, 32, 16), (4, 2, 33, 24)])
def test_one_kernel(function: Callable[..., Any], dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    _check(function, _operands(shape, shape[2], dtype))


@pytest.mark.parametrize("function", [plain, causal, in_float32, capped])
@pytest.mark.parametrize(("rows", "keys"), [(1, 70), (17, 40), (64, 16)])
def test_other_numbers_of_keys(function: Callable[..., Any], rows: int, keys: int) -> None:
    _check(function, _operands((2, 2, rows, 16), keys, torch.float32))


def test_rows_that_see_no_key_are_nan() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        mask = torch.full((q.shape[-2], k.shape[-2]), -math.inf).triu(-2).to(q.dtype)
        return (q @ k.mT + mask).softmax(-1) @ v

    operands = _operands((1, 2, 20, 16), 20, torch.float32)
    with torch.no_grad():
        assert function(*operands).isnan().any()
    _check(function, operands)


def test_infinite_and_nan_scores() -> None:
    operands = _operands((1, 2, 20, 16), 20, torch.float32)
    operands[0][0, 0, 3, 0] = math.inf
    operands[0][0, 1, 5] = math.nan
    _check(plain, operands)


@pytest.mark.parametrize(("rows", "keys"), [(0, 20), (20, 0)])
def test_no_elements(rows: int, keys: int) -> None:
    operands = _operands((1, 2, rows, 16), keys, torch.float32)
    with torch.no_grad():
        assert torch.equal(compiled(plain)(*operands), plain(*operands))


def _softmax_is_returned(q: Any, k: Any, v: Any) -> Any:
    p = (q @ k.mT).softmax(-1)
    return p @ v + p.sum()


def _scores_are_used(q: Any, k: Any, v: Any) -> Any:
    s = q @ k.mT
    return s.softmax(-1) @ v + s.amax()


def _softmax_of_rows(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT).softmax(-2) @ v


def _scores_move(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT).flip(-1).softmax(-1) @ v


def _two_products(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT + k @ q.mT).softmax(-1) @ v


def _weights_times_scores(q: Any, k: Any, v: Any) -> Any:
    return v.mT @ (q @ k.mT).softmax(-1)


def _scaled_by_sum(q: Any, k: Any, v: Any) -> Any:
    s = q @ k.mT
    return (s / s.abs().sum(-1, keepdim=True)).softmax(-1) @ v


@pytest.mark.parametrize(
    "function",
    [
        _softmax_is_returned, _scores_are_used, _softmax_of_rows, _scores_move, _two_products, _weights_times_scores,
        _scaled_by_sum,
    ],
)  # fmt: skip
def test_what_is_no_attention(function: Callable[..., Any]) -> None:
    _check(function, _operands((1, 2, 20, 20), 20, torch.float32), is_kernel=False)


def test_training_is_not_changed() -> None:
    operands = [o.requires_grad_() for o in _operands((1, 2, 20, 16), 20, torch.float32)]
    found = torch.autograd.grad(compiled(plain)(*operands).square().sum(), operands)
    expected = torch.autograd.grad(plain(*operands).square().sum(), operands)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_bits_of_eager_mode_are_asked_for() -> None:
    with recording() as graphs, torch.no_grad():
        compiled(plain, matmul_library="aten")(*_operands((1, 2, 20, 16), 20, torch.float32))
    assert sum("bmm" in op for graph in graphs for _, op, _ in graph.externs) == 2


def test_a_pass_that_can_be_left_out() -> None:
    with recording() as graphs, torch.no_grad():
        compiled(plain, disable_passes="written_attention")(*_operands((1, 2, 20, 16), 20, torch.float32))
    assert sum("bmm" in op for graph in graphs for _, op, _ in graph.externs) == 2
