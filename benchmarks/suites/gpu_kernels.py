"""One kernel, or a few, on tensors larger than the cache of a CUDA device: time, and share of its copy bandwidth."""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from backends import compiled, enter
from harness import Row, failure
from reference import differs, dropout_differs, flatten, in_double

from suites import kernels as k

f32, bf16 = torch.float32, torch.bfloat16


@dataclasses.dataclass(frozen=True)
class GpuCase:
    """A function, its arguments, and the fewest bytes it has to move."""

    name: str
    function: Callable[..., Any]
    make: Callable[[], Sequence[Any]]
    bytes_moved: int
    rtol: float = 1e-3
    atol: float | None = None
    # Instead of a comparison, where results are random: why a result of these arguments is wrong, or nothing.
    check: Callable[[Sequence[Any], Sequence[torch.Tensor]], str] | None = None
    # Forward and backward for the first argument.
    is_training: bool = False

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        if not self.is_training:
            return function(*arguments)
        with torch.enable_grad():
            return torch.autograd.grad(function(arguments[0].requires_grad_(), *arguments[1:]), arguments[0])


def randn(*shape: int, dtype: torch.dtype = f32) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=f32).to(dtype)


def dropout_residual(x, residual):
    return F.dropout(x, 0.1, training=True) + residual


def rotary_gpu(x, cos, sin):
    return k.rotary(x, cos, sin)


def group_norm_silu(x):
    return F.silu(F.group_norm(x, 32))


def norm_of_channels(x):
    return F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2])


def softmax_of_channels(x):
    return x.float().softmax(1)


def sum_of_rows(x):
    return x.float().sum((0, 2))


def max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def roll_image(x):
    return x.roll((3, 3), (2, 3)) * 2


def images(channels_last: bool) -> list[torch.Tensor]:
    """Activations of an image model: 16 x 512 x 64 x 64 in bfloat16."""
    x = randn(16, 512, 64, 64, dtype=bf16)
    return [x.contiguous(memory_format=torch.channels_last) if channels_last else x]


def gelu_sin(x):
    return F.gelu(x) + torch.sigmoid(x) * torch.sin(x)


M = 1 << 20
CASES = [
    GpuCase("add f32 8192x8192", k.add, lambda: [randn(8192, 8192), randn(8192, 8192)], 3 * 256 * M),
    GpuCase(
        "bias_gelu_residual bf16 16384x4096",
        k.bias_gelu_residual,
        lambda: [randn(16384, 4096, dtype=bf16), randn(4096, dtype=bf16), randn(16384, 4096, dtype=bf16)],
        3 * 128 * M,
        rtol=2e-2,
    ),
    GpuCase("softmax f32 65536x1024", k.softmax, lambda: [randn(65536, 1024)], 2 * 256 * M),
    GpuCase("softmax bf16 4096x32768", k.softmax, lambda: [randn(4096, 32768, dtype=bf16)], 2 * 256 * M, rtol=2e-2),
    GpuCase(
        "layer_norm f32 65536x1024",
        k.layer_norm,
        lambda: [randn(65536, 1024), randn(1024), randn(1024)],
        2 * 256 * M,
    ),
    GpuCase(
        "rms_norm_residual bf16 16384x4096",
        k.rms_norm_residual,
        lambda: [randn(16384, 4096, dtype=bf16), randn(16384, 4096, dtype=bf16), randn(4096, dtype=bf16)],
        3 * 128 * M,
        rtol=2e-2,
    ),
    GpuCase("column_sum f32 65536x1024", k.column_sum, lambda: [randn(65536, 1024)], 256 * M, atol=1e-2),
    GpuCase("full_sum f32 2^27", k.full_sum, lambda: [randn(1 << 27)], 512 * M, atol=1.0),
    GpuCase("transposed_add f32 8192", k.transposed_add, lambda: [randn(8192, 8192), randn(8192, 8192)], 3 * 256 * M),
    GpuCase(
        "batch_norm_relu train f32 64x256x56x56",
        k.batch_norm_relu,
        lambda: [randn(64, 256, 56, 56), randn(256), randn(256), torch.zeros(256).cuda(), torch.ones(256).cuda()],
        3 * 64 * 256 * 56 * 56 * 4,
    ),
    GpuCase(
        "cross_entropy bf16 8192x32000",
        k.cross_entropy,
        lambda: [randn(8192, 32000, dtype=bf16), torch.randint(32000, (8192,), device="cuda")],
        8192 * 32000 * 2,
        rtol=2e-2,
    ),
    GpuCase("argmax f32 16384x8192", k.argmax, lambda: [randn(16384, 8192)], 512 * M),
    GpuCase(
        "dropout_residual bf16 16384x4096",
        dropout_residual,
        lambda: [randn(16384, 4096, dtype=bf16), randn(16384, 4096, dtype=bf16)],
        3 * 128 * M,
        check=dropout_differs,
    ),
    GpuCase("gelu_sin f32 8192x8192", gelu_sin, lambda: [randn(8192, 8192)], 2 * 256 * M),
    GpuCase(
        "rotary bf16 8x32x2048x128",
        rotary_gpu,
        lambda: [randn(8, 32, 2048, 128, dtype=bf16), randn(2048, 128, dtype=bf16), randn(2048, 128, dtype=bf16)],
        2 * 8 * 32 * 2048 * 128 * 2,
        rtol=2e-2,
        atol=2e-2,
    ),
    GpuCase("row_mean f32 1M x 64", k.row_mean, lambda: [randn(M, 64)], 256 * M),
    GpuCase(
        "layer_norm bf16 65536x768",
        k.layer_norm,
        lambda: [randn(65536, 768, dtype=bf16), randn(768, dtype=bf16), randn(768, dtype=bf16)],
        2 * 96 * M,
        rtol=2e-2,
        atol=2e-2,
    ),
]

