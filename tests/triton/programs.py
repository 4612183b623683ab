"""Whole programs as they are written for Triton: kernels with the functions that launch them, autotuned and with
gradients. Tests load this source as it is, and once more with its imports changed to the tile language."""

import torch
import triton
import triton.language as tl

# --- pointwise ---


@triton.jit
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, total, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    _add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=1024)
    return out


# --- softmax: few programs, each of many rows ---


@triton.jit
def _softmax(out_ptr, x_ptr, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * x_stride + at, mask=mask, other=-float("inf"))
        powers = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + at, powers / tl.sum(powers, axis=0), mask=mask)


def softmax(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    _softmax[(min(rows, 24), 1, 1)](
        out, x, x.stride(0), out.stride(0), rows, columns, BLOCK=block, STAGES=4, num_warps=8
    )
    return out


# --- matrix product: neighbouring programs share columns, and the activation is a function of its own ---


@triton.jit
def _leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": 64, "BK": 32, "GROUP": 4}, num_stages=4, num_warps=4),
        triton.Config({"BM": 32, "BN": 64, "BK": 64, "GROUP": 8}, num_stages=3, num_warps=8),
    ],
    key=["M", "N", "K"],
)
@triton.heuristics({"WHOLE": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def _matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(axis=0)
    row_blocks, column_blocks = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group_size = GROUP * column_blocks
    first = program // group_size * GROUP
    group_rows = min(row_blocks - first, GROUP)
    block_m = first + program % group_size % group_rows
    block_n = program % group_size // group_rows
    tl.assume(block_m >= 0)
    tl.assume(stride_am > 0)

    depth = tl.arange(0, BK)
    rows = (block_m * BM + tl.arange(0, BM)) % M
    columns = (block_n * BN + tl.arange(0, BN)) % N
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        if WHOLE:
            a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=depth[None, :] < K - start, other=0.0)
            b = tl.load(b_ptrs, mask=depth[:, None] < K - start, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if ACTIVATION == "leaky_relu":
        total = _leaky_relu(total)

    rows = block_m * BM + tl.arange(0, BM)
    columns = block_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul(a, b, activation=""):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    _matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation)
    return c


# --- dropout: by a mask in memory, and by a seed ---


@triton.jit
def _masked_dropout(x_ptr, keep_ptr, out_ptr, n, p, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x, keep = tl.load(x_ptr + at, mask=mask), tl.load(keep_ptr + at, mask=mask)
    tl.store(out_ptr + at, tl.where(keep != 0, x / (1 - p), 0.0), mask=mask)


@triton.jit
def _seeded_dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    tl.store(out_ptr + at, tl.where(tl.rand(seed, at) > p, x / (1 - p), 0.0), mask=mask)


def dropout(x, keep, p):
    out = torch.empty_like(x)
    _masked_dropout[(triton.cdiv(x.numel(), 512),)](x, keep, out, x.numel(), p, BLOCK=512)
    return out


def seeded_dropout(x, p, seed):
    out = torch.empty_like(x)
    _seeded_dropout[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), p, seed, BLOCK=512)
    return out


# --- layer norm with gradients: programs add to a few shared rows, each under a lock ---


@triton.jit
def _norm_forward(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        x = tl.where(at < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < N
        w, b = tl.load(w_ptr + at, mask=mask), tl.load(b_ptr + at, mask=mask)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def _norm_backward(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, N,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < N
    x = tl.load(x_ptr + row * stride + at, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + at, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=mask).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1, c2 = tl.sum(xhat * wdy, axis=0) / N, tl.sum(wdy, axis=0) / N
    tl.store(dx_ptr + row * stride + at, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)

    group = row % GROUPS
    dw_ptr += group * N + at
    db_ptr += group * N + at
    dw, db = (dy * xhat).to(w.dtype), dy.to(w.dtype)
    lock = lock_ptr + group
    is_used = lock_ptr + GROUPS + group
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(is_used) == 0:
        tl.atomic_xchg(is_used, 1)
    else:
        dw += tl.load(dw_ptr, mask=mask)
        db += tl.load(db_ptr, mask=mask)
    tl.store(dw_ptr, dw, mask=mask)
    tl.store(db_ptr, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def _norm_sums(dw_ptr, db_ptr, dw_out, db_out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    dw, db = tl.zeros((BM, BN), dtype=tl.float32), tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, M, BM):
        rows = start + tl.arange(0, BM)
        mask = (rows[:, None] < M) & (columns[None, :] < N)
        at = rows[:, None] * N + columns[None, :]
        dw += tl.load(dw_ptr + at, mask=mask, other=0.0)
        db += tl.load(db_ptr + at, mask=mask, other=0.0)
    tl.store(dw_out + columns, tl.sum(dw, axis=0), mask=columns < N)
    tl.store(db_out + columns, tl.sum(db, axis=0), mask=columns < N)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, weight, bias, eps):
        y = torch.empty_like(x)
        M, N = x.shape
        mean, rstd = (torch.empty((M,), dtype=torch.float32, device=x.device) for _ in range(2))
        block = min(256, triton.next_power_of_2(N))
        _norm_forward[(M,)](x, y, weight, bias, mean, rstd, x.stride(0), N, eps, BLOCK=block, num_warps=4, num_ctas=1)
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        M, N = x.shape
        groups = 16
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        partial_dw, partial_db = (torch.zeros((groups, N), dtype=x.dtype, device=x.device) for _ in range(2))
        dw, db, dx = torch.empty_like(weight), torch.empty_like(weight), torch.empty_like(dy)
        _norm_backward[(M,)](
            dx, dy, partial_dw, partial_db, x, weight, mean, rstd, locks, x.stride(0), N,
            GROUPS=groups, BLOCK=triton.next_power_of_2(N),
        )  # fmt: skip
        grid = lambda meta: (triton.cdiv(N, meta["BN"]),)  # noqa: E731
        _norm_sums[grid](partial_dw, partial_db, dw, db, min(groups, M), N, BM=8, BN=128)
        return dx, None, dw, db, None


layer_norm = _LayerNorm.apply


# --- attention with gradients: rows of scores are never written ---


@triton.jit
def _attend(
    total, weight, largest, q, k_block, v_block, rows, low, high, factor, BN: tl.constexpr, MASKED: tl.constexpr
):
    """Columns [low, high) of the scores; those after the row are hidden where MASKED."""
    for start in tl.range(low, high, BN):
        start = tl.multiple_of(start, BN)
        k, v = k_block.load([start, 0]), v_block.load([start, 0])
        scores = tl.dot(q, tl.trans(k)) * factor
        if MASKED:
            scores = tl.where(rows[:, None] >= start + tl.arange(0, BN)[None, :], scores, -1.0e6)
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.math.exp2(scores - larger[:, None])
        scale = tl.math.exp2(largest - larger)
        weight = weight * scale + tl.sum(p, 1)
        total = tl.dot(p.to(v.dtype), v, total * scale[:, None])
        largest = larger
    return total, weight, largest


def _fits(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BM"] % config.kwargs["BN"] == 0]


@triton.autotune(
    configs=[triton.Config({"BM": bm, "BN": bn}, num_stages=2, num_warps=4) for bm in (32, 64) for bn in (32, 64)],
    key=["n", "D", "CAUSAL"],
    prune_configs_by={"early_config_prune": _fits},
)
@triton.jit
def _attention_forward(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, factor, n, D: tl.constexpr, CAUSAL: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    first, head = tl.program_id(0) * BM, tl.program_id(1).to(tl.int64)
    base = head * n * D
    q_block = tl.make_tensor_descriptor(q_ptr + base, shape=[n, D], strides=[D, 1], block_shape=[BM, D])
    k_block = tl.make_tensor_descriptor(k_ptr + base, shape=[n, D], strides=[D, 1], block_shape=[BN, D])
    v_block = tl.make_tensor_descriptor(v_ptr + base, shape=[n, D], strides=[D, 1], block_shape=[BN, D])
    out_block = tl.make_tensor_descriptor(out_ptr + base, shape=[n, D], strides=[D, 1], block_shape=[BM, D])
    rows = first + tl.arange(0, BM)
    largest = tl.full([BM], -float("inf"), dtype=tl.float32)
    weight = tl.zeros([BM], dtype=tl.float32)
    total = tl.zeros([BM, D], dtype=tl.float32)
    scale = factor * 1.4426950408889634  # powers of two
    q = q_block.load([first, 0])
    if CAUSAL:
        total, weight, largest = _attend(total, weight, largest, q, k_block, v_block, rows, 0, first, scale, BN, False)
        total, weight, largest = _attend(
            total, weight, largest, q, k_block, v_block, rows, first, first + BM, scale, BN, True
        )
    else:
        total, weight, largest = _attend(total, weight, largest, q, k_block, v_block, rows, 0, n, scale, BN, False)
    tl.store(lse_ptr + head * n + rows, largest + tl.math.log2(weight))
    out_block.store([first, 0], (total / weight[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def _attention_delta(out_ptr, dout_ptr, delta_ptr, n, BM: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(1) * n + tl.program_id(0) * BM + tl.arange(0, BM)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    products = tl.load(out_ptr + at).to(tl.float32) * tl.load(dout_ptr + at).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(products, axis=1))


@triton.jit
def _attention_backward(
    q_ptr, k_ptr, v_ptr, dout_ptr, dq_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, factor, n,
    D: tl.constexpr, CAUSAL: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Gradients of B keys and values, from all rows that see them; of B queries, from all columns they see."""
    scale = factor * 1.4426950408889634
    head = tl.program_id(1).to(tl.int64) * n
    here = tl.program_id(0) * B + tl.arange(0, B)
    inner = tl.arange(0, D)
    at = (head + here[:, None]) * D + inner[None, :]
    k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
    dk, dv = tl.zeros([B, D], dtype=tl.float32), tl.zeros([B, D], dtype=tl.float32)
    first = tl.program_id(0) * B if CAUSAL else 0
    for start in range(first, n, B):
        rows = start + tl.arange(0, B)
        there = (head + rows[:, None]) * D + inner[None, :]
        q, dout = tl.load(q_ptr + there), tl.load(dout_ptr + there)
        p = tl.math.exp2(tl.dot(q, tl.trans(k)) * scale - tl.load(lse_ptr + head + rows)[:, None])
        if CAUSAL:
            p = tl.where(rows[:, None] >= here[None, :], p, 0.0)
        dv += tl.dot(tl.trans(p.to(dout.dtype)), dout)
        ds = p * (tl.dot(dout, tl.trans(v)) - tl.load(delta_ptr + head + rows)[:, None])
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    tl.store(dk_ptr + at, dk * factor)
    tl.store(dv_ptr + at, dv)

    q, dout = tl.load(q_ptr + at), tl.load(dout_ptr + at)
    lse, delta = tl.load(lse_ptr + head + here)[:, None], tl.load(delta_ptr + head + here)[:, None]
    dq = tl.zeros([B, D], dtype=tl.float32)
    last = (tl.program_id(0) + 1) * B if CAUSAL else n
    for start in range(0, last, B):
        columns = start + tl.arange(0, B)
        there = (head + columns[:, None]) * D + inner[None, :]
        k, v = tl.load(k_ptr + there), tl.load(v_ptr + there)
        p = tl.math.exp2(tl.dot(q, tl.trans(k)) * scale - lse)
        if CAUSAL:
            p = tl.where(here[:, None] >= columns[None, :], p, 0.0)
        ds = p * (tl.dot(dout, tl.trans(v)) - delta)
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + at, dq * factor)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, factor):
        batch, heads, n, width = q.shape
        out = torch.empty_like(q)
        lse = torch.empty((batch, heads, n), device=q.device, dtype=torch.float32)
        grid = lambda meta: (triton.cdiv(n, meta["BM"]), batch * heads)  # noqa: E731
        _attention_forward[grid](q, k, v, out, lse, factor, n, D=width, CAUSAL=causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal, ctx.factor = causal, factor
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        batch, heads, n, width = q.shape
        dout = dout.contiguous()
        dq, dk, dv, delta = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(lse)
        grid = (triton.cdiv(n, 32), batch * heads)
        _attention_delta[grid](out, dout, delta, n, BM=32, D=width)
        _attention_backward[grid](
            q, k, v, dout, dq, dk, dv, lse, delta, ctx.factor, n, D=width, CAUSAL=ctx.causal, B=32
        )
        return dq, dk, dv, None, None


attention = _Attention.apply


# --- cross entropy with label smoothing: the gradient takes the place of the scores ---


@triton.jit
def _cross_entropy(
    x_ptr, stride, target_ptr, loss_ptr, classes, ignored, smoothing, grad, BLOCK: tl.constexpr,
    SMOOTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    target = tl.load(target_ptr + row)
    if target == ignored:
        tl.store(loss_ptr + row, 0.0)
        for start in range(0, classes, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(x_ptr + at, 0.0, mask=at < classes)
        return
    largest, weight, total = -float("inf"), 0.0, 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < classes, other=-float("inf")).cast(tl.float32)
        if SMOOTH:
            total += tl.sum(tl.where(at < classes, x, 0.0))
        larger = tl.maximum(largest, tl.max(x))
        weight = weight * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger))
        largest = larger
    lse = largest + tl.log(weight)
    loss = lse - tl.load(x_ptr + target).cast(tl.float32)
    if SMOOTH:
        loss = loss * (1 - smoothing) + smoothing * (lse - total / classes)
    tl.debug_barrier()
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < classes, other=-float("inf")).cast(tl.float32)
        gradient = tl.exp(x - lse) - smoothing / classes
        gradient = tl.where(at == target, gradient - (1 - smoothing), gradient) * grad
        tl.store(x_ptr + at, gradient.to(x_ptr.dtype.element_ty), mask=at < classes)
    tl.store(loss_ptr + row, loss)


def cross_entropy(scores, target, ignored=-100, smoothing=0.0):
    """The mean loss, and its gradient in the memory of a copy of the scores."""
    x = scores.clone()
    loss = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    count = int((target != ignored).sum())
    _cross_entropy[(x.shape[0],)](
        x, x.stride(0), target, loss, x.shape[1], ignored, smoothing, 1.0 / count, BLOCK=256, SMOOTH=smoothing > 0
    )
    return loss.sum() / count, x


# --- products of several sizes in one launch: addresses, sizes and strides lie in memory ---


@triton.jit
def _grouped_product(
    a_table, b_table, c_table, size_table, stride_table, groups,
    PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    done = 0
    for group in range(groups):
        m, n, k = (
            tl.load(size_table + 3 * group), tl.load(size_table + 3 * group + 1), tl.load(size_table + 3 * group + 2)
        )  # fmt: skip
        column_tiles = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * column_tiles
        while tile >= done and tile < done + tiles:
            lda = tl.load(stride_table + 3 * group)
            ldb = tl.load(stride_table + 3 * group + 1)
            ldc = tl.load(stride_table + 3 * group + 2)
            a_ptr = tl.load(a_table + group).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_table + group).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_table + group).to(tl.pointer_type(tl.float16))
            rows = (tile - done) // column_tiles * BM + tl.arange(0, BM)
            columns = (tile - done) % column_tiles * BN + tl.arange(0, BN)
            depth = tl.arange(0, BK)
            a_ptrs = a_ptr + rows[:, None] * lda + depth[None, :]
            b_ptrs = b_ptr + depth[:, None] * ldb + columns[None, :]
            total = tl.zeros((BM, BN), dtype=tl.float32)
            for left in range(k, 0, -BK):
                tl.multiple_of(a_ptrs, [16, 16])
                a = tl.load(a_ptrs, mask=(rows[:, None] < m) & (depth[None, :] < left), other=0.0)
                b = tl.load(b_ptrs, mask=(depth[:, None] < left) & (columns[None, :] < n), other=0.0)
                total += tl.dot(a, b)
                a_ptrs += BK
                b_ptrs += BK * ldb
            c_ptrs = c_ptr + rows[:, None] * ldc + columns[None, :]
            tl.store(c_ptrs, total.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))
            tile += PROGRAMS
        done += tiles


def grouped_product(group_a, group_b):
    device = group_a[0].device
    group_c = [
        torch.empty((a.shape[0], b.shape[1]), device=device, dtype=a.dtype)
        for a, b in zip(group_a, group_b, strict=True)
    ]
    a_table, b_table, c_table = (
        torch.tensor([t.data_ptr() for t in group], device=device) for group in (group_a, group_b, group_c)
    )
    sizes = torch.tensor(
        [[*a.shape[:1], b.shape[1], a.shape[1]] for a, b in zip(group_a, group_b, strict=True)], dtype=torch.int32
    )
    strides = torch.tensor(
        [[t.stride(0) for t in group] for group in zip(group_a, group_b, group_c, strict=True)], dtype=torch.int32
    )
    _grouped_product[(7,)](a_table, b_table, c_table, sizes, strides, len(group_a), PROGRAMS=7, BM=64, BN=32, BK=32)
    return group_c
