"""The kernel of `flex_attention`: softmax(function(q @ k.T * scale)) @ v, block by block (online softmax).

Milakov and Gimelshein 2018 (arXiv:1805.02867); Dao et al. 2022 (arXiv:2205.14135). A program computes `BLOCK_M` rows
of one head. It visits the blocks of keys that the mask lists for its rows. Exponents have base 2.
"""

from __future__ import annotations

import torch_tile
import torch_tile.language as tl

LOG2_E = 1.4426950408889634


@torch_tile.jit
def load_rows(base, first, stride, rows, dims, length, width, IS_WHOLE: tl.constexpr, IS_WIDE: tl.constexpr):
    """Rows `first + rows` of a matrix of `length` rows and `width` columns; 0 outside.

    IS_WHOLE: no row is outside. IS_WIDE: no column is.
    """
    pointers = base + first.to(tl.int64) * stride + rows[:, None] * stride + dims[None, :]
    if IS_WHOLE and IS_WIDE:
        return tl.load(pointers)
    if IS_WIDE:
        return tl.load(pointers, mask=(first + rows)[:, None] < length, other=0)
    return tl.load(pointers, mask=((first + rows)[:, None] < length) & (dims[None, :] < width), other=0)


@torch_tile.jit
def store_rows(
    base, values, first, stride, rows, dims, length, width, IS_WHOLE: tl.constexpr, IS_WIDE: tl.constexpr
):  # fmt: skip
    """Writes rows `first + rows` of a matrix, as `load_rows` reads them."""
    pointers = base + first.to(tl.int64) * stride + rows[:, None] * stride + dims[None, :]
    values = values.to(base.dtype.element_ty)
    if IS_WHOLE and IS_WIDE:
        tl.store(pointers, values)
    elif IS_WIDE:
        tl.store(pointers, values, mask=(first + rows)[:, None] < length)
    else:
        tl.store(pointers, values, mask=((first + rows)[:, None] < length) & (dims[None, :] < width))


@torch_tile.jit
def block_of(step, indices, PART: tl.constexpr):
    """Where the keys (or rows) of a step begin. `PART` is a `launches.Steps`."""
    if PART.COUNT == 0:  # one block of the mask holds all
        return step * PART.SIZE
    return tl.load(indices + step // PART.COUNT) * (PART.COUNT * PART.SIZE) + (step % PART.COUNT) * PART.SIZE


@torch_tile.jit
def attend(
    carried, q, k_base, v_base, indices, steps, place, sizes, captured, C: tl.constexpr, WITH_MASK: tl.constexpr
):
    """Adds the steps (first, end) of one list to (sum of weighted values, sum of weights, maximum) of each row."""
    acc, total, top = carried
    b, h, rows = place
    kv_length, k_stride, v_stride = sizes
    cols = tl.arange(0, C.BLOCK_N)
    dims, v_dims = tl.arange(0, C.D), tl.arange(0, C.DV)
    for step in range(steps[0], steps[1]):
        first = block_of(step, indices, C.KEYS)
        k = load_rows(k_base, first, k_stride, cols, dims, kv_length, C.WIDTH, C.EVEN_N, C.WIDTH == C.D)
        scores = tl.dot(q, tl.trans(k), input_precision=C.PRECISION)
        keys = (first + cols)[None, :]
        if C.score is not None:
            scores = C.score(scores * C.SCALE, b, h, rows[:, None], keys, captured[0]) * C.LOG2_E
        elif not C.SCALES_LATE:
            scores = scores * (C.SCALE * C.LOG2_E)
        if WITH_MASK and C.mask is not None:
            scores = tl.where(C.mask(b, h, rows[:, None], keys, captured[1]), scores, float("-inf"))
        if not C.EVEN_N:
            scores = tl.where(keys < kv_length, scores, float("-inf"))
        if C.SCALES_LATE:
            new_top = tl.maximum(top, tl.max(scores, 1) * (C.SCALE * C.LOG2_E))
            safe = tl.where(new_top == float("-inf"), 0.0, new_top)
            weights = tl.math.exp2(scores * (C.SCALE * C.LOG2_E) - safe[:, None])
        else:
            new_top = tl.maximum(top, tl.max(scores, 1))
            safe = tl.where(new_top == float("-inf"), 0.0, new_top)
            weights = tl.math.exp2(scores - safe[:, None])
        kept = tl.math.exp2(top - safe)
        total = total * kept + tl.sum(weights, 1)
        acc = acc * kept[:, None]
        v = load_rows(v_base, first, v_stride, cols, v_dims, kv_length, C.V_WIDTH, C.EVEN_N, C.V_WIDTH == C.DV)
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision=C.PRECISION)
        top = new_top
    return acc, total, top


@torch_tile.jit
def listed(lists, block, b, h, length, PART: tl.constexpr, C: tl.constexpr):
    """What a list of the mask holds for a block of rows (or keys): a pointer to the numbers, and how many steps.

    lists: (pointer to counts, pointer to numbers, strides of both over batch, head and block).
    """
    if C.IS_DENSE:  # all keys
        return lists, tl.cdiv(length, PART.SIZE)
    counts, numbers, count_strides, number_strides = lists
    b = b % C.MASK_BATCH
    h = h % C.MASK_HEADS
    count = tl.load(counts + b * count_strides[0] + h * count_strides[1] + block * count_strides[2])
    numbers += b * number_strides[0] + h * number_strides[1] + block * number_strides[2]
    if PART.COUNT == 0:
        return numbers, count * tl.cdiv(length, PART.SIZE)
    # A block of the mask may be longer than all there is; then it is the only one.
    return numbers, count * tl.minimum(PART.COUNT, tl.cdiv(length, PART.SIZE))


