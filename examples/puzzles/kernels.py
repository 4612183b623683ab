"""Solutions of the twelve Triton puzzles (github.com/srush/Triton-Puzzles), with the arguments that these prescribe.

N0, N1, N2: sizes of results. B0, B1, B2: sizes of the blocks of one program. z_ptr, or dx_ptr: the result.
"""

import torch_tile
import torch_tile.language as tl

LOG2_E = 1.44269504


@torch_tile.jit
def add(x_ptr, z_ptr, N0, B0: tl.constexpr):
    at = tl.arange(0, B0)
    tl.store(z_ptr + at, tl.load(x_ptr + at) + 10.0)


@torch_tile.jit
def add_blocks(x_ptr, z_ptr, N0, B0: tl.constexpr):
    at = tl.program_id(0) * B0 + tl.arange(0, B0)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < N0) + 10.0, mask=at < N0)


@torch_tile.jit
def add_outer(x_ptr, y_ptr, z_ptr, N0, N1, B0: tl.constexpr, B1: tl.constexpr):
    i, j = tl.arange(0, B0), tl.arange(0, B1)
    z = tl.load(x_ptr + i)[None, :] + tl.load(y_ptr + j)[:, None]
    tl.store(z_ptr + j[:, None] * N0 + i[None, :], z)


@torch_tile.jit
def add_outer_blocks(x_ptr, y_ptr, z_ptr, N0, N1, B0: tl.constexpr, B1: tl.constexpr):
    i = tl.program_id(0) * B0 + tl.arange(0, B0)
    j = tl.program_id(1) * B1 + tl.arange(0, B1)
    z = tl.load(x_ptr + i, mask=i < N0)[None, :] + tl.load(y_ptr + j, mask=j < N1)[:, None]
    tl.store(z_ptr + j[:, None] * N0 + i[None, :], z, mask=(j < N1)[:, None] & (i < N0)[None, :])


@torch_tile.jit
def mul_relu(x_ptr, y_ptr, z_ptr, N0, N1, B0: tl.constexpr, B1: tl.constexpr):
    i = tl.program_id(0) * B0 + tl.arange(0, B0)
    j = tl.program_id(1) * B1 + tl.arange(0, B1)
    z = tl.load(x_ptr + i, mask=i < N0)[None, :] * tl.load(y_ptr + j, mask=j < N1)[:, None]
    tl.store(z_ptr + j[:, None] * N0 + i[None, :], tl.maximum(z, 0.0), mask=(j < N1)[:, None] & (i < N0)[None, :])


@torch_tile.jit
def mul_relu_backward(x_ptr, y_ptr, dz_ptr, dx_ptr, N0, N1, B0: tl.constexpr, B1: tl.constexpr):
    i = tl.program_id(0) * B0 + tl.arange(0, B0)
    j = tl.program_id(1) * B1 + tl.arange(0, B1)
    at, mask = j[:, None] * N0 + i[None, :], (j < N1)[:, None] & (i < N0)[None, :]
    x, dz = tl.load(x_ptr + at, mask=mask), tl.load(dz_ptr + at, mask=mask)
    y = tl.load(y_ptr + j, mask=j < N1)[:, None]
    tl.store(dx_ptr + at, tl.where(x * y > 0, y * dz, 0.0), mask=mask)


@torch_tile.jit
def long_sum(x_ptr, z_ptr, N0, N1, T, B0: tl.constexpr, B1: tl.constexpr):
    row = tl.program_id(0) * B0 + tl.arange(0, B0)
    total = tl.zeros([B0], dtype=tl.float32)
    for start in range(0, T, B1):
        column = start + tl.arange(0, B1)
        mask = (row < N0)[:, None] & (column < T)[None, :]
        total += tl.sum(tl.load(x_ptr + row[:, None] * T + column[None, :], mask=mask, other=0.0), axis=1)
    tl.store(z_ptr + row, total, mask=row < N0)


@torch_tile.jit
def long_softmax(x_ptr, z_ptr, N0, N1, T, B0: tl.constexpr, B1: tl.constexpr):
    """Two loops: a new maximum rescales the sum so far."""
    row = tl.program_id(0) * B0 + tl.arange(0, B0)
    largest = tl.full([B0], -float("inf"), dtype=tl.float32)
    total = tl.zeros([B0], dtype=tl.float32)
    for start in range(0, T, B1):
        column = start + tl.arange(0, B1)
        at, mask = row[:, None] * T + column[None, :], (row < N0)[:, None] & (column < T)[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=-float("inf"))
        now = tl.maximum(largest, tl.max(x, axis=1))
        total = total * tl.exp2(LOG2_E * (largest - now)) + tl.sum(tl.exp2(LOG2_E * (x - now[:, None])), axis=1)
        largest = now
    for start in range(0, T, B1):
        column = start + tl.arange(0, B1)
        at, mask = row[:, None] * T + column[None, :], (row < N0)[:, None] & (column < T)[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=0.0)
        tl.store(z_ptr + at, tl.exp2(LOG2_E * (x - largest[:, None])) / total[:, None], mask=mask)


