"""Kernels written for Triton whose interpreter is compared with their compiled form."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.core import _aggregate as aggregate


@triton.jit
def convert(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(o_ptr.dtype.element_ty))


@triton.jit
def masked_load(o_ptr, value: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(o_ptr + i, tl.load(o_ptr + i, mask=i < 0, other=value))


@triton.jit
def store(o_ptr, value: tl.constexpr):
    tl.store(o_ptr + tl.arange(0, 16), value)


@triton.jit
def add_atomically(o_ptr, value: tl.constexpr):
    tl.atomic_add(o_ptr + tl.arange(0, 16), value)


@triton.jit
def exchange(o_ptr, value: tl.constexpr):
    tl.atomic_xchg(o_ptr, value)


@triton.jit
def arithmetic(o_ptr, value: tl.constexpr):
    i = tl.arange(0, 16)
    x = tl.load(o_ptr + i) + i
    tl.store(o_ptr + i, tl.where(x < 7, x * value, tl.maximum(x, value)) + tl.full([16], value, x.dtype))


@aggregate
class Span:
    first: tl.tensor
    size: tl.constexpr = tl.constexpr(8)

    @triton.jit
    def offsets(self):
        return self.first + tl.arange(0, self.size)


@aggregate
class Strided(Span):
    stride: tl.constexpr = tl.constexpr(1)

    @triton.jit
    def places(self):
        return self.offsets() * self.stride


@aggregate
class Total:
    """A field is an aggregate; the constructor is a function of compile-time values."""

    span: Span
    sum: tl.tensor

    @triton.constexpr_function
    def __init__(self, span, sum):
        self.span = span
        self.sum = sum

    @triton.jit
    def added(self, x_ptr):
        return Total(self.span, self.sum + tl.load(x_ptr + self.span.offsets()))

    @triton.jit
    def moved(self):
        return Total(Span(self.span.first + self.span.size, self.span.size), self.sum)


@aggregate
class Pair:
    left: tl.tensor
    right: tl.tensor


@triton.jit
def with_aggregates(x_ptr, o_ptr, n, B: tl.constexpr):
    total = Total(Span(tl.program_id(0) * 0, B), tl.zeros([B], tl.float32))
    for _ in range(0, n, B):
        total = total.added(x_ptr).moved()
    pair = Pair(total.sum, right=total.sum * 2)
    places = Strided(tl.program_id(0), B, stride=2).places()
    tl.store(o_ptr + places, pair.left)
    tl.store(o_ptr + places + 1, pair.right)
