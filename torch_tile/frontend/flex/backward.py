"""The kernels of the gradient of `flex_attention`: one for queries, one for keys and values.

Weights are computed again from the sums of exponentials of each row (log-sum-exp, base 2). `delta` is, for each row,
the sum of out * gradient of out, less the gradient of its log-sum-exp. No kernel adds to what another one writes, so
results are the same in every run.
"""

from __future__ import annotations

import torch_tile
import torch_tile.language as tl
from torch_tile.frontend.flex.forward import block_of, listed, load_rows, store_rows


@torch_tile.jit
def weigh(scores, grad, lse, delta, b, h, rows, keys, lengths, captured, C: tl.constexpr, WITH_MASK: tl.constexpr):
    """From products of queries and keys, and of gradients and values: (weights, gradients of the products).

    Rows that see no key have an infinite lse here, so their weights are 0.
    """
    q_length, kv_length, _ = lengths
    raw = scores * C.SCALE
    if C.score is None:
        weights = tl.math.exp2(scores * (C.SCALE * C.LOG2_E) - lse)
    else:
        weights = tl.math.exp2(C.score(raw, b, h, rows, keys, captured[0]) * C.LOG2_E - lse)
    keep = None
    if WITH_MASK and C.mask is not None:
        keep = C.mask(b, h, rows, keys, captured[1])
    if not C.EVEN_M:
        keep = rows < q_length if keep is None else keep & (rows < q_length)
    if not C.EVEN_N:
        keep = keys < kv_length if keep is None else keep & (keys < kv_length)
    if keep is not None:
        weights = tl.where(keep, weights, 0.0)
    changes = weights * (grad - delta)
    if C.score is not None:
        changes = C.gradient(raw, b, h, rows, keys, changes, captured[0])
        if keep is not None:
            changes = tl.where(keep, changes, 0.0)
    return weights, changes


@torch_tile.jit
def load_sums(lse_base, delta_base, first, offsets, q_length, IS_WHOLE: tl.constexpr):
    """lse and delta of rows; lse is infinite where it was -infinite, and outside."""
    if IS_WHOLE:
        lse = tl.load(lse_base + first + offsets)
        delta = tl.load(delta_base + first + offsets)
    else:
        inside = first + offsets < q_length
        lse = tl.load(lse_base + first + offsets, mask=inside, other=float("inf"))
        delta = tl.load(delta_base + first + offsets, mask=inside, other=0.0)
    return tl.where(lse == float("-inf"), float("inf"), lse), delta


@torch_tile.jit
def visit_keys(
    dq, fixed, bases, indices, steps, place, lengths, strides, captured, C: tl.constexpr, WITH_MASK: tl.constexpr
):
    """Adds to the gradient of a block of rows what the keys of one list give."""
    q, grad, lse, delta = fixed
    b, h, rows = place
    kv_length = lengths[1]
    cols = tl.arange(0, C.BLOCK_N)
    dims, v_dims = tl.arange(0, C.D), tl.arange(0, C.DV)
    for step in range(steps):
        first = block_of(step, indices, C.KEYS)
        k = load_rows(bases[0], first, strides[0], cols, dims, kv_length, C.WIDTH, C.EVEN_N, C.WIDTH == C.D)
        v = load_rows(bases[1], first, strides[1], cols, v_dims, kv_length, C.V_WIDTH, C.EVEN_N, C.V_WIDTH == C.DV)
        scores = tl.dot(q, tl.trans(k), input_precision=C.PRECISION)
        of_weights = tl.dot(grad, tl.trans(v), input_precision=C.PRECISION)
        keys = (first + cols)[None, :]
        _, changes = weigh(
            scores, of_weights, lse[:, None], delta[:, None], b, h, rows[:, None], keys, lengths, captured, C, WITH_MASK
        )
        dq = tl.dot(changes.to(k.dtype), k, dq, input_precision=C.PRECISION)
    return dq