@torch_tile.jit
def part_of(steps, split, C: tl.constexpr):
    """The steps (first, end) of a list that one of `C.SPLITS` programs visits."""
    if C.SPLITS == 1:
        return 0, steps
    return steps * split // C.SPLITS, steps * (split + 1) // C.SPLITS


@torch_tile.jit
def flex_forward(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, max_ptr, partial, full, captured, lengths, q_strides, k_strides, v_strides,
    out_strides, C: tl.constexpr,
):  # fmt: skip
    """One block of rows of one head. `C` is a `launches.Constants`.

    With `C.SPLITS` above 1 a program sees a part of the keys, and writes results of these for `flex_combine`.
    """
    q_length, kv_length, heads = lengths
    blocks = tl.cdiv(q_length, C.BLOCK_M)
    program, split = tl.program_id(0), 0
    if C.SPLITS > 1:
        program, split = program // C.SPLITS, program % C.SPLITS
    # The last rows of causal masks see most keys: they begin first.
    row_block = blocks - 1 - program % blocks
    head = program // blocks
    b, h = head // heads, head % heads
    first = row_block * C.BLOCK_M
    offsets = tl.arange(0, C.BLOCK_M)
    rows = first + offsets
    dims, v_dims = tl.arange(0, C.D), tl.arange(0, C.DV)
    q_base = q_ptr + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1]
    q = load_rows(q_base, first, q_strides[2], offsets, dims, q_length, C.WIDTH, C.EVEN_M, C.WIDTH == C.D)
    kv_b, kv_h = b.to(tl.int64) * C.IS_BATCHED, (h // C.GROUP).to(tl.int64)
    k_base = k_ptr + kv_b * k_strides[0] + kv_h * k_strides[1]
    v_base = v_ptr + kv_b * v_strides[0] + kv_h * v_strides[1]
    acc = tl.zeros((C.BLOCK_M, C.DV), C.SUM)
    total = tl.zeros((C.BLOCK_M,), C.SUM)
    top = tl.full((C.BLOCK_M,), float("-inf"), C.SUM)
    place = (b, h, rows)
    sizes = (kv_length, k_strides[2], v_strides[2])
    carried = (acc, total, top)
    indices, steps = listed(partial, first // C.MASK_M, b, h, kv_length, C.KEYS, C)
    steps = part_of(steps, split, C)
    carried = attend(carried, q, k_base, v_base, indices, steps, place, sizes, captured, C, True)
    if C.HAS_FULL:
        indices, steps = listed(full, first // C.MASK_M, b, h, kv_length, C.KEYS, C)
        steps = part_of(steps, split, C)
        carried = attend(carried, q, k_base, v_base, indices, steps, place, sizes, captured, C, False)
    acc, total, top = carried
    if C.ZERO_EMPTY or C.SPLITS > 1:  # rows that see no key
        total = tl.where(total == 0.0, 1.0, total)
    acc = acc / total[:, None]
    out = out_ptr + b.to(tl.int64) * out_strides[0] + h.to(tl.int64) * out_strides[1]
    if C.SPLITS > 1:
        out += split * out_strides[2]
        head = head * C.SPLITS + split
    # Neighbouring rows are those of the last stride but one.
    store_rows(out, acc, first, out_strides[-1], offsets, v_dims, q_length, C.V_WIDTH, C.EVEN_M, C.V_WIDTH == C.DV)
    row = head.to(tl.int64) * q_length + rows
    if lse_ptr is not None:
        tl.store(lse_ptr + row, top + tl.math.log2(total), mask=rows < q_length)
    if max_ptr is not None:
        tl.store(max_ptr + row, top, mask=rows < q_length)


@torch_tile.jit
def flex_combine(part_ptr, sums_ptr, tops_ptr, out_ptr, lse_ptr, max_ptr, lengths, out_strides, C: tl.constexpr):
    """One row of one head, from the results for parts of the keys: they are added in the order of the parts."""
    q_length, _, heads = lengths
    program = tl.program_id(0)
    head, row = program // q_length, program % q_length
    splits, dims = tl.arange(0, C.SPLIT_LANES), tl.arange(0, C.DV)
    at = (head.to(tl.int64) * C.SPLITS + splits) * q_length + row
    sums = tl.load(sums_ptr + at, mask=splits < C.SPLITS, other=float("-inf"))
    top = tl.max(sums, 0)
    safe = tl.where(top == float("-inf"), 0.0, top)
    weights = tl.math.exp2(sums - safe)
    total = tl.sum(weights, 0)
    inside = (splits < C.SPLITS)[:, None] & (dims < C.V_WIDTH)[None, :]
    parts = tl.load(part_ptr + at[:, None] * C.V_WIDTH + dims[None, :], mask=inside, other=0.0)
    value = tl.sum(parts * weights[:, None], 0) / (tl.where(total == 0.0, 1.0, total) if C.ZERO_EMPTY else total)
    b, h = (head // heads).to(tl.int64), (head % heads).to(tl.int64)
    out = out_ptr + b * out_strides[0] + h * out_strides[1] + row * out_strides[2] + dims
    tl.store(out, value.to(out_ptr.dtype.element_ty), mask=dims < C.V_WIDTH)
    place = head.to(tl.int64) * q_length + row
    if lse_ptr is not None:
        tl.store(lse_ptr + place, safe + tl.math.log2(total))
    if max_ptr is not None:
        tl.store(max_ptr + place, tl.max(tl.load(tops_ptr + at, mask=splits < C.SPLITS, other=float("-inf")), 0))
