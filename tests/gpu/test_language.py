"""Kernels of the tile language on a CUDA device, against torch."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.compiling import ROOT

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


@torch_tile.jit
def add(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside), mask=inside)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.float64]
)
@pytest.mark.parametrize("block", [16, 256, 1024, 32768])
def test_add(block: int, dtype: torch.dtype) -> None:
    x, y = (randn(100_003, dtype=torch.float32).mul(10).to(dtype) for _ in range(2))
    for offset in (0, 1, 3):  # not aligned as a whole
        a, b = x[offset:], y[offset:]
        o = torch.zeros_like(a)
        add[(torch_tile.cdiv(a.numel(), block),)](a, b, o, a.numel(), B=block)
        assert torch.equal(o, a + b)


@pytest.mark.parametrize("num_warps", [1, 4, 8, 32])
def test_number_of_warps(num_warps: int) -> None:
    x, y, o = randn(5000), randn(5000), torch.zeros(5000, device="cuda")
    compiled = add[(torch_tile.cdiv(5000, 1024),)](x, y, o, 5000, B=1024, num_warps=num_warps)
    assert torch.equal(o, x + y)
    assert compiled.metadata.num_warps == num_warps
    assert f".maxntid {32 * num_warps}" in compiled.asm["ptx"]


@torch_tile.jit
def softmax(x_ptr, o_ptr, stride, rows, columns, B: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, B)
        x = tl.load(x_ptr + row * stride + at, mask=at < columns, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(o_ptr + row * stride + at, e / tl.sum(e, axis=0), mask=at < columns)


@pytest.mark.parametrize("columns", [1, 13, 781, 1024, 4096, 20000])
def test_softmax(columns: int) -> None:
    x = randn(77, columns)
    o = torch.zeros_like(x)
    softmax[(20,)](x, o, columns, 77, columns, B=torch_tile.next_power_of_2(columns))
    torch.testing.assert_close(o, x.softmax(1), rtol=1e-5, atol=1e-6)


@torch_tile.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32)
    if a_ptr.dtype.element_ty == tl.int8:
        acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < K - k), other=0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < K - k) & (columns[None, :] < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BK
        b_ptrs += BK * N
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (64, 32, 32), (128, 64, 64), (64, 128, 128), (32, 2, 16)], ids=str)
def test_matmul(blocks: tuple[int, int, int], dtype: torch.dtype) -> None:
    M, N, K = 150, 133, 170
    a, b = (randn(*s).mul(3).to(dtype) for s in ((M, K), (K, N)))
    kept = torch.int32 if dtype is torch.int8 else dtype
    c = torch.zeros(M, N, device="cuda", dtype=kept)
    BM, BN, BK = blocks
    matmul[(torch_tile.cdiv(M, BM), torch_tile.cdiv(N, BN))](a, b, c, M, N, K, BM, BN, BK)
    expected = a.double() @ b.double()
    limit = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float64: 1e-12, torch.int8: 0}[dtype]
    torch.testing.assert_close(c.double(), expected, rtol=limit, atol=limit * 100)


@torch_tile.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    base = tl.program_id(1) * length * D
    first = tl.program_id(0) * BM
    q_desc = tl.make_tensor_descriptor(q_ptr + base, [length, D], [D, 1], [BM, D])
    k_desc = tl.make_tensor_descriptor(k_ptr + base, [length, D], [D, 1], [BN, D])
    v_desc = tl.make_tensor_descriptor(v_ptr + base, [length, D], [D, 1], [BN, D])
    o_desc = tl.make_tensor_descriptor(o_ptr + base, [length, D], [D, 1], [BM, D])
    rows = first + tl.arange(0, BM)
    q = q_desc.load([first, 0])
    largest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, tl.minimum(first + BM, length), BN):
        columns = start + tl.arange(0, BN)
        scores = tl.dot(q, k_desc.load([start, 0]).T, input_precision="ieee") * scale
        scores = tl.where((columns[None, :] < length) & (rows[:, None] >= columns[None, :]), scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        shrink, weights = tl.exp(largest - now), tl.exp(scores - now[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        v = v_desc.load([start, 0])
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        largest = now
    o_desc.store([first, 0], (acc / total[:, None]).to(o_ptr.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention(dtype: torch.dtype) -> None:
    q, k, v = (randn(6, 203, 64, dtype=dtype) for _ in range(3))
    o = torch.zeros_like(q)
    attention[(torch_tile.cdiv(203, 64), 6)](q, k, v, o, 203, 0.125, D=64, BM=64, BN=32)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), is_causal=True, scale=0.125
    )
    limit = 1e-4 if dtype is torch.float32 else 3e-2
    torch.testing.assert_close(o.float(), expected, rtol=limit, atol=limit)


@torch_tile.jit
def shuffle(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    size: tl.constexpr = M * N
    flat = tl.arange(0, size)
    tl.store(o_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], x.trans())
    left, right = tl.split(tl.reshape(x, [size // 2, 2]))
    tl.store(o_ptr + size + flat, tl.cat(left, right, can_reorder=False))
    tl.store(o_ptr + 2 * size + flat, tl.interleave(right, left))
    tl.store(o_ptr + 3 * size + flat, tl.flip(tl.reshape(x, [size])))
    tl.store(o_ptr + 4 * size + at, tl.sort(x))
    tl.store(o_ptr + 5 * size + at, tl.gather(x, (N - 1 - tl.arange(0, N))[None, :].broadcast_to(M, N), 1))


@pytest.mark.parametrize("shape", [(4, 8), (32, 64), (128, 128), (1, 2)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
def test_rearranging(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = randn(*shape).mul(20).to(dtype)
    o = torch.zeros(6, x.numel(), device="cuda", dtype=dtype)
    shuffle[(1,)](x, o, *shape)
    left, right = x.reshape(-1, 2).unbind(1)
    expected = [x.t().flatten(), torch.cat([left, right]), torch.stack([right, left], 1).flatten(), x.flatten().flip(0)]
    expected += [x.sort(1).values.flatten(), x.flip(1).flatten()]
    for k, wanted in enumerate(expected):
        assert torch.equal(o[k], wanted), k


@torch_tile.jit
def reductions(x_ptr, o_ptr, i_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(o_ptr + m, tl.sum(x, axis=1))
    tl.store(o_ptr + M + n, tl.sum(x, axis=0))
    tl.store(o_ptr + M + N + m, tl.max(x, axis=1))
    tl.store(o_ptr + 2 * M + N, tl.sum(x))
    tl.store(i_ptr + m, tl.argmax(x, axis=1))
    tl.store(i_ptr + M + n, tl.argmin(x, axis=0))


@pytest.mark.parametrize("shape", [(4, 8), (64, 32), (128, 128), (2, 1024), (1, 2)], ids=str)
def test_reductions(shape: tuple[int, int]) -> None:
    x = randn(*shape)
    M, N = shape
    o, i = torch.zeros(2 * M + N + 1, device="cuda"), torch.zeros(M + N, device="cuda", dtype=torch.int32)
    reductions[(1,)](x, o, i, M, N)
    expected = torch.cat([x.sum(1), x.sum(0), x.amax(1), x.sum()[None]])
    torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(i.long(), torch.cat([x.argmax(1), x.argmin(0)]))


@torch_tile.jit
def scans(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(o_ptr + at, tl.cumsum(x, axis=1))
    tl.store(o_ptr + M * N + at, tl.cumsum(x, axis=0))
    tl.store(o_ptr + 2 * M * N + at, tl.cumsum(x, axis=1, reverse=True))


@pytest.mark.parametrize("shape", [(4, 8), (64, 32), (1, 4096)], ids=str)
def test_scans(shape: tuple[int, int]) -> None:
    x = randn(*shape)
    o = torch.zeros(3, *shape, device="cuda")
    scans[(1,)](x, o, *shape)
    expected = torch.stack([x.cumsum(1), x.cumsum(0), x.flip(1).cumsum(1).flip(1)])
    torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-4)


@torch_tile.jit
def count(x_ptr, o_ptr, old_ptr, lock_ptr, slow_ptr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + at)
    tl.atomic_add(o_ptr + x, 1.0)
    tl.atomic_max(o_ptr + 16 + x, at.to(tl.float32))
    old = tl.atomic_add(old_ptr, 1)  # each program gets its own number
    tl.store(old_ptr + 1 + old, 1)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    before = tl.load(slow_ptr + tl.arange(0, 16))
    tl.store(slow_ptr + tl.arange(0, 16), before + tl.histogram(x, 16))
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def test_atomics() -> None:
    programs, block = 50, 256
    x = torch.randint(16, (programs * block,), device="cuda", dtype=torch.int32)
    o, old = torch.zeros(32, device="cuda"), torch.zeros(programs + 1, device="cuda", dtype=torch.int32)
    lock, slow = torch.zeros(1, device="cuda", dtype=torch.int32), torch.zeros(16, device="cuda", dtype=torch.int32)
    count[(programs,)](x, o, old, lock, slow, B=block)
    counts = torch.bincount(x, minlength=16)
    assert torch.equal(o[:16], counts.float())
    last = torch.stack([(x == k).nonzero().max() for k in range(16)]).float()
    assert torch.equal(o[16:], last)
    assert (old[1:] == 1).all() and old[0] == programs
    assert torch.equal(slow.long(), counts)


@torch_tile.jit
def where_am_i(o_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(o_ptr + (z * tl.num_programs(1) + y) * tl.num_programs(0) + x, x + 10 * y + 100 * z)


def test_grid_of_three_axes() -> None:
    o = torch.zeros(4, 3, 2, device="cuda", dtype=torch.int32)
    where_am_i[(2, 3, 4)](o)
    x, y, z = torch.arange(2), torch.arange(3)[:, None], torch.arange(4)[:, None, None]
    assert torch.equal(o.cpu(), (x + 10 * y + 100 * z).int())
    where_am_i[(0,)](o)  # nothing to run


def test_tensors_elsewhere_are_named() -> None:
    x, o = randn(64), torch.zeros(64)
    with pytest.raises(ValueError, match=r"kernel add expected tensors on cuda:0, got `o_ptr` on cpu"):
        add[(1,)](x, x, o, 64, B=64)
    with pytest.raises(ValueError, match=r"expected a grid|at most"):
        where_am_i[(1, 1 << 20)](torch.zeros(1, device="cuda", dtype=torch.int32))


@torch_tile.autotune(
    configs=[torch_tile.Config({"B": 256}, num_warps=2), torch_tile.Config({"B": 1024}, num_warps=8)], key=["n"]
)
@torch_tile.jit
def tuned(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


def test_autotuning_is_timed_on_the_device() -> None:
    x = randn(100_000)
    o = torch.zeros_like(x)
    compiled = tuned[lambda args: (torch_tile.cdiv(100_000, args["B"]),)](x, o, 100_000)
    assert torch.equal(o, 2 * x)
    assert tuned.best_config is not None and compiled.metadata.num_warps == tuned.best_config.num_warps
    assert all(0 < time < 10 for time in tuned.configs_timings.values())


def test_current_stream_and_do_bench() -> None:
    x, stream = randn(1 << 20), torch.cuda.Stream()
    o = torch.zeros_like(x)
    grid = (torch_tile.cdiv(1 << 20, 1024),)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.fill_(3)
        add[grid](x, x, o, 1 << 20, B=1024)
    stream.synchronize()
    assert (o == 6).all()
    time = torch_tile.testing.do_bench(lambda: add[grid](x, x, o, 1 << 20, B=1024))
    assert 0 < time < 5


def test_in_a_graph() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        add[(torch_tile.cdiv(x.numel(), 256),)](x * 2, y, o, x.numel(), B=256)
        return o + 1

    x, y = randn(1000), randn(1000)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(function, backend="tile", fullgraph=True)(x, y), x * 2 + y + 1)


def test_interpreter_says_that_it_wants_the_cpu() -> None:
    x = randn(64)
    with pytest.raises(TypeError, match=r"pass `x_ptr.cpu\(\)`"):
        add.interpret[(1,)](x, x, x, 64, B=64)


@pytest.mark.parametrize("kind", ["print", "assert"])
def test_messages(kind: str) -> None:
    body = 'tl.device_print(" x: ", x)' if kind == "print" else 'tl.device_assert(x < 3, "three is too much")'
    source = f"""
        import torch, torch_tile
        import torch_tile.language as tl

        @torch_tile.jit
        def kernel(x_ptr, B: tl.constexpr):
            x = tl.load(x_ptr + tl.arange(0, B))
            {body}

        kernel[(1,)](torch.arange(4, device="cuda"), B=4, debug=True)
        torch.cuda.synchronize()
    """
    path = ROOT / "build" / f"messages_{kind}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(source))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, cwd=ROOT)
    if kind == "print":
        assert sorted(done.stdout.split("\n")[:-1]) == [f"pid (0, 0, 0) idx ({k}) x: {k}" for k in range(4)], done
    else:
        assert done.returncode != 0 and "three is too much" in done.stdout + done.stderr


@torch_tile.jit
def functions(x_ptr, o_ptr, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at)
    tl.store(o_ptr + at, tl.erf(x) + tl.sin(x) * tl.exp2(x) + tl.log(tl.abs(x)) + tl.rsqrt(tl.abs(x)) + tl.floor(x))
    tl.store(o_ptr + B + at, tl.rand(7, at))
    tl.store(o_ptr + 2 * B + at, tl.fma(x, x, x) / (x + 2) - tl.math.fdiv(x, x))


def test_functions() -> None:
    x = randn(512)
    on_device, on_cpu = torch.zeros(3, 512, device="cuda"), torch.zeros(3, 512)
    functions[(1,)](x, on_device, B=512)
    functions[(1,)](x.cpu(), on_cpu, B=512)
    torch.testing.assert_close(on_device.cpu(), on_cpu, rtol=1e-5, atol=1e-5)


def test_launches_are_quick(record_property: Any) -> None:
    x = randn(64)
    o = torch.zeros_like(x)
    add[(1,)](x, x, o, 64, B=64)
    import time

    best = 1.0
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            add[(1,)](x, x, o, 64, B=64)
        best = min(best, (time.perf_counter() - start) / 100)
    record_property("launch_us", best * 1e6)
    print(f"a launch takes {best * 1e6:.1f} us")
    assert best < 50e-6


@torch_tile.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, sa, ka, kb, nb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a = a_ptr + (rows[:, None] % M) * sa + depth[None, :] * ka
    b = b_ptr + depth[:, None] * kb + (columns[None, :] % N) * nb
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(a, mask=depth[None, :] < K - k * BK, other=0.0)
        y = tl.load(b, mask=depth[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        a += BK * ka
        b += BK * kb
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=inside)


@pytest.mark.parametrize(
    "blocks", [(16, 16, 16, 1), (32, 32, 64, 4), (64, 128, 32, 8), (16, 64, 32, 4), (128, 64, 64, 8)]
)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [(64, 64, 64), (256, 128, 192), (513, 1001, 777), (33, 17, 100)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_by_matrix_instructions(
    dtype: torch.dtype, shape: tuple[int, int, int], transposed: tuple[bool, bool], blocks: tuple[int, int, int, int]
) -> None:
    (M, N, K), (BM, BN, BK, num_warps) = shape, blocks
    a = randn(K, M, dtype=dtype).t() if transposed[0] else randn(M, K, dtype=dtype)
    b = randn(N, K, dtype=dtype).t() if transposed[1] else randn(K, N, dtype=dtype)
    c = torch.empty(M, N, device="cuda")
    grid = (torch_tile.cdiv(M, BM), torch_tile.cdiv(N, BN))
    product[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BM=BM, BN=BN, BK=BK, num_warps=num_warps)
    expected = a.double() @ b.double()
    bound = 2 * (torch.finfo(torch.float32).eps * K) * (a.double().abs() @ b.double().abs())
    assert ((c.double() - expected).abs() <= bound).all()


@torch_tile.jit
def causal_attention(q_ptr, k_ptr, v_ptr, o_ptr, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    base = tl.program_id(1) * N * D
    rows, inner, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    q = tl.load(q_ptr + base + rows[:, None] * D + inner[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        at = base + (start + columns)[:, None] * D + inner[None, :]
        k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(rows[:, None] >= (start + columns)[None, :], s, -float("inf"))
        next_most = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - next_most[:, None])
        alpha = tl.exp2(most - next_most)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        most = next_most
    tl.store(o_ptr + base + rows[:, None] * D + inner[None, :], (acc / total[:, None]).to(o_ptr.dtype.element_ty))


@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("blocks", [(32, 16), (64, 64), (128, 32)])
@pytest.mark.parametrize("D", [16, 64, 128])
def test_attention_by_matrix_instructions(D: int, blocks: tuple[int, int], num_warps: int) -> None:
    (BM, BN), N = blocks, 256
    q, k, v = (randn(3, N, D, dtype=torch.bfloat16) for _ in range(3))
    o = torch.empty_like(q)
    causal_attention[(N // BM, 3)](q, k, v, o, 1.4426950408889634 / D**0.5, N, D=D, BM=BM, BN=BN, num_warps=num_warps)
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    eager = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    error, allowed = (o - expected).abs().max(), (eager - expected).abs().max()
    assert error <= 2 * allowed
