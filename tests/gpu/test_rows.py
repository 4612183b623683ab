"""Rows on a CUDA device, by length: in registers, in shared memory, read again; and kernels that change direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
TOLERANCES = {f32: (1e-5, 2e-5), f16: (2e-3, 4e-3), bf16: (1.6e-2, 3.2e-2)}
LENGTHS = [4096, 16384, 20008, 32768, 32000, 50257, 98304, 131072]


def check(function: Callable[..., Any], arguments: list[torch.Tensor], dtype: torch.dtype) -> None:
    """Within the rounding of `dtype` of what eager computes in float32."""
    expected = function(*[a.float() if a.is_floating_point() else a for a in arguments])
    result = compiled(function)(*arguments)
    rtol, atol = TOLERANCES[dtype]
    torch.testing.assert_close(result.float(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [bf16, f16, f32], ids=str)
def test_rows(length: int, dtype: torch.dtype) -> None:
    torch.manual_seed(length)
    x = torch.randn(1100, length, device="cuda").to(dtype)
    x[3, : length // 2] = -float("inf")
    check(lambda x: torch.softmax(x, -1) * length, [x], dtype)
    check(lambda x: torch.logsumexp(x, -1), [x], dtype)
    check(lambda x, t: F.cross_entropy(x[8:], t), [x, torch.randint(length, (1092,), device="cuda")], dtype)
    y = torch.randn(1100, length, device="cuda").to(dtype)
    weight = torch.randn(length, device="cuda").to(dtype)
    check(lambda x, w: F.layer_norm(x, (length,), w, w), [y, weight], dtype)
    check(lambda x, w: F.rms_norm(x, (length,), w), [y, weight], dtype)
    s = torch.softmax(y.float(), -1).to(dtype)
    check(lambda s, g: torch.ops.aten._softmax_backward_data(g, s, -1, s.dtype) * length, [s, y], dtype)


@pytest.mark.parametrize("length", [7, 49, 197, 250, 769, 1001, 4099, 20001, 50257])
@pytest.mark.parametrize("dtype", [bf16, f16, f32], ids=str)
def test_rows_that_begin_anywhere(length: int, dtype: torch.dtype) -> None:
    torch.manual_seed(length)
    x = torch.randn(2100, length + 3, device="cuda").to(dtype)
    weight = torch.randn(length, device="cuda").to(dtype)
    for view in (x[:, :length].contiguous(), x[:, 3:], x.view(-1)[5 : 5 + 2000 * length].view(2000, length)):
        check(lambda x: torch.softmax(x, -1) * length, [view], dtype)
        check(lambda x: x.float().mean(-1), [view], dtype)
        check(lambda x, w: F.layer_norm(x, (length,), w, w), [view, weight], dtype)
        check(lambda x, w: F.gelu(x[:, 1:] + w[1:]) - x[:, :-1], [view, weight], dtype)
    check(lambda x: x.float().mean(0), [x], dtype)


def test_a_large_tensor_read_twice() -> None:
    torch.manual_seed(0)
    x = torch.randn(24, 128, 56, 56, device="cuda")
    check(lambda x: F.relu(F.batch_norm(x, None, None, training=True)), [x], f32)


def test_halves() -> None:
    torch.manual_seed(0)
    x, cos = torch.randn(4, 8, 256, 128, device="cuda").to(bf16), torch.randn(256, 128, device="cuda").to(bf16)
    check(lambda x, c: x * c + torch.cat((-x[..., 64:], x[..., :64]), -1) * c, [x, cos], bf16)


@pytest.mark.parametrize("offset", [1, 3, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_inputs_begin_between_words(offset, dtype):
    """Slices as inputs, read in place by rows, columns and copies, and written; then other slices."""

    def function(x, y, z):
        z.add_(x)
        return x.sum(-1), x.amax(0), x * 2 + y, torch.softmax(x.float(), -1), x.t().contiguous()

    def arguments(start):
        torch.manual_seed(0)
        base = torch.randn(3, 120, 515, device="cuda").to(dtype)
        return [base[k, 1:, start : start + 500] for k in range(3)]

    compiled = torch.compile(function, backend="tile", dynamic=False)
    for start in (offset, 0, offset + 1):
        given, expected = arguments(start), arguments(start)
        results = compiled(*given)
        for result, wanted in zip([*results, given[2]], [*function(*expected), expected[2]], strict=True):
            torch.testing.assert_close(result, wanted, rtol=2e-2, atol=2e-2)
