"""Kernels of the tile language: launches, the interpreter, tracing and compiling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from harness import Row, fill, time_rounds

import torch_tile
import torch_tile.language as tl


@torch_tile.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@torch_tile.jit
def softmax(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * stride + column, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + column, numerator / tl.sum(numerator, axis=0), mask=mask)


@torch_tile.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 0.5 * x * (1 + tl.erf(x * 0.70710678)), mask=i < n)


@torch_tile.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < K - k) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def _launches() -> dict[str, dict[str, Callable[[], Any]]]:
    x, y = torch.randn(1 << 22), torch.randn(1 << 22)
    out = torch.empty_like(x)
    rows, o = torch.randn(1024, 1024), torch.empty(1024, 1024)
    small, small_out = torch.randn(64), torch.empty(64)
    million = 1 << 20
    return {
        "add of 4M": {
            "tile": lambda: add[(x.numel() // 4096,)](x, y, out, x.numel(), BLOCK=4096),
            "eager": lambda: torch.add(x, y, out=out),
        },
        "softmax 1024x1024": {
            "tile": lambda: softmax[(1024,)](rows, o, 1024, 1024, BLOCK=1024),
            "eager": lambda: torch.softmax(rows, 1, out=o),
        },
        "one program of 64 adds": {
            "tile": lambda: add[(1,)](small, small, small_out, 64, BLOCK=64),
            "interpreter": lambda: add.interpret[(1,)](small, small, small_out, 64, BLOCK=64),
            "eager": lambda: torch.add(small, small, out=small_out),
        },
        "one program of 1024 adds": {
            "interpreter": lambda: add.interpret[(1,)](x, y, out, 1024, BLOCK=1024),
            "eager": lambda: torch.add(x[:1024], y[:1024], out=out[:1024]),
        },
        "1024 programs of 1024 adds": {
            "interpreter": lambda: add.interpret[(1024,)](x, y, out, million, BLOCK=1024),
            "eager": lambda: torch.add(x[:million], y[:million], out=out[:million]),
        },
    }


def _compiling() -> dict[str, dict[str, Callable[[], Any]]]:
    from torch_tile import _C
    from torch_tile.language.compile import trace
    from torch_tile.language.stages import compiler_options

    x = torch.empty(64)
    square = torch.empty(64, 64)
    blocks = {"BM": 32, "BN": 32, "BK": 32}
    bound_add = add.bind((x, x, x, 64), {"BLOCK": 64})
    bound_matmul = matmul.bind((square, square, square, 64, 64, 64), blocks)
    texts = {size: trace(gelu, gelu.bind((x, x, 64), {"BLOCK": size})).located for size in (64, 32768)}
    cases: dict[str, dict[str, Callable[[], Any]]] = {
        "trace of add": {"tile": lambda: trace(add, bound_add)},
        "trace of matmul": {"tile": lambda: trace(matmul, bound_matmul)},
    }
    for size, text in texts.items():
        cases[f"compilation of gelu, BLOCK={size}"] = {
            "tile": lambda text=text: _C.compile_kernel(text, compiler_options(True))
        }
    return cases


def run(options: Any) -> list[Row]:
    rows: list[Row] = []
    for name, calls in {**_launches(), **_compiling()}.items():
        if not options.selects(name):
            continue
        made = []
        for backend, seconds in time_rounds(calls, options.rounds).items():
            row = fill(Row("language", name, backend), seconds)
            if backend == "interpreter" and name.startswith("1024 programs"):
                row.note_info = f"{1024 / row.best:.0f} programs/s"
            made.append(row)
        rows += options.report(made)
    return rows
