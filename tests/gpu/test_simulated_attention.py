"""`flex_attention` for a GPU, run on the CPU (tests/gpu/simulated_attention.py): forward and backward, with matrix
instructions of a warp and of four."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.backend.flex_programs import SCORES, causal, holes, operands
from tests.compiling import IS_TILE, compiled, gradients
from tests.gpu import simulator
from tests.gpu.simulated_attention import simulated, without_check_of_devices
from torch_tile.frontend.flex import blocks

pytestmark = pytest.mark.skipif(
    not Path(simulator.CLANG).exists() or not IS_TILE, reason="needs LLVM's clang, and kernels of this backend"
)
slow = pytest.mark.slow
bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32


def check(
    function: Callable[..., Any],
    *given: torch.Tensor,
    target: str = "sm_90a",
    with_gradients: bool = True,
    launches: list[int] | None = None,
    num_multiprocessors: int = 1,
) -> None:
    """Errors are at most twice those of eager mode, from float64. All is computed by kernels: `launches` of each graph,
    one forward and two backward by default."""
    wide = [x.double() if x.is_floating_point() else x for x in given]
    run: Callable[..., Any] = (lambda f, x: gradients(f, list(x))) if with_gradients else _results
    with simulated(target, num_multiprocessors) as graphs:
        found = run(compiled(function), given)
    with without_check_of_devices():
        eager, exact = run(function, given), run(function, wide)
    assert [len(graph.kernels) for graph in graphs] == (launches or ([1, 2] if with_gradients else [1]))
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        finite = right.isfinite()
        assert torch.equal(ours.isfinite(), finite)
        scale = right[finite].abs().max().item() if finite.any() else 0.0
        bound = 2 * (theirs.double() - right)[finite].abs().max().item() + 2 * torch.finfo(theirs.dtype).eps * scale
        assert (ours.double() - right)[finite].abs().max().item() <= bound


def _results(function: Callable[..., Any], given: Any) -> list[torch.Tensor]:
    value = function(*given)
    return list(value) if isinstance(value, tuple) else [value]


def small(**kind: Any) -> list[torch.Tensor]:
    return operands(**{"heads": 1, "kv_heads": 1, "dtype": bf16, "width": 32, **kind})


def name_of(value: Any) -> str:
    """Of a parameter: that of a function, without its address, which each worker of pytest has its own of."""
    return getattr(value, "__name__", str(value))


MASKS = [(None, bf16, "sm_80"), (causal, f16, "sm_80"), (causal, bf16, "sm_90a"), (holes, f32, "sm_90")]
SLOW_MASKS = [pytest.param(*each, marks=slow) for each in MASKS]


@pytest.mark.parametrize("mask, dtype, target", [*SLOW_MASKS, (holes, bf16, "sm_90a")], ids=name_of)
def test_masks(mask: Any, dtype: torch.dtype, target: str) -> None:
    block_mask = create_block_mask(mask, 2, None, 64, 64, device="cpu", BLOCK_SIZE=32) if mask else None
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask), *small(dtype=dtype), target=target)


@pytest.fixture
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = request.param
    yield request.param
    torch.backends.cuda.matmul.fp32_precision = before


@pytest.mark.parametrize("precision", ["none", "ieee", "tf32"], indirect=True)
def test_precision_of_float32(precision: str) -> None:
    """Tensor cores round float32 only if torch's own products do."""
    q, k, v = small(dtype=f32)
    with simulated("sm_80") as graphs:
        found = _results(compiled(lambda *x: flex_attention(*x)), (q, k, v))[0]
    exact = flex_attention(q.double(), k.double(), v.double())
    assert ("mma.m16n8k8.row.col.tf32" in graphs[0].files["50-kernel.ll"]) == (precision == "tf32")
    error = (found - exact).abs().max()
    assert (1e-5 < error < 5e-3) if precision == "tf32" else error < 1e-6


@pytest.mark.parametrize(
    "length, kv_length", [(65, 47), *(pytest.param(*lengths, marks=slow) for lengths in ((1, 70), (70, 1), (129, 129)))]
)
def test_lengths_that_no_block_divides(length: int, kv_length: int) -> None:
    block_mask = create_block_mask(holes, 2, None, length, kv_length, device="cpu")

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=block_mask, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1)

    check(function, *small(length=length, kv_length=kv_length))


WIDTHS = [(16, bf16, "sm_80"), (40, bf16, "sm_90a"), (33, bf16, "sm_90"), (72, f32, "sm_80"), (128, f16, "sm_90a")]
WIDTHS += [(256, bf16, "sm_90a")]


@pytest.mark.parametrize(
    "width, dtype, target", [*(pytest.param(*w, marks=slow) for w in WIDTHS), (17, f16, "sm_80")], ids=str
)
def test_widths(width: int, dtype: torch.dtype, target: str) -> None:
    given = small(width=width, dtype=dtype, batch=1, length=70, kv_length=70)
    check(lambda q, k, v: flex_attention(q, k, v), *given, target=target)


