"""Kernels of the tests, written for them."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice as device_library


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def fill_with(out_ptr, n):
    tl.store(out_ptr, n.to(tl.int64))


@triton.jit
def softmax(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + columns, e / tl.sum(e, 0), mask=columns < n)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    columns = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    depth = tl.arange(0, BK)
    a_ptrs = a + rows[:, None] * K + depth[None, :]
    b_ptrs = b + depth[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(a_ptrs, mask=depth[None, :] < K - k * BK, other=0.0)
        y = tl.load(b_ptrs, mask=depth[:, None] < K - k * BK, other=0.0)
        total = tl.dot(x, y, total)
        a_ptrs += BK
        b_ptrs += BK * N
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=mask)


@triton.jit
def attention(q, k, v, out, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + inner[None, :], mask=rows[:, None] < n, other=0.0)
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        columns = start + tl.arange(0, BN)
        keys = tl.load(k + columns[:, None] * D + inner[None, :], mask=columns[:, None] < n, other=0.0)
        score = tl.dot(queries, tl.trans(keys))
        score = tl.where(columns[None, :] < n, score, -float("inf"))
        larger = tl.maximum(largest, tl.max(score, 1))
        p = tl.exp(score - larger[:, None])
        scale = tl.exp(largest - larger)
        weight = weight * scale + tl.sum(p, 1)
        values = tl.load(v + columns[:, None] * D + inner[None, :], mask=columns[:, None] < n, other=0.0)
        total = tl.dot(p, values, total * scale[:, None])
        largest = larger
    tl.store(out + rows[:, None] * D + inner[None, :], total / weight[:, None], mask=rows[:, None] < n)


@triton.jit
def _welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    share = tl.where(n == 0, 0.0, n_b / n)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def variance(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    mean, m2, n = tl.reduce((x, tl.zeros_like(x), tl.full((N,), 1.0, tl.float32)), 0, _welford)
    tl.store(out_ptr, mean)
    tl.store(out_ptr + 1, m2 / n)


@triton.jit
def _recurrence(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    _, h = tl.associative_scan((tl.load(a_ptr + at), tl.load(b_ptr + at)), AXIS, _recurrence, reverse=REVERSE)
    tl.store(out_ptr + at, h)


@triton.jit
def sort(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at), descending=DESCENDING))


@triton.jit
def histogram(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(tl.load(x_ptr + tl.arange(0, N)), BINS))


@triton.jit
def collide(where_ptr, value_ptr, out_ptr, old_ptr, N: tl.constexpr, KIND: tl.constexpr):
    lane = tl.arange(0, N)
    where = tl.load(where_ptr + lane)
    value = tl.load(value_ptr + lane)
    if KIND == "add":
        old = tl.atomic_add(out_ptr + where, value, mask=lane < N - 1)
    elif KIND == "max":
        old = tl.atomic_max(out_ptr + where, value, mask=lane < N - 1)
    else:
        old = tl.atomic_min(out_ptr + where, value, mask=lane < N - 1)
    tl.store(old_ptr + lane, old)


@triton.jit
def locked(lock_ptr, count_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def pointer_table(table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pointer = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * n + at, tl.load(pointer + at, mask=at < n, other=-1.0), mask=at < n)


@triton.jit
def rearrange(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    both = tl.join(x, y)
    left, right = tl.split(tl.reshape(tl.trans(both), (N, 2)))
    tl.store(out_ptr + at, left)
    tl.store(out_ptr + N + at, right)
    tl.store(out_ptr + 2 * N + tl.arange(0, 2 * N), tl.interleave(x, y))
    tl.store(out_ptr + 4 * N + at, tl.gather(x, (at * 7) % N, 0))
    tl.store(out_ptr + 5 * N + at, tl.flip(x, 0))


@triton.jit
def collatz(x_ptr, out_ptr):
    n = tl.load(x_ptr + tl.program_id(0))
    steps = 0
    if n <= 0:
        return
    while n != 1:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    tl.store(out_ptr + tl.program_id(0), steps)


@triton.jit
def grid_ids(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out_ptr + at, x + 10 * y + 100 * z)


@triton.jit
def descriptor_copy(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BM, BN])
    out = tl.make_tensor_descriptor(out_ptr, [m, n], [n, 1], [BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    out.store(at, x.load(at) * 2)


@triton.jit
def divide(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1)
    y = tl.load(y_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, x // y, mask=at < n)


@triton.jit
def shift_in_place(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x + 1)


@triton.jit(debug=True)
def check(x_ptr, N: tl.constexpr):
    tl.device_assert(tl.load(x_ptr + tl.arange(0, N)) < 10, "too large")


@triton.jit
def show(x_ptr, N: tl.constexpr):
    tl.device_print("x:", tl.load(x_ptr + tl.arange(0, N)))


@triton.jit
def libdevice(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.extra.libdevice.tanh(x) + tl.extra.libdevice.pow(x, x))


@triton.jit
def float8(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.float8e4nv).to(tl.float32))


@triton.jit
def assembly(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x_ptr + tl.arange(0, N), y)


@triton.jit
def high_halves(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.umulhi(tl.load(x_ptr + at), tl.load(y_ptr + at)))


@triton.jit
def split_pointers(table_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    addresses = tl.load(table_ptr + 2 * at[:, None] + tl.arange(0, 2)[None, :])
    left, right = tl.split(addresses)
    x = tl.load(left.to(tl.pointer_type(tl.float32)))
    y = tl.load(right.to(tl.pointer_type(tl.float32)))
    tl.store(out_ptr + at, x - 2 * y)


@triton.jit
def _both(x, y):
    return x + y, x - y


@triton.jit
def map_two(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    s, d = tl.map_elementwise(_both, tl.load(x_ptr + at), tl.load(y_ptr + at))
    tl.store(out_ptr + at, d)
    tl.store(out_ptr + N + at, s)


@triton.jit
def scale_rows(x_ptr, stride_m, stride_n, out_ptr, n, factor, NEGATE: tl.constexpr, flag, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_m + at * stride_n, mask=at < n)
    y = x * factor
    if NEGATE:
        y = -y
    if flag:
        y += 1
    tl.store(out_ptr + row * n + at, y.to(out_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def accumulate(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0))


@triton.jit
def add_and_subtract(x_ptr, y_ptr, sum_ptr, difference_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    tl.store(sum_ptr + at, x + y, mask=at < n)
    tl.store(difference_ptr + at, x - y, mask=at < n)


@triton.jit
def shift_left(x_ptr, n, BLOCK: tl.constexpr):
    """x[i] = x[i + 1], all loaded before anything is stored."""
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at + 1, mask=at < n - 1), mask=at < n - 1)


@triton.jit(debug=True)
def checked_copy(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.device_assert(x < 10, "too large")
    tl.store(out_ptr + at, x)


@triton.jit
def float8_of_triton(x_ptr, bits_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    y = tl.load(x_ptr + at).to(tl.float8e4b15)
    tl.store(bits_ptr + at, y.to(tl.uint8, bitcast=True))
    tl.store(out_ptr + at, y.to(tl.float32))


@triton.jit
def poll(flag_ptr, out_ptr, timeout):
    tl.store(out_ptr, tl.atomic_poll(flag_ptr, 3, timeout_ns=timeout))


@triton.jit
def wait_for_lower(flags_ptr, out_ptr):
    """Each program waits for the one before it."""
    pid = tl.program_id(0)
    if pid > 0:
        tl.atomic_poll(flags_ptr + pid - 1, 1)
    tl.store(out_ptr + pid, tl.load(out_ptr + tl.maximum(pid, 1) - 1) + 1)
    tl.atomic_xchg(flags_ptr + pid, 1)


@triton.jit
def running_sum(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.cumsum(tl.load(x_ptr + at), AXIS))


@triton.jit
def show_hex(x_ptr, N: tl.constexpr):
    tl.device_print("x:", tl.load(x_ptr + tl.arange(0, N)), hex=True)


@triton.jit
def layer_norm(x_ptr, out_ptr, weight_ptr, bias_ptr, n, eps, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    x = tl.load(x_ptr + row + at, mask=at < n, other=0.0)
    mean = tl.sum(x, 0) / n
    d = tl.where(at < n, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    y = d * scale * tl.load(weight_ptr + at, mask=at < n) + tl.load(bias_ptr + at, mask=at < n)
    tl.store(out_ptr + row + at, y, mask=at < n)


@triton.jit
def special(x_ptr, out_ptr, FUNCTION: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, getattr(device_library, FUNCTION)(tl.load(x_ptr + at)))


@triton.jit
def rounded_by_library(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, device_library.add_rd(x, y))
    tl.store(out_ptr + N + at, device_library.div_ru(x, y))
    tl.store(out_ptr + 2 * N + at, device_library.mul_rz(x, y))
    tl.store(out_ptr + 3 * N + at, device_library.fma_rd(x, y, x))
    tl.store(out_ptr + 4 * N + at, device_library.sqrt_ru(tl.abs(x)))
    tl.store(out_ptr + 5 * N + at, device_library.ll2float_rz(x.to(tl.int64) * 1234567891011))


@triton.jit
def special_of_library(x_ptr, n_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, n = tl.load(x_ptr + at), tl.load(n_ptr + at)
    tl.store(out_ptr + at, device_library.jn(n, x))
    tl.store(out_ptr + N + at, device_library.yn(n, x))
    tl.store(out_ptr + 2 * N + at, device_library.tgamma(x))
    tl.store(out_ptr + 3 * N + at, device_library.nextafter(x, -x))
    tl.store(out_ptr + 4 * N + at, device_library.remainder(x * 7, x + 1))
    tl.store(out_ptr + 5 * N + at, device_library.logb(x) + device_library.ilogb(x))
    tl.store(out_ptr + 6 * N + at, device_library.norm3d(x, x, x) * device_library.rnorm3d(x, x, x))
    tl.store(out_ptr + 7 * N + at, device_library.float2int_rd(x) + device_library.float2uint_ru(x).to(tl.int32))


@triton.jit
def bits_of_library(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, device_library.brev(device_library.brev(x) + 1))
    tl.store(out_ptr + N + at, device_library.byte_perm(x, ~x, 0x7531 + x * 0))
    tl.store(out_ptr + 2 * N + at, device_library.mul24(x, x))
    tl.store(out_ptr + 3 * N + at, device_library.sad(x, -x, x))
    tl.store(out_ptr + 4 * N + at, device_library.hadd(x, -x + 3) + device_library.rhadd(x, -x + 3))