@torch_tile.jit
def flex_backward_queries(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, partial, full, captured, lengths, q_strides, k_strides,
    v_strides, grad_strides, dq_strides, C: tl.constexpr,
):  # fmt: skip
    """The gradient of one block of rows of one head."""
    q_length, kv_length, heads = lengths
    blocks = tl.cdiv(q_length, C.BLOCK_M)
    program = tl.program_id(0)
    row_block = blocks - 1 - program % blocks
    head = program // blocks
    b, h = head // heads, head % heads
    first = row_block * C.BLOCK_M
    offsets = tl.arange(0, C.BLOCK_M)
    dims, v_dims = tl.arange(0, C.D), tl.arange(0, C.DV)
    wide_b, wide_h = b.to(tl.int64), h.to(tl.int64)
    q_base = q_ptr + wide_b * q_strides[0] + wide_h * q_strides[1]
    grad_base = grad_ptr + wide_b * grad_strides[0] + wide_h * grad_strides[1]
    q = load_rows(q_base, first, q_strides[2], offsets, dims, q_length, C.WIDTH, C.EVEN_M, C.WIDTH == C.D)
    grad = load_rows(
        grad_base, first, grad_strides[2], offsets, v_dims, q_length, C.V_WIDTH, C.EVEN_M, C.V_WIDTH == C.DV
    )
    row = head.to(tl.int64) * q_length
    lse, delta = load_sums(lse_ptr + row, delta_ptr + row, first, offsets, q_length, C.EVEN_M)
    kv_b, kv_h = wide_b * C.IS_BATCHED, (h // C.GROUP).to(tl.int64)
    k_base = k_ptr + kv_b * k_strides[0] + kv_h * k_strides[1]
    v_base = v_ptr + kv_b * v_strides[0] + kv_h * v_strides[1]
    fixed, bases = (q, grad, lse, delta), (k_base, v_base)
    place, strides = (b, h, first + offsets), (k_strides[2], v_strides[2])
    dq = tl.zeros((C.BLOCK_M, C.D), C.SUM)
    indices, steps = listed(partial, first // C.MASK_M, b, h, kv_length, C.KEYS, C)
    dq = visit_keys(dq, fixed, bases, indices, steps, place, lengths, strides, captured, C, True)
    if C.HAS_FULL:
        indices, steps = listed(full, first // C.MASK_M, b, h, kv_length, C.KEYS, C)
        dq = visit_keys(dq, fixed, bases, indices, steps, place, lengths, strides, captured, C, False)
    dq_base = dq_ptr + wide_b * dq_strides[0] + wide_h * dq_strides[1]
    store_rows(dq_base, dq * C.SCALE, first, dq_strides[2], offsets, dims, q_length, C.WIDTH, C.EVEN_M, C.WIDTH == C.D)


@torch_tile.jit
def visit_rows(
    carried, fixed, bases, indices, steps, place, lengths, strides, captured, C: tl.constexpr, WITH_MASK: tl.constexpr
):
    """Adds to the gradients of a block of keys and values what the rows of one list give."""
    dk, dv = carried
    k, v = fixed
    b, h, keys = place
    q_length = lengths[0]
    offsets = tl.arange(0, C.BLOCK_M)
    dims, v_dims = tl.arange(0, C.D), tl.arange(0, C.DV)
    for step in range(steps):
        first = block_of(step, indices, C.ROWS)
        q = load_rows(bases[0], first, strides[0], offsets, dims, q_length, C.WIDTH, C.EVEN_M, C.WIDTH == C.D)
        grad = load_rows(bases[1], first, strides[1], offsets, v_dims, q_length, C.V_WIDTH, C.EVEN_M, C.V_WIDTH == C.DV)
        lse, delta = load_sums(bases[2], bases[3], first, offsets, q_length, C.EVEN_M)
        scores = tl.dot(k, tl.trans(q), input_precision=C.PRECISION)
        of_weights = tl.dot(v, tl.trans(grad), input_precision=C.PRECISION)
        rows = (first + offsets)[None, :]
        weights, changes = weigh(
            scores, of_weights, lse[None, :], delta[None, :], b, h, rows, keys[:, None], lengths, captured, C, WITH_MASK
        )
        dv = tl.dot(weights.to(grad.dtype), grad, dv, input_precision=C.PRECISION)
        dk = tl.dot(changes.to(q.dtype), q, dk, input_precision=C.PRECISION)
    return dk, dv


@torch_tile.jit
def flex_backward_keys(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, partial, full, captured, lengths, q_strides,
    k_strides, v_strides, grad_strides, dk_strides, dv_strides, C: tl.constexpr,
):  # fmt: skip
    """The gradients of one block of keys and values of one of their heads: sums over the heads of queries it serves."""
    q_length, kv_length, heads = lengths
    kv_heads = heads // C.GROUP
    blocks = tl.cdiv(kv_length, C.BLOCK_N)
    program = tl.program_id(0)
    # The first keys of causal masks are seen by most rows.
    block = program % blocks
    kv_head = program // blocks
    b, kv_h = kv_head // kv_heads, kv_head % kv_heads
    first = block * C.BLOCK_N
    cols = tl.arange(0, C.BLOCK_N)
    dims, v_dims = tl.arange(0, C.D), tl.arange(0, C.DV)
    wide_b, wide_h = b.to(tl.int64), kv_h.to(tl.int64)
    kv_b = wide_b * C.IS_BATCHED
    k_base = k_ptr + kv_b * k_strides[0] + wide_h * k_strides[1]
    v_base = v_ptr + kv_b * v_strides[0] + wide_h * v_strides[1]
    k = load_rows(k_base, first, k_strides[2], cols, dims, kv_length, C.WIDTH, C.EVEN_N, C.WIDTH == C.D)
    v = load_rows(v_base, first, v_strides[2], cols, v_dims, kv_length, C.V_WIDTH, C.EVEN_N, C.V_WIDTH == C.DV)
    dk = tl.zeros((C.BLOCK_N, C.D), C.SUM)
    dv = tl.zeros((C.BLOCK_N, C.DV), C.SUM)
    strides = (q_strides[2], grad_strides[2])
    for member in range(C.GROUP):
        h = kv_h * C.GROUP + member
        q_base = q_ptr + wide_b * q_strides[0] + h.to(tl.int64) * q_strides[1]
        grad_base = grad_ptr + wide_b * grad_strides[0] + h.to(tl.int64) * grad_strides[1]
        row = (wide_b * heads + h) * q_length
        bases, place = (q_base, grad_base, lse_ptr + row, delta_ptr + row), (b, h, first + cols)
        indices, steps = listed(partial, first // C.MASK_N, b, h, q_length, C.ROWS, C)
        dk, dv = visit_rows((dk, dv), (k, v), bases, indices, steps, place, lengths, strides, captured, C, True)
        if C.HAS_FULL:
            indices, steps = listed(full, first // C.MASK_N, b, h, q_length, C.ROWS, C)
            dk, dv = visit_rows((dk, dv), (k, v), bases, indices, steps, place, lengths, strides, captured, C, False)
    dk_base = dk_ptr + wide_b * dk_strides[0] + wide_h * dk_strides[1]
    store_rows(dk_base, dk * C.SCALE, first, dk_strides[2], cols, dims, kv_length, C.WIDTH, C.EVEN_N, C.WIDTH == C.D)
    dv_base = dv_ptr + wide_b * dv_strides[0] + wide_h * dv_strides[1]
    store_rows(dv_base, dv, first, dv_strides[2], cols, v_dims, kv_length, C.V_WIDTH, C.EVEN_N, C.V_WIDTH == C.DV)
