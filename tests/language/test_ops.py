"""Every operation, interpreted and compiled, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

Launch = Callable[[Any], Any]
N = 64


@torch_tile.jit
def unary(x_ptr, o_ptr, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, OP(tl.load(x_ptr + i)))


@torch_tile.jit
def binary(x_ptr, y_ptr, o_ptr, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, OP(tl.load(x_ptr + i), tl.load(y_ptr + i)))


UNARY: dict[str, tuple[Any, Any]] = {
    "exp": (tl.exp, torch.exp),
    "exp2": (tl.exp2, torch.exp2),
    "log": (lambda x: tl.log(tl.abs(x) + 0.1), lambda x: torch.log(x.abs() + 0.1)),
    "log2": (lambda x: tl.log2(tl.abs(x) + 0.1), lambda x: torch.log2(x.abs() + 0.1)),
    "sin": (tl.sin, torch.sin),
    "cos": (tl.cos, torch.cos),
    "sqrt": (lambda x: tl.sqrt(tl.abs(x)), lambda x: x.abs().sqrt()),
    "sqrt_rn": (lambda x: tl.sqrt_rn(tl.abs(x)), lambda x: x.abs().sqrt()),
    "rsqrt": (lambda x: tl.rsqrt(tl.abs(x) + 0.1), lambda x: (x.abs() + 0.1).rsqrt()),
    "erf": (tl.erf, torch.erf),
    "floor": (tl.floor, torch.floor),
    "ceil": (tl.ceil, torch.ceil),
    "abs": (tl.abs, torch.abs),
    "sigmoid": (tl.sigmoid, torch.sigmoid),
    "softmax": (tl.softmax, lambda x: x.softmax(0)),
    "clamp": (lambda x: tl.clamp(x, -0.5, 0.5), lambda x: x.clamp(-0.5, 0.5)),
    "fma": (lambda x: tl.fma(x, x, 1.5), lambda x: (x.double() * x.double() + 1.5).float()),
    "neg": (lambda x: -x, torch.neg),
    "where": (lambda x: tl.where(x > 0, x, 0.25), lambda x: torch.where(x > 0, x, 0.25)),
    "truediv": (lambda x: x / 3, lambda x: x / 3),
    "fdiv": (lambda x: tl.fdiv(x, 3.0), lambda x: x / 3),
    "div_rn": (lambda x: tl.div_rn(x, 3.0), lambda x: x / 3),
    "mod": (lambda x: x % 0.3, lambda x: torch.fmod(x, 0.3)),
    "maximum": (lambda x: tl.maximum(x, 0.1), lambda x: x.clamp(min=0.1)),
    "tanh": (lambda x: tl.extra.libdevice.tanh(x), torch.tanh),
    "pow": (lambda x: tl.extra.libdevice.pow(tl.abs(x), 1.7), lambda x: x.abs().pow(1.7)),
    "expm1": (lambda x: tl.extra.libdevice.expm1(x), torch.expm1),
    "log1p": (lambda x: tl.extra.libdevice.log1p(tl.abs(x)), lambda x: x.abs().log1p()),
    "round": (lambda x: tl.extra.libdevice.round(x * 4), lambda x: torch.trunc(x * 4 + 0.5 * torch.sign(x))),
    "rint": (lambda x: tl.extra.libdevice.rint(x * 4), lambda x: torch.round(x * 4)),
    "cast": (lambda x: (x * 100).to(tl.int32).to(tl.float32), lambda x: (x * 100).int().float()),
    "bitcast": (lambda x: x.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True), lambda x: x),
    "cumsum": (lambda x: tl.cumsum(x, 0), lambda x: x.cumsum(0)),
    "cumsum_reverse": (lambda x: tl.cumsum(x, 0, reverse=True), lambda x: x.flip(0).cumsum(0).flip(0)),
    "cumprod": (lambda x: tl.cumprod(x, 0), lambda x: x.cumprod(0)),
    "scan": (
        lambda x: tl.associative_scan(x, 0, lambda a, b: tl.maximum(a, b)),
        lambda x: x.cummax(0).values,
    ),
    "sum": (lambda x: x * 0 + tl.sum(x, 0), lambda x: x.sum().expand(N)),
    "max": (lambda x: x * 0 + tl.max(x, 0), lambda x: x.max().expand(N)),
    "min": (lambda x: x * 0 + tl.min(x), lambda x: x.min().expand(N)),
    "argmax": (lambda x: x * 0 + tl.argmax(x, 0), lambda x: x.argmax().float().expand(N)),
    "argmin": (lambda x: x * 0 + tl.argmin(x, axis=0), lambda x: x.argmin().float().expand(N)),
    "reduce": (lambda x: x * 0 + tl.reduce(x, 0, lambda a, b: tl.minimum(a, b)), lambda x: x.min().expand(N)),
    "sort": (tl.sort, lambda x: x.sort().values),
    "sort_descending": (lambda x: tl.sort(x, descending=True), lambda x: x.sort(descending=True).values),
    "topk": (lambda x: x * 0 + tl.topk(x, 8).sum(0), lambda x: x.topk(8).values.sum().expand(N)),
    "flip": (tl.flip, lambda x: x.flip(0)),
    "reshape": (lambda x: x.reshape(8, 8).trans().reshape([64]), lambda x: x.reshape(8, 8).T.reshape(64)),
    "permute": (
        lambda x: tl.permute(x.reshape(4, 2, 8), (2, 0, 1)).ravel(),
        lambda x: x.reshape(4, 2, 8).permute(2, 0, 1).reshape(64),
    ),
    "join_split": (
        lambda x: tl.cat(*tl.split(x.reshape(32, 2))),
        lambda x: torch.cat([x[::2], x[1::2]]),
    ),
    "interleave": (
        lambda x: tl.interleave(*tl.split(x.reshape(2, 32).trans())),
        lambda x: torch.stack([x[:32], x[32:]], 1).reshape(64),
    ),
    "gather": (lambda x: tl.gather(x, 63 - tl.arange(0, 64), 0), lambda x: x.flip(0)),
    "broadcast": (
        lambda x: (x.reshape(64, 1) + tl.zeros([1, 2], tl.float32)).sum(1),
        lambda x: x * 2,
    ),
    "broadcast_to": (
        lambda x: tl.broadcast_to(x.expand_dims(1), [64, 4]).sum(axis=1),
        lambda x: x * 4,
    ),
    "axes": (lambda x: x[None, :, None].reshape(64), lambda x: x),
    "full": (lambda x: x + tl.full([64], 2, tl.float32) + tl.zeros_like(x), lambda x: x + 2),
    "map_elementwise": (
        lambda x: tl.map_elementwise(lambda a: tl.where(a > 0, a, -a), x),
        lambda x: x.abs(),
    ),
    "swizzle2d": (
        lambda x: x + tl.swizzle2d(tl.arange(0, 64) // 8, tl.arange(0, 64) % 8, 8, 8, 4)[0],
        lambda x: x + (torch.arange(64) // 32 * 4 + torch.arange(64) % 32 % 4),
    ),
    "cdiv": (lambda x: x + tl.cdiv(100, 7), lambda x: x + 15),
}


@pytest.mark.parametrize("name", UNARY)
def test_function_of_one_tile(launch: Launch, name: str) -> None:
    ours, theirs = UNARY[name]
    x = torch.randn(N)
    o = torch.empty(N)
    launch(unary)[(1,)](x, o, ours, N)
    torch.testing.assert_close(o, theirs(x), rtol=2e-6, atol=2e-6)


BINARY: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", BINARY)
def test_integers(launch: Launch, name: str, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x, y = (torch.randint(info.min, info.max, (N,), dtype=dtype) for _ in range(2))
    y[:8] = x[:8]
    expected = BINARY[name](x, y)
    o = torch.empty_like(expected)
    launch(binary)[(1,)](x, y, o, BINARY[name], N)
    assert torch.equal(o, expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_truncates(launch: Launch, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = torch.randint(info.min + 1, info.max, (N,), dtype=dtype)
    y = torch.randint(1, 11, (N,), dtype=dtype)
    if dtype.is_signed:
        y[::3] = -y[::3]
    quotient, rest = torch.empty_like(x), torch.empty_like(x)
    launch(binary)[(1,)](x, y, quotient, lambda a, b: a // b, N)
    launch(binary)[(1,)](x, y, rest, lambda a, b: a % b, N)
    assert torch.equal(quotient, torch.div(x, y, rounding_mode="trunc"))
    assert torch.equal(rest, torch.fmod(x, y))


def test_shifts(launch: Launch) -> None:
    x, y = torch.randint(-1000, 1000, (N,), dtype=torch.int32), torch.randint(0, 31, (N,), dtype=torch.int32)
    for op in (lambda a, b: a << b, lambda a, b: a >> b):
        o = torch.empty_like(x)
        launch(binary)[(1,)](x, y, o, op, N)
        assert torch.equal(o, op(x, y))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_conversion_rounds_to_nearest_even(launch: Launch, dtype: torch.dtype) -> None:
    bits = torch.randint(-(2**31), 2**31 - 1, (4096,), dtype=torch.int32)
    x = bits.view(torch.float32)
    o = torch.empty(4096, dtype=dtype)
    launch(unary)[(1,)](x, o, lambda v: v, 4096)
    expected = x.to(dtype)
    assert torch.equal(o.isnan() if dtype.itemsize > 1 else o.float().isnan(), expected.float().isnan())
    same = ~expected.float().isnan()
    assert torch.equal(o.float()[same], expected.float()[same])


ARITHMETIC = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "chain": lambda x, y: x * y + x - y,
    "scalar": lambda x, y: x * 3 + 0.1,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_every_operation_rounds(launch: Launch, name: str, dtype: torch.dtype) -> None:
    """Bits are those of eager torch, which rounds after each operation."""
    x, y = torch.randn(256).to(dtype), torch.randn(256).to(dtype)
    o = torch.empty_like(x)
    launch(binary)[(1,)](x, y, o, ARITHMETIC[name], 256)
    expected = x * y + x - y if name == "chain" else x * 3 + 0.1 if name == "scalar" else ARITHMETIC[name](x, y)
    assert torch.equal(o, expected)


@torch_tile.jit
def high_products(x_ptr, y_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.umulhi(tl.load(x_ptr + i), tl.load(y_ptr + i)))


@pytest.mark.parametrize("bits", [32, 64])
def test_high_half_of_products(launch: Launch, bits: int) -> None:
    dtype = torch.int32 if bits == 32 else torch.int64
    x, y = (torch.randint(0, 2 ** (bits - 1) - 1, (1024,), dtype=dtype) for _ in range(2))
    o = torch.empty_like(x)
    launch(high_products)[(1,)](x, y, o, 1024)
    assert o.tolist() == [(a * b) >> bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]


@torch_tile.jit
def atomics(p_ptr, o_ptr, mask_ptr, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    m = tl.load(mask_ptr + i) != 0
    tl.store(o_ptr + i, OP(p_ptr + i // 2, (i + 1).to(p_ptr.dtype.element_ty), mask=m))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["add", "max", "min", "and", "or", "xor", "xchg"])
def test_colliding_atomics(launch: Launch, kind: str, dtype: torch.dtype) -> None:
    if dtype.is_floating_point and kind in ("and", "or", "xor"):
        return
    p = torch.full((8,), 6).to(dtype)
    mask = torch.tensor([1, 1, 0, 1] * 4, dtype=torch.int32)
    o = torch.empty(16, dtype=dtype)
    expected, old = p.tolist(), []
    update = {
        "add": lambda a, b: a + b,
        "max": max,
        "min": min,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "xchg": lambda a, b: b,
    }[kind]
    for k in range(16):
        old.append(expected[k // 2] if mask[k] else 0)
        if mask[k]:
            expected[k // 2] = update(expected[k // 2], k + 1)
    launch(atomics)[(1,)](p, o, mask, getattr(tl, f"atomic_{kind}"), 16)
    assert p.tolist() == expected
    assert o.tolist() == old


@torch_tile.jit
def locked_count(lock_ptr, count_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


def test_lock(launch: Launch) -> None:
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    launch(locked_count)[(50,)](lock, count)
    assert count.item() == 50


@torch_tile.jit
def dots(a_ptr, b_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(o_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8])
def test_dot(launch: Launch, dtype: torch.dtype) -> None:
    if dtype == torch.int8:
        a, b = torch.randint(-9, 9, (16, 32), dtype=dtype), torch.randint(-9, 9, (32, 8), dtype=dtype)
        o = torch.empty(16, 8, dtype=torch.int32)
        expected = (a.int() @ b.int()).int()
    else:
        a, b = torch.randn(16, 32).to(dtype), torch.randn(32, 8).to(dtype)
        o = torch.empty(16, 8, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
        expected = (a.double() @ b.double()).to(o.dtype)
    launch(dots)[(1,)](a, b, o, 16, 8, 32)
    torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-4)


@torch_tile.jit
def described(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    o.store([row, column], x.load([row, column]) * 2)


@torch_tile.jit
def blocks(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    o = tl.make_block_ptr(o_ptr, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        v = tl.load(x, boundary_check=(0, 1), padding_option="zero")
        tl.store(o, v * 2, boundary_check=(0, 1))
        x = tl.advance(x, (0, BN))
        o = tl.advance(o, (0, BN))


def test_descriptors_and_block_pointers(launch: Launch) -> None:
    x = torch.randn(37, 50)
    for kernel, grid in ((described, (5, 4)), (blocks, (5,))):
        o = torch.zeros_like(x)
        launch(kernel)[grid](x, o, 37, 50, 8, 16)
        assert torch.equal(o, x * 2)


@torch_tile.jit
def counted(x_ptr, o_ptr, B: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))
    tl.store(o_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


def test_histogram(launch: Launch) -> None:
    x = torch.randint(0, 16, (128,), dtype=torch.int32)
    o = torch.empty(16, dtype=torch.int32)
    launch(counted)[(1,)](x, o, 128, 16)
    assert torch.equal(o.long(), torch.bincount(x, minlength=16))


@torch_tile.jit
def random(o_ptr, n_ptr, i_ptr, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.rand(seed, i))
    tl.store(n_ptr + i, tl.randn(seed, i))
    tl.store(i_ptr + i, tl.randint(seed, i).to(tl.int64))


def test_random_numbers_are_philox(launch: Launch) -> None:
    o, n, i = torch.empty(1024), torch.empty(1024), torch.empty(1024, dtype=torch.int64)
    launch(random)[(1,)](o, n, i, 42, 1024)

    def philox(counter: int, seed: int) -> int:
        c, k = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c[0]

    assert i[:32].tolist() == [philox(k, 42) for k in range(32)]
    assert o.min() >= 0 and o.max() < 1 and abs(o.mean() - 0.5) < 0.05
    assert abs(n.mean()) < 0.15 and abs(n.std() - 1) < 0.1


@torch_tile.jit
def welford(x_ptr, o_ptr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))

    def combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
        n = n_a + n_b
        delta = mean_b - mean_a
        return mean_a + delta * (n_b / n), m2_a + m2_b + delta * delta * (n_a * n_b / n), n

    mean, m2, n = tl.reduce((x, tl.zeros([B], tl.float32), tl.full([B], 1.0, tl.float32)), 0, combine)
    tl.store(o_ptr, mean)
    tl.store(o_ptr + 1, m2 / n)


def test_reduction_of_several_values(launch: Launch) -> None:
    x, o = torch.randn(1024), torch.empty(2)
    launch(welford)[(1,)](x, o, 1024)
    torch.testing.assert_close(o, torch.stack([x.mean(), x.var(correction=0)]), rtol=1e-5, atol=1e-6)


@torch_tile.jit
def indirect(table_ptr, o_ptr, B: tl.constexpr):
    addresses = tl.load(table_ptr + tl.arange(0, B))
    pointers = addresses.to(tl.pointer_type(tl.float32))
    tl.store(o_ptr + tl.arange(0, B), tl.load(pointers + 1))


def test_table_of_pointers(launch: Launch) -> None:
    sources = [torch.randn(4) for _ in range(8)]
    table = torch.tensor([s.data_ptr() for s in sources])
    o = torch.empty(8)
    launch(indirect)[(1,)](table, o, 8)
    assert torch.equal(o, torch.stack([s[1] for s in sources]))


@torch_tile.jit
def scaled(a_ptr, s_ptr, b_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    scale = tl.load(s_ptr + m[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :])
    tl.store(o_ptr + m[:, None] * N + n[None, :], tl.dot_scaled(a, scale, "e4m3", b, None, "bf16"))


def test_dot_scaled(launch: Launch) -> None:
    a, b = torch.randn(16, 64).to(torch.float8_e4m3fn), torch.randn(64, 16).bfloat16()
    scale = torch.randint(120, 132, (16, 2), dtype=torch.uint8)
    o = torch.empty(16, 16)
    launch(scaled)[(1,)](a.view(torch.uint8), scale, b, o, 16, 16, 64)
    factors = torch.exp2(scale.float() - 127).repeat_interleave(32, 1)
    torch.testing.assert_close(o, (a.float() * factors) @ b.float(), rtol=1e-4, atol=1e-3)


@torch_tile.jit
def packed_rows(a_ptr, s_ptr, b_ptr, o_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, n, k = tl.arange(0, M // 2), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    scale = tl.load(s_ptr + tl.arange(0, M)[:, None] * (K // 16) + tl.arange(0, K // 16)[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    product = tl.dot_scaled(a, scale, "e2m1", b, None, "bf16", lhs_k_pack=False)
    tl.store(o_ptr + tl.arange(0, M)[:, None] * N + n[None, :], product)


def test_dot_scaled_of_rows_in_pairs_and_factors_as_floats(launch: Launch) -> None:
    """Two rows share a byte; scales are 8-bit floats for groups of 16."""
    M, K, N = 8, 32, 4
    numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = torch.randint(0, 16, (M, K))
    a = (codes[0::2] | (codes[1::2] << 4)).to(torch.uint8)
    values = numbers[codes & 7] * torch.where(codes >= 8, -1.0, 1.0)
    scale = torch.tensor([0.5, 1.5, 2.0, 0.25]).repeat(M * K // 64).reshape(M, K // 16).to(torch.float8_e4m3fn)
    b = torch.randint(-3, 4, (K, N)).bfloat16()
    o = torch.empty(M, N)
    launch(packed_rows)[(1,)](a, scale, b, o, M=M, K=K, N=N)
    assert torch.equal(o, (values * scale.float().repeat_interleave(16, 1)) @ b.float())


@torch_tile.jit
def batched_dot(x_ptr, y_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, 4 * B * B)
    x = tl.load(x_ptr + i).reshape([2, 2, B, B])
    y = tl.load(y_ptr + i).reshape([2, 2, B, B])
    tl.store(o_ptr + i, tl.dot(x, y, tl.full([2, 2, B, B], 1.0, tl.float32)).reshape([4 * B * B]))


def test_dot_of_more_axes(launch: Launch) -> None:
    x, y = torch.randint(-3, 4, (2, 2, 16, 16)).float(), torch.randint(-3, 4, (2, 2, 16, 16)).float()
    o = torch.empty_like(x)
    launch(batched_dot)[(1,)](x, y, o, B=16)
    assert torch.equal(o, x @ y + 1)


@torch_tile.jit
def shift_right(x_ptr, y_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i) >> tl.load(y_ptr + i))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("amount", [torch.uint8, torch.uint32, torch.uint64, torch.int16])
def test_shifts_keep_the_sign_of_what_is_shifted(launch: Launch, dtype: torch.dtype, amount: torch.dtype) -> None:
    x = torch.tensor([-100, 100, -1, 77], dtype=dtype)
    y = torch.tensor([1, 2, 3, 7], dtype=torch.int64)
    o = torch.zeros(4, dtype=torch.int64)
    launch(shift_right)[(1,)](x, y.to(amount), o, B=4)
    bits = max(torch.iinfo(dtype).bits, torch.iinfo(amount).bits)
    expected = x.long() >> y
    if not amount.is_signed and torch.iinfo(amount).bits >= torch.iinfo(dtype).bits and bits < 64:
        expected = expected & ((1 << bits) - 1)  # the common type is unsigned
    assert torch.equal(o, expected)


@torch_tile.jit
def ordered(x_ptr, up_ptr, down_ptr, top_ptr, ends_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(up_ptr + i, tl.sort(x))
    tl.store(down_ptr + i, tl.sort(x, descending=True))
    tl.store(top_ptr + tl.arange(0, 8), tl.topk(x, 8))
    tl.store(ends_ptr + tl.arange(0, 1), tl.topk(x, 1))
    tl.store(ends_ptr + 1 + tl.arange(0, 1), tl.topk(x, 1, descending=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_order_of_nan(launch: Launch, dtype: torch.dtype) -> None:
    x = torch.randn(N).to(dtype)
    x[::5], x[3], x[17], x[30:32] = float("nan"), float("inf"), -float("inf"), 0.0
    up, down, top = torch.empty(N, dtype=dtype), torch.empty(N, dtype=dtype), torch.empty(8, dtype=dtype)
    ends = torch.empty(2, dtype=dtype)
    launch(ordered)[(1,)](x, up, down, top, ends, B=N)
    torch.testing.assert_close(up, x.sort().values, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(down, x.sort(descending=True).values, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(top, x.topk(8).values, rtol=0, atol=0, equal_nan=True)
    assert ends[0].isnan() and ends[1] == -float("inf")
