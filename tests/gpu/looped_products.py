"""Kernels whose loops load operands of products, in the forms in which loads may run ahead: for a device and for the
simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import torch_tile
import torch_tile.language as tl

# Runs a kernel on a grid with these arguments and constants.
Launch = Callable[..., Any]


@torch_tile.jit
def persistent(a_ptr, b_ptr, c_ptr, M, N, K, tiles, B: tl.constexpr, BK: tl.constexpr):
    """A program computes several tiles: the loop that loads lies in another one."""
    columns = tl.cdiv(N, B)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = (tile // columns) * B + tl.arange(0, B)
        cols = (tile % columns) * B + tl.arange(0, B)
        depth = tl.arange(0, BK)
        acc = tl.zeros((B, B), tl.float32)
        for k in range(0, K, BK):
            at = k + depth
            a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=rows[:, None] < M, other=0.0)
            b = tl.load(b_ptr + at[:, None] * N + cols[None, :], mask=at[:, None] < K, other=0.0)
            acc += tl.dot(a, b)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=inside)


@torch_tile.jit
def two_products(a_ptr, b_ptr, d_ptr, c_ptr, N, K, B: tl.constexpr, BK: tl.constexpr):
    """Two products share an operand, and add to two sums."""
    rows = tl.program_id(0) * B + tl.arange(0, B)
    depth = tl.arange(0, BK)
    cols = tl.arange(0, B)
    gate = tl.zeros((B, B), tl.float32)
    up = tl.zeros((B, B), tl.float32)
    for k in range(0, K, BK):
        at = k + depth
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :])
        gate = tl.dot(a, tl.load(b_ptr + at[:, None] * N + cols[None, :]), gate)
        up = tl.dot(a, tl.load(d_ptr + at[:, None] * N + cols[None, :]), up)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], gate * 2.0 + up)


@torch_tile.jit
def fixed_operand(a_ptr, b_ptr, c_ptr, N, K, steps, B: tl.constexpr):
    """The left operand is the same in all iterations, and computed; each iteration's product is stored."""
    rows = tl.arange(0, B)
    a = tl.trans(tl.load(a_ptr + rows[:, None] * B + rows[None, :]) * 2.0)
    for k in range(steps):
        b = tl.load(b_ptr + (k * B + rows[:, None]) * B + rows[None, :])
        c = tl.dot(a, b)
        tl.store(c_ptr + (k * B + rows[:, None]) * B + rows[None, :], c)


@torch_tile.jit
def used_twice(a_ptr, b_ptr, c_ptr, s_ptr, K, B: tl.constexpr):
    """A loaded tile is an operand and is summed up, too; what a row adds to is used inside of the loop."""
    rows = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    most = tl.zeros((B,), tl.float32)
    total = tl.zeros((B,), tl.float32)
    for k in range(0, K, B):
        a = tl.load(a_ptr + rows[:, None] * K + (k + rows)[None, :])
        b = tl.load(b_ptr + (k + rows)[:, None] * B + rows[None, :])
        total += tl.sum(a.to(tl.float32), 1)
        acc = tl.dot(a, b, acc)
        most = tl.maximum(most, tl.max(acc, 1))
    tl.store(c_ptr + rows[:, None] * B + rows[None, :], acc)
    tl.store(s_ptr + rows, total + most)


@torch_tile.jit
def two_before(a_ptr, b_ptr, c_ptr, s_ptr, K, B: tl.constexpr):
    """An iteration adds to the sums of the one before the last: the loop hands them on, and uses another product."""
    rows = tl.arange(0, B)
    last = tl.zeros((B, B), tl.float32)
    other = tl.zeros((B, B), tl.float32)
    total = tl.zeros((B,), tl.float32)
    for k in range(0, K, B):
        a = tl.load(a_ptr + rows[:, None] * K + (k + rows)[None, :])
        b = tl.load(b_ptr + (k + rows)[:, None] * B + rows[None, :])
        total += tl.sum(tl.dot(a, b), 1)
        d = tl.load(b_ptr + (K - B - k + rows)[:, None] * B + rows[None, :])
        other, last = last, tl.dot(a, d, other * 0.5)
    tl.store(c_ptr + rows[:, None] * B + rows[None, :], last + 2.0 * other)
    tl.store(s_ptr + rows, total)