IMAGES = 2 * 16 * 512 * 64 * 64
LAST, FIRST = (lambda: images(True)), (lambda: images(False))
CASES += [
    GpuCase("group_norm silu bf16 channels last", group_norm_silu, LAST, 2 * IMAGES, rtol=2e-2, atol=2e-2),
    GpuCase("group_norm silu bf16", group_norm_silu, FIRST, 2 * IMAGES, rtol=2e-2, atol=2e-2),
    GpuCase("layer_norm of channels bf16", norm_of_channels, FIRST, 2 * IMAGES, rtol=2e-2, atol=2e-2),
    GpuCase("softmax of channels bf16 channels last", softmax_of_channels, LAST, 3 * IMAGES),
    GpuCase("softmax of channels bf16", softmax_of_channels, FIRST, 3 * IMAGES),
    GpuCase("sum of rows bf16 channels last", sum_of_rows, LAST, IMAGES, atol=1e-2),
    GpuCase("max_pool bf16", max_pool, FIRST, IMAGES * 5 // 4),
    GpuCase("roll bf16 channels last", roll_image, LAST, 2 * IMAGES),
    GpuCase("roll bf16", roll_image, FIRST, 2 * IMAGES),
]


# Written before a call that is to find its operands in memory.
FLUSHED_BYTES = 256 << 20
# Longer calls than this find little in the cache, and the host is ahead of the device.
LONG_SECONDS = 2e-4


def device_seconds(call: Callable[[], Any], seconds: float = 0.15, is_cold: bool = False) -> list[float]:
    """Of each of many calls, between two events in the stream.

    Args:
        call: what is timed.
        seconds: how long all of it takes, about.
        is_cold: short calls follow a write of more bytes than the cache has, so the host's part does not count either.
    """
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    once = (time.perf_counter() - start) / 5
    count = max(10, min(500, int(seconds / max(once, 1e-6))))
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda") if is_cold and once < LONG_SECONDS else None
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for begin, end in events:
        if flushed is not None:
            flushed.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e-3 for begin, end in events]


def in_rounds(
    calls: dict[str, Callable[[], Any]], seconds: float, rounds: int = 5, is_cold: bool = False
) -> dict[str, list[float]]:
    """`device_seconds` of several backends in turn, so that a change of the clock meets all of them."""
    times: dict[str, list[float]] = {backend: [] for backend in calls}
    names = list(calls)
    for turn in range(rounds):
        for backend in names[turn % len(names) :] + names[: turn % len(names)] if names else []:
            enter(backend)
            times[backend] += device_seconds(calls[backend], seconds / rounds, is_cold)
    return times


def copy_bandwidth() -> float:
    """Bytes read and written per second by a copy of 1 GiB."""
    source = randn(1 << 28)
    target = torch.empty_like(source)
    return 2 * source.nbytes / statistics.median(device_seconds(lambda: target.copy_(source)))


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_kernels", CASES)


def first_call(
    case: GpuCase, function: Callable[..., Any], backend: str, arguments: Sequence[Any], expected: Sequence[Any]
) -> tuple[float, list[torch.Tensor], str]:
    """Compiles and calls `function`: its seconds, its results, and why they are wrong, or nothing."""
    enter(backend)
    start = time.perf_counter()
    result = list(flatten(case.call(function, arguments)))
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    note = case.check(arguments, result) if case.check else differs(result, expected, case.rtol, case.atol)
    return seconds, result, note


def run_cases(options: Any, suite: str, cases: Sequence[GpuCase], is_cold: bool = False) -> list[Row]:
    bandwidth = copy_bandwidth()
    rows = [Row(suite, "copy 1 GiB", "eager", median=2 * (1 << 30) / bandwidth)]
    rows[0].note_info = f"{bandwidth / 1e12:.2f} TB/s"
    options.report(rows)
    for case in cases:
        if not options.selects(case.name):
            continue
        torch.compiler.reset()
        torch.cuda.empty_cache()
        group, calls = [], {}
        with torch.no_grad():
            torch.manual_seed(0)
            arguments = case.make()
            expected = list(flatten(case.call(case.function, in_double(arguments))))
            for backend in options.backends:
                row = Row(suite, case.name, backend)
                group.append(row)
                function = compiled(case.function, backend, dynamic=False)
                try:
                    row.first_call, _, row.note = first_call(case, function, backend, arguments, expected)
                except Exception as error:  # the other backends go on
                    row.note = failure(error)
                    if "CUDA error" in str(error):
                        options.report(group)
                        return rows + group
                    continue
                if not row.note:
                    calls[backend] = functools.partial(case.call, function, arguments)
            del expected
            times = in_rounds(calls, seconds=0.2, is_cold=is_cold)
        for row in group:
            if seconds := times.get(row.backend):
                row.best, row.median, row.rounds = min(seconds), statistics.median(seconds), len(seconds)
                share = case.bytes_moved / row.median / bandwidth
                row.note_info = f"{share:.2f} of copy"
        rows += options.report(group)
    return rows