@pytest.mark.parametrize("name", ["bounded", *(pytest.param(n, marks=slow) for n in SCORES if n != "bounded")])
@pytest.mark.parametrize("dtype, target", [pytest.param(f32, "sm_80", marks=slow), (bf16, "sm_90a")], ids=str)
def test_score_functions(name: str, dtype: torch.dtype, target: str) -> None:
    given = small(heads=2, kv_heads=2, batch=1, dtype=dtype)
    check(lambda q, k, v: flex_attention(q, k, v, score_mod=SCORES[name]), *given, target=target)


@pytest.mark.parametrize("target", [pytest.param("sm_80", marks=slow), "sm_90a"])
def test_grouped_heads_and_keys_that_a_batch_shares(target: str) -> None:
    q = small(heads=6)[0]
    _, k, v = small(kv_heads=2, batch=1)
    block_mask = create_block_mask(causal, 2, None, 64, 64, device="cpu")

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        score = lambda s, b, h, i, j: s + h * 0.25  # noqa: E731
        return flex_attention(q, k, v, enable_gqa=True, scale=0.3, block_mask=block_mask, score_mod=score)

    check(function, q, k, v, target=target)


@pytest.mark.parametrize("target", [pytest.param("sm_80", marks=slow), "sm_90a"])
def test_captured_tensors(target: str) -> None:
    bias, offsets, table = torch.randn(2, 64), torch.tensor([3, 11]), torch.randn(2, 127).t()
    documents = torch.arange(64).repeat(2, 1) // 20

    def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
        return documents[b, i] == documents[b][j]

    block_mask = create_block_mask(mask, 2, None, 64, 64, device="cpu", BLOCK_SIZE=16)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return s + bias[h, -1 - i] * 0.5 + table[i - j + 63, h] + offsets[b] * 0.125

        return flex_attention(q, k, v, score_mod=score, block_mask=block_mask)

    check(function, *small(heads=2, kv_heads=2), target=target)


def test_sums_of_rows_and_transposed_operands() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        out, lse = flex_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(2, 3), return_lse=True)
        return out * lse.unsqueeze(-1)

    q, k, v = small()
    check(function, q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous(), v.transpose(2, 3).contiguous())


def test_dynamic_lengths() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -1e9))

    with simulated("sm_90a") as graphs:
        program = compiled(function, dynamic=True)
        for batch, length in ((2, 64), (3, 33), (2, 129)):
            given = small(batch=batch, length=length, kv_length=length)
            torch.testing.assert_close(program(*given), function(*given), rtol=2e-2, atol=2e-2)
    assert [len(graph.kernels) for graph in graphs] == [1]


@pytest.mark.parametrize("length, kv_length, target", [(1, 1100, "sm_90a"), (3, 1100, "sm_80")])
def test_few_rows_share_their_keys_among_programs(length: int, kv_length: int, target: str) -> None:
    block_mask = create_block_mask(lambda b, h, i, j: (i % 3 != 2) & (j % 5 > b), 2, None, length, kv_length, "cpu")

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        score = lambda s, b, h, i, j: s * 0.5 + (j % 7) * 0.1  # noqa: E731
        return flex_attention(q, k, v, block_mask=block_mask, score_mod=score, return_lse=True, enable_gqa=True)

    given = small(heads=4, kv_heads=2, length=length, kv_length=kv_length, width=24)
    check(function, *given, num_multiprocessors=30, target=target, with_gradients=False, launches=[2])


def test_dynamic_lengths_share_keys_among_programs() -> None:
    with simulated("sm_80", num_multiprocessors=16) as graphs:
        program = compiled(lambda q, k, v: flex_attention(q, k, v), dynamic=True)
        for kv_length in (700, 40):
            q, k, v = small(length=1, kv_length=kv_length)
            torch._dynamo.mark_static(q)
            torch.testing.assert_close(program(q, k, v), flex_attention(q, k, v), rtol=2e-2, atol=2e-2)
    assert [len(graph.kernels) for graph in graphs] == [2]


@pytest.mark.parametrize("target", ["sm_86", pytest.param("sm_90", marks=slow)])
def test_blocks_that_the_device_has_no_room_for(target: str) -> None:
    options: Any = {"BLOCK_M": 128, "BLOCK_N": 128}
    given = small(width=256, batch=1, length=128, kv_length=128)
    check(lambda q, k, v: flex_attention(q, k, v, kernel_options=options), *given, target=target, with_gradients=False)


@slow
def test_blocks_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a need that nobody foresees, too; the compiler says so."""
    monkeypatch.setattr(blocks, "_needed_bytes", lambda *_: 0)
    options: Any = {"BLOCK_M": 128, "BLOCK_N": 128}
    given = small(width=256, batch=1, length=128, kv_length=128)
    function = lambda q, k, v: flex_attention(q, k, v, kernel_options=options)  # noqa: E731
    check(function, *given, target="sm_86", with_gradients=False)
    # Then operators take their place.
    monkeypatch.setattr(blocks, "choose", lambda *_: blocks.Blocks(256, 256, 8, 1))
    check(function, *given, target="sm_86", with_gradients=False, launches=[0])
