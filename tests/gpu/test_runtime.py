"""Launches on a CUDA device: streams, devices, numbers from the CPU, errors of kernels, CUDA graphs, random numbers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import ROOT, assert_same, compiled, count, fresh, run_python
from torch_tile.debug.record import recording
from torch_tile.frontend import aot

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def randn(*shape: int, **options: object) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", **options)  # type: ignore[arg-type]


SHAPES = [
    (300, 1000),
    (77, 1003),
    (77, 13),
    (7, 200000),
    (5000, 64),
    (129, 768),
    (3, 32768),
    (2, 40000),
    (1, 1),
    (4, 0),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_and_columns(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = randn(*shape).to(dtype)
    limit = 1e-4 if dtype is torch.float32 else 2e-2

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.float()
        return y.softmax(-1), y.sum(-1), y.sum(0), y.sum(), (x * 2).to(dtype), F.layer_norm(x, x.shape[-1:])

    # Sums of many numbers of both signs: the error is that of the order.
    assert_same(compiled(function)(x), function(x), limit, limit * max(1.0, shape[0] * shape[1]) ** 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, dtype: torch.dtype) -> None:
    q, k, v = (randn(2, 4, 64, 32).to(dtype).requires_grad_(True) for _ in range(3))

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q * 2, k, v, is_causal=causal).float().sin().sum()

    limit = 1e-3 if dtype is torch.float32 else 3e-2
    expected = torch.autograd.grad(function(q, k, v), (q, k, v))
    assert_same(torch.autograd.grad(compiled(function)(q, k, v), (q, k, v)), expected, limit, limit, check_stride=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("shape", [(6, 40000), (5, 70001), (3, 16384)], ids=str)
def test_long_softmax(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = randn(*shape).to(dtype)
    x[0, :] = -float("inf")  # NaN, as in eager
    x[1, 1:] = -float("inf")
    x[2, ::2] = -float("inf")
    limit = 1e-5 if dtype is torch.float32 else 2e-2

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1)

    assert_same(compiled(function)(x), function(x), limit, limit)
    rows = torch.randint(shape[1], (shape[0],), device="cuda")
    x = randn(*shape).to(dtype) * 5
    assert_same(compiled(F.cross_entropy)(x, rows), F.cross_entropy(x, rows), limit, limit)


@pytest.mark.parametrize("columns", [1, 3, 8, 50, 64, 100, 128])
def test_short_rows(columns: int) -> None:
    x, bias = randn(3001, columns), randn(3001)

    def function(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.mean(-1)
        return y, x.softmax(-1), x.argmax(-1), (x - y[:, None]) * bias[:, None], x.amax(-1) + bias

    assert_same(compiled(function)(x, bias), function(x, bias), 1e-5, 1e-5)
    half = x.bfloat16()
    assert_same(compiled(F.layer_norm)(half, (columns,)), F.layer_norm(half, (columns,)), 2e-2, 2e-2)


def test_memory_that_is_not_aligned() -> None:
    base = randn(1000 * 4096 + 8)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(-1), x.sum(0), x * 2, x.sum(-1)

    aligned = compiled(function)
    for offset in (0, 1, 2):
        x = base[offset : offset + 1000 * 4096].view(1000, 4096)
        assert_same(aligned(x), function(x), 1e-4, 1e-3)


def test_written_memory_that_is_not_aligned() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        y.add_(x.sum())
        return x.exp()

    base, expected = randn(40, 37), None
    for run in (function, compiled(function)):
        memory = base.clone()
        # Both lie between each other's rows, neither at a multiple of 16 bytes.
        result = run(memory[:, 1:18], memory[:, 19:36])
        if expected is None:
            expected = (result, memory)
        else:
            assert_same((result, memory), expected, 1e-5, 1e-5)


def test_spread_memory_that_is_not_aligned() -> None:
    function = compiled(lambda x, y: x * y)
    x, y = randn(65)[1:].expand(50, 64), randn(50, 64)
    assert_same(function(x, y), x * y)


def test_functions_on_all_of_float32() -> None:
    x = torch.cat([randn(1 << 16) * 10.0**k for k in range(-6, 38, 4)])
    x = torch.cat([x, torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")], device="cuda")])
    for function in (torch.erf, torch.sin, torch.cos, torch.exp, torch.sigmoid, torch.tanh, F.gelu, F.silu):
        fresh()
        assert_same(compiled(function)(x), function(x), 3e-6, 1e-6)


@pytest.mark.parametrize("length", [64, 61])
def test_masked_attention_is_one_call(length: int) -> None:
    q, k, v = (randn(2, 4, length, 32).bfloat16().requires_grad_(True) for _ in range(3))
    mask = torch.rand(2, 1, length, length, device="cuda") > 0.3

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).float().sin().sum()

    fresh()
    expected = torch.autograd.grad(function(q, k, v, mask), (q, k, v))
    result = torch.autograd.grad(compiled(function)(q, k, v, mask), (q, k, v))
    assert_same(result, expected, 3e-2, 3e-2, check_stride=False)
    with torch.no_grad(), recording() as graphs:
        fresh()
        assert_same(compiled(function)(q, k, v, mask), function(q, k, v, mask), 3e-2, 3e-2)
    called = [op for graph in graphs for _, op, _ in graph.externs]
    assert len(called) == 1 and "scaled_dot_product" in called[0]


def test_argmax_takes_the_first() -> None:
    x = randn(50, 3000).round()
    assert_same(compiled(lambda x: (x.argmax(-1), x.argmin(0)))(x), (x.argmax(-1), x.argmin(0)))


@pytest.mark.parametrize("size", [(513, 300), (64, 64), (1000, 1000)], ids=str)
def test_transpose(size: tuple[int, int]) -> None:
    x, y = randn(*size), randn(*size[::-1])

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + y.t(), (x * 2).t().contiguous()

    assert_same(compiled(function)(x, y), function(x, y))


def test_current_stream() -> None:
    x, stream = randn(1 << 22), torch.cuda.Stream()
    function = compiled(lambda x: x * 2 + 1)
    function(x)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.fill_(3)
        result = function(x)
    stream.synchronize()
    assert (result == 7).all()


def test_number_on_the_cpu() -> None:
    x, scale = randn(64, 64), torch.tensor(2.5)
    assert_same(compiled(lambda x, s: x * s + s)(x, scale), x * scale + scale)


def test_mixed_devices() -> None:
    x, c = randn(4, 5), torch.randn(4, 5)

    def function(x: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2, (c + 1).relu(), x.cpu() + c, c.to("cuda") * x

    fresh()
    assert_same(compiled(function)(x, c), function(x, c))
    assert count("launches") > 0


def test_inputs_of_another_device_are_refused() -> None:
    function = compiled(lambda x, y: x + y)
    with pytest.raises(Exception, match="device"):
        function(randn(4, 5), torch.randn(4, 5))


def test_backward_on_the_autograd_thread() -> None:
    x, w = randn(64, 256, requires_grad=True), randn(256, requires_grad=True)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (F.gelu(x * w).softmax(-1) * x).sum()

    expected = torch.autograd.grad(function(x, w), (x, w))
    assert_same(torch.autograd.grad(compiled(function)(x, w), (x, w)), expected, 1e-4, 1e-4)


def test_batch_norm_writes_its_statistics() -> None:
    x, model = randn(8, 16, 12, 12), torch.nn.BatchNorm2d(16).cuda()
    expected = model(x)
    mean, variance = model.running_mean.clone(), model.running_var.clone()
    model.reset_running_stats()
    assert_same(compiled(model)(x), expected, 1e-4, 1e-4)
    assert_same((model.running_mean, model.running_var), (mean, variance), 1e-4, 1e-4)


def test_random_numbers_are_those_of_the_eager_op() -> None:
    seed = torch.tensor(1234567890123, device="cuda")

    def function(seed: torch.Tensor) -> torch.Tensor:
        return torch.ops.torch_tile.philox_uniform(seed, 3, [5, 1003], torch.float32)

    import torch_tile.frontend.fx_passes  # noqa: F401

    assert_same(compiled(function)(seed), function(seed), exact=True)
    assert torch.equal(function(seed).cpu(), function(seed.cpu()))


def test_dropout() -> None:
    x = torch.ones(512, 1024, device="cuda")
    y = compiled(lambda x: F.dropout(x, 0.25))(x)
    assert abs((y == 0).float().mean().item() - 0.25) < 0.01
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}


def test_index_out_of_range_ends_the_process_as_in_eager() -> None:
    code = """
    import torch
    function = torch.compile(lambda t, i: t[i] * 2, backend="tile", options={"strict": True})
    table = torch.randn(10, device="cuda")
    print("good", function(table, torch.tensor([1, -10, 9], device="cuda")).shape, flush=True)
    result = function(table, torch.tensor([1, 10], device="cuda"))
    print("value", result.cpu())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode != 0 and "good" in done.stdout and "value" not in done.stdout
    assert "assert" in done.stderr and "index out of bounds" in done.stderr + done.stdout


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
def test_second_device() -> None:
    function = compiled(lambda x: (x * 2).softmax(-1))
    for device in ("cuda:0", "cuda:1"):
        x = torch.randn(100, 100, device=device)
        assert_same(function(x), (x * 2).softmax(-1), 1e-5, 1e-5)