@torch_tile.jit
def in_turns(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr):
    """Two sums that change places in each iteration."""
    rows = tl.arange(0, B)
    first = tl.zeros((B, B), tl.float32)
    second = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        a = tl.load(a_ptr + rows[:, None] * K + (k + rows)[None, :])
        b = tl.load(b_ptr + (k + rows)[:, None] * B + rows[None, :])
        s = tl.dot(a, b)
        first = tl.dot(s.to(a.dtype), b, first)
        second = tl.dot((0.5 * s).to(a.dtype), b, second)
        first, second = second, first
    tl.store(c_ptr + rows[:, None] * B + rows[None, :], first + 2.0 * second)


def _near(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found.double().cpu(), expected.double().cpu(), rtol=1e-4, atol=1e-3)


def check_persistent(launch: Launch, randn: Any, B: int, **options: Any) -> None:
    for M, N, K in ((128, 128, 0), (128, 192, 32), (130, 128, 96), (256, 128, 160)):
        a, b = randn(M, K), randn(K, N)
        c = torch.full((M, N), 7.0, device=a.device)
        tiles = -(-M // B) * -(-N // B)
        launch(persistent, (3, 1, 1), a, b, c, M, N, K, tiles, B=B, BK=32, **options)
        _near(c, a.double() @ b.double())


def check_two_products(launch: Launch, randn: Any, B: int, **options: Any) -> None:
    for K in (32, 64, 224):
        a, b, d = randn(2 * B, K), randn(K, B), randn(K, B)
        c = torch.empty(2 * B, B, device=a.device)
        launch(two_products, (2, 1, 1), a, b, d, c, B, K, B=B, BK=32, **options)
        _near(c, a.double() @ b.double() * 2 + a.double() @ d.double())


def check_fixed_operand(launch: Launch, randn: Any, B: int, **options: Any) -> None:
    a, b = randn(B, B), randn(5 * B, B)
    c = torch.empty(5 * B, B, device=a.device)
    launch(fixed_operand, (1, 1, 1), a, b, c, B, B, 5, B=B, **options)
    _near(c, torch.cat([(a * 2).double().t() @ part.double() for part in b.split(B)]))


def check_used_twice(launch: Launch, randn: Any, B: int, **options: Any) -> None:
    a, b = randn(B, 3 * B), randn(3 * B, B)
    c, s = torch.empty(B, B, device=a.device), torch.empty(B, device=a.device)
    launch(used_twice, (1, 1, 1), a, b, c, s, 3 * B, B=B, **options)
    parts = torch.stack([p.double() @ q.double() for p, q in zip(a.split(B, 1), b.split(B), strict=True)]).cumsum(0)
    _near(c, parts[-1])
    _near(s, a.double().sum(1) + parts.amax((0, 2)).clamp(min=0))


def check_two_before(launch: Launch, randn: Any, B: int, **options: Any) -> None:
    for steps in (1, 2, 5):
        a, b = randn(B, steps * B), randn(steps * B, B)
        c, s = torch.empty(B, B, device=a.device), torch.empty(B, device=a.device)
        launch(two_before, (1, 1, 1), a, b, c, s, steps * B, B=B, **options)
        last, other = torch.zeros_like(c).double(), torch.zeros_like(c).double()
        for p, q in zip(a.double().split(B, 1), reversed(b.double().split(B)), strict=True):
            other, last = last, other * 0.5 + p @ q
        _near(c, last + 2 * other)
        _near(s, (a.double() @ b.double()).sum(1))


CHECKS = (check_persistent, check_two_products, check_fixed_operand, check_used_twice, check_two_before)