@torch_tile.jit
def scalar_attention(q_ptr, k_ptr, v_ptr, z_ptr, N0, T, B0: tl.constexpr):
    """One loop: the sum of values is rescaled along with the sum of weights."""
    i = tl.program_id(0) * B0 + tl.arange(0, B0)
    q = tl.load(q_ptr + i, mask=i < N0, other=0.0)
    largest = tl.full([B0], -float("inf"), dtype=tl.float32)
    weights, values = tl.zeros([B0], dtype=tl.float32), tl.zeros([B0], dtype=tl.float32)
    for start in range(0, T, B0):
        j = start + tl.arange(0, B0)
        k, v = tl.load(k_ptr + j, mask=j < T, other=0.0), tl.load(v_ptr + j, mask=j < T, other=0.0)
        scores = tl.where((j < T)[None, :], q[:, None] * k[None, :], -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weight, old = tl.exp2(LOG2_E * (scores - now[:, None])), tl.exp2(LOG2_E * (largest - now))
        weights = weights * old + tl.sum(weight, axis=1)
        values = values * old + tl.sum(weight * v[None, :], axis=1)
        largest = now
    tl.store(z_ptr + i, values / weights, mask=i < N0)


@torch_tile.jit
def conv2d(x_ptr, k_ptr, z_ptr, N0, H, W, KH: tl.constexpr, KW: tl.constexpr, B0: tl.constexpr):
    """What lies beyond the image counts as 0."""
    image = tl.program_id(0) * B0 + tl.arange(0, B0)
    rows, columns = tl.arange(0, KH), tl.arange(0, KW)
    kernel = tl.load(k_ptr + rows[:, None] * KW + columns[None, :])[None, :, :]
    for i in range(H):
        for j in range(W):
            row, column = (i + rows)[None, :, None], (j + columns)[None, None, :]
            mask = (image < N0)[:, None, None] & (row < H) & (column < W)
            x = tl.load(x_ptr + image[:, None, None] * H * W + row * W + column, mask=mask, other=0.0)
            tl.store(z_ptr + image * H * W + i * W + j, tl.sum(tl.sum(x * kernel, axis=2), axis=1), mask=image < N0)


@torch_tile.jit
def matmul(
    x_ptr, y_ptr, z_ptr, N0, N1, N2, MID, B0: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, B_MID: tl.constexpr
):
    i = tl.program_id(0) * B0 + tl.arange(0, B0)
    k = tl.program_id(1) * B1 + tl.arange(0, B1)
    batch = tl.program_id(2) * B2  # B2 is 1
    total = tl.zeros([B0, B1], dtype=tl.float32)
    for start in range(0, MID, B_MID):
        j = start + tl.arange(0, B_MID)
        x_mask, y_mask = (i < N0)[:, None] & (j < MID)[None, :], (j < MID)[:, None] & (k < N1)[None, :]
        x = tl.load(x_ptr + batch * N0 * MID + i[:, None] * MID + j[None, :], mask=x_mask, other=0.0)
        y = tl.load(y_ptr + batch * MID * N1 + j[:, None] * N1 + k[None, :], mask=y_mask, other=0.0)
        total += tl.dot(x, y)
    tl.store(z_ptr + batch * N0 * N1 + i[:, None] * N1 + k[None, :], total, mask=(i < N0)[:, None] & (k < N1)[None, :])


@torch_tile.jit
def quantized_matmul(
    scale_ptr, offset_ptr, weight_ptr, activation_ptr, z_ptr, N0, N1, MID,
    B0: tl.constexpr, B1: tl.constexpr, B_MID: tl.constexpr,
):  # fmt: skip
    """A word has eight weights of 4 bits, and one group of eight weights has one scale and one offset of 4 bits."""
    i = tl.program_id(0) * B0 + tl.arange(0, B0)
    k = tl.program_id(1) * B1 + tl.arange(0, B1)
    total = tl.zeros([B0, B1], dtype=tl.float32)
    for start in range(0, MID, B_MID):
        j = start + tl.arange(0, B_MID)
        word = i[:, None] * (MID // 8) + (j // 8)[None, :]
        mask = (i < N0)[:, None] & (j < MID)[None, :]
        weight = (tl.load(weight_ptr + word, mask=mask, other=0) >> ((j % 8) * 4)[None, :]) & 15
        offset = (tl.load(offset_ptr + i, mask=i < N0, other=0)[:, None] >> ((j // 8) * 4)[None, :]) & 15
        scale = tl.load(scale_ptr + word, mask=mask, other=0.0)
        y_mask = (j < MID)[:, None] & (k < N1)[None, :]
        y = tl.load(activation_ptr + j[:, None] * N1 + k[None, :], mask=y_mask, other=0.0)
        total += tl.dot(scale * (weight - offset).to(tl.float32), y)
    tl.store(z_ptr + i[:, None] * N1 + k[None, :], total, mask=(i < N0)[:, None] & (k < N1)[None, :])