class TestCudaGraphs:
    def test_inference(self) -> None:
        weights = [randn(16, 16) * 0.2 for _ in range(10)]

        def function(x: torch.Tensor) -> torch.Tensor:
            for weight in weights:
                x = F.relu(x @ weight)
            return x

        recorded = torch.compile(function, backend="tile", mode="reduce-overhead")
        with torch.no_grad():
            for _ in range(5):
                x = randn(16, 16)
                assert_same(recorded(x).clone(), function(x), 1e-4, 1e-4)

    def test_frozen_parameters(self) -> None:
        """They are no inputs any more, so other inputs have other positions than before."""
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
        recorded = torch.compile(model, backend="tile", options={"triton.cudagraphs": True, "freezing": True})
        with torch.no_grad():
            for _ in range(5):
                x = randn(16, 32)
                assert_same(recorded(x).clone(), model(x), 1e-3, 1e-3)
            model[0].weight.mul_(2)  # type: ignore[operator]
            for _ in range(3):
                x = randn(16, 32)
                assert_same(recorded(x).clone(), model(x), 1e-3, 1e-3)

    def test_training(self) -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
        recorded = torch.compile(model, backend="tile", mode="reduce-overhead")
        for _ in range(5):
            x = randn(16, 32)
            expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
            result = torch.autograd.grad(recorded(x).square().sum(), list(model.parameters()))
            assert_same([r.clone() for r in result], list(expected), 1e-3, 1e-3)

    def test_written_input_is_not_recorded(self, caplog: pytest.LogCaptureFixture) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x * 2

        recorded = torch.compile(function, backend="tile", mode="reduce-overhead")
        with torch.no_grad():
            for _ in range(3):
                x = randn(8, 8)
                expected = (x + 1) * 2
                assert_same(recorded(x), expected)
        assert "is written" in caplog.text

    @pytest.mark.skipif(
        not torch.__version__.startswith(aot.CACHED_VERSIONS), reason="traces are kept with tried versions of torch"
    )
    @pytest.mark.parametrize("freezing", [False, True])
    def test_warm_start_in_a_second_process(self, freezing: bool, tmp_path: Path) -> None:
        program = f"""
            import os
            if {freezing}:
                os.environ["TORCH_TILE_FREEZING"] = "1"
            import torch
            import torch_tile

            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda().eval()
            compiled = torch.compile(model, backend="tile", mode="reduce-overhead")
            sums = []
            with torch.no_grad():
                for _ in range(4):  # the first ones warm up and record
                    x = torch.randn(16, 32, device="cuda")
                    result = compiled(x).clone()
                    torch.testing.assert_close(result, model(x), rtol=1e-3, atol=1e-3)
                    sums.append(result.double().sum().item())
            counts = torch_tile.counters
            print(int(counts["graphs"]), int(counts["graphs_from_disk"]), *map(repr, sums))
        """
        cold, warm = (run_python(program, TORCH_TILE_CACHE_DIR=str(tmp_path)).split() for _ in range(2))
        assert cold[2:] == warm[2:]
        assert cold[1] == "0" and warm[0] == warm[1] != "0", "every graph comes from the disk"


def test_many_operands_are_copied_by_torch() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [row * k for k, row in enumerate(x.unbind(), 1)]
        return torch.cat(rows), torch.stack(rows, 1)

    x = torch.randn(100, 16, device="cuda")
    with recording() as graphs:
        fresh()
        assert_same(compiled(function)(x), function(x), exact=True)
    assert sorted(op for graph in graphs for _, op, _ in graph.externs) == ["aten::cat", "aten::stack"]
