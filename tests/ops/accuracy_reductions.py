"""Sums, norms, means, variances, products and softmax over several layouts, for `tests.ops.accuracy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.ops.accuracy import Case

f64, f32, f16, bf16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
ALL = (f32, bf16, f16)

Tensors = tuple[Any, ...]


def rand(*sizes: int) -> Callable[[torch.dtype], Tensors]:
    """In [0, 1): no terms cancel, roundings add up."""
    return lambda dtype: (torch.rand(sizes, dtype=f64).to(dtype),)


def randn(*sizes: int, count: int = 1, scale: float = 1.0, shift: float = 0.0) -> Callable[[torch.dtype], Tensors]:
    return lambda dtype: tuple((torch.randn(sizes, dtype=f64) * scale + shift).to(dtype) for _ in range(count))


def constant(value: float, *sizes: int) -> Callable[[torch.dtype], Tensors]:
    """Every addition rounds the same way."""
    return lambda dtype: (torch.full(sizes, value, dtype=dtype),)


def transposed(*sizes: int) -> Callable[[torch.dtype], Tensors]:
    return lambda dtype: (torch.rand(sizes, dtype=f64).to(dtype).t(),)


def masked(*sizes: int) -> Callable[[torch.dtype], Tensors]:
    return lambda dtype: (torch.rand(sizes, dtype=f64).to(dtype), torch.rand(sizes) > 0.3)


def extended_sum(*dims: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Of float64, in the 80 bits of x86."""
    return lambda x: torch.from_numpy(np.sum(x.numpy().astype(np.longdouble), axis=dims).astype(np.float64))


SUMS = [
    Case("sum(1), 256 x 1000", lambda x: x.sum(1), rand(256, 1000), ALL),
    Case("sum(1), 64 x 65536", lambda x: x.sum(1), rand(64, 65536), ALL),
    Case("sum(1), 17 x 100003", lambda x: x.sum(1), rand(17, 100003)),
    Case("sum(0), 256 x 1024", lambda x: x.sum(0), rand(256, 1024)),
    Case("sum(0), 1000 x 1024", lambda x: x.sum(0), rand(1000, 1024), ALL),
    Case("sum(0), 65536 x 64", lambda x: x.sum(0), rand(65536, 64), ALL),
    Case("sum(0), 65536 x 1024", lambda x: x.sum(0), rand(65536, 1024), slow=True),
    Case("sum(0), 100003 x 7", lambda x: x.sum(0), rand(100003, 7)),
    Case("sum(), 4194304", lambda x: x.sum(), rand(1 << 22), ALL),
    Case("sum(), 1000003 of 0.1", lambda x: x.sum(), constant(0.1, 1000003)),
    Case("sum(0), 65536 x 64 of 0.1", lambda x: x.sum(0), constant(0.1, 65536, 64)),
    Case("sum(0), 65536 x 64 of both signs", lambda x: x.sum(0), randn(65536, 64)),
    Case("sum(1), 64 x 65536 of both signs", lambda x: x.sum(1), randn(64, 65536)),
    Case("sum(1), 64 x 4096 x 33", lambda x: x.sum(1), rand(64, 4096, 33)),
    Case("sum((0, 2)), 64 x 128 x 1000", lambda x: x.sum((0, 2)), rand(64, 128, 1000)),
    Case("sum((0, 2)), 4096 x 64 x 3", lambda x: x.sum((0, 2)), rand(4096, 64, 3)),
    Case("sum((1, 3)), 5 x 300 x 7 x 300", lambda x: x.sum((1, 3)), rand(5, 300, 7, 300)),
    Case("sum(1) of a transposed 20000 x 64", lambda x: x.sum(1), transposed(20000, 64)),
    Case("sum(0) of a transposed 64 x 20000", lambda x: x.sum(0), transposed(64, 20000)),
    Case("sum(1) under a mask, 64 x 30000", lambda x, m: torch.where(m, x, 0).sum(1), masked(64, 30000)),
    Case("sum(0) under a mask, 30000 x 64", lambda x, m: torch.where(m, x, 0).sum(0), masked(30000, 64)),
    Case("sum(1) of a slice, 63 x 30001", lambda x: x[1:, 3:-5].sum(1), rand(64, 30009)),
    Case("sum(1), 64 x 65536,", lambda x: x.sum(1), rand(64, 65536), dynamic=True),
    Case("sum(0), 65536 x 64,", lambda x: x.sum(0), rand(65536, 64), dynamic=True),
    Case("sum((0, 2)), 300 x 64 x 300,", lambda x: x.sum((0, 2)), rand(300, 64, 300), dynamic=True),
    Case("sum(1) and sum(0), 2000 x 2000", lambda x: (x.sum(1), x.sum(0)), rand(2000, 2000)),
    Case("sum(1) to float32, 64 x 65536", lambda x: x.sum(1, dtype=torch.float32), rand(64, 65536), (bf16, f16)),
    Case("cumsum(1), 64 x 20000", lambda x: x.cumsum(1), rand(64, 20000)),
    Case("cumsum(0), 20000 x 64", lambda x: x.cumsum(0), rand(20000, 64)),
]  # fmt: skip

FLOAT64 = [
    Case("sum(1), 64 x 65536", lambda x: x.sum(1), rand(64, 65536), (f64,), reference=extended_sum(1)),
    Case("sum(0), 65536 x 64", lambda x: x.sum(0), rand(65536, 64), (f64,), reference=extended_sum(0)),
    Case("sum(1), 17 x 100003", lambda x: x.sum(1), rand(17, 100003), (f64,), reference=extended_sum(1)),
    Case("sum((0, 2)), 64 x 9 x 999", lambda x: x.sum((0, 2)), rand(64, 9, 999), (f64,), reference=extended_sum(0, 2)),
    Case("sum(0), 65536 x 64 of 0.1", lambda x: x.sum(0), constant(0.1, 65536, 64), (f64,), reference=extended_sum(0)),
]  # fmt: skip

MEANS = [
    Case("mean(1), 64 x 65536", lambda x: x.mean(1), rand(64, 65536), ALL),
    Case("mean(0), 65536 x 64", lambda x: x.mean(0), rand(65536, 64), ALL),
    Case("norm(1), 64 x 65536", lambda x: torch.linalg.vector_norm(x, 2, 1), rand(64, 65536), (f32, bf16)),
    Case("norm(0), 65536 x 64", lambda x: torch.linalg.vector_norm(x, 2, 0), rand(65536, 64), (f32, bf16)),
    Case("1-norm(0), 65536 x 64", lambda x: torch.linalg.vector_norm(x, 1, 0), randn(65536, 64)),
    Case("3-norm(1), 64 x 65536", lambda x: torch.linalg.vector_norm(x, 3, 1), rand(64, 65536)),
    Case("norm(), 1000003", lambda x: x.norm(), rand(1000003)),
]  # fmt: skip

VARIANCES = [
    Case("var(1), 256 x 1000", lambda x: x.var(1), randn(256, 1000), ALL),
    Case("var(1), 64 x 65536", lambda x: x.var(1), randn(64, 65536), ALL),
    Case("var(1), 64 x 65537", lambda x: x.var(1), randn(64, 65537)),
    Case("var(0), 65536 x 64", lambda x: x.var(0), randn(65536, 64), ALL),
    Case("var(0), 300 x 1000", lambda x: x.var(0), randn(300, 1000)),
    Case("var(), 1000003", lambda x: x.var(), randn(1000003)),
    Case("var((0, 2)), 64 x 32 x 300", lambda x: x.var((0, 2)), randn(64, 32, 300)),
    Case("var(1) about 1000000, 64 x 4096", lambda x: x.var(1), randn(64, 4096, shift=1e6)),
    Case("var(0) about 1000000, 4096 x 64", lambda x: x.var(0), randn(4096, 64, shift=1e6)),
    Case("std(1), 64 x 4096 of 1e38", lambda x: x.std(1), randn(64, 4096, scale=3e37)),
    Case("std(1), 64 x 4096 of 1e-30", lambda x: x.std(1), randn(64, 4096, scale=1e-30)),
    Case("std(0), 4096 x 64 of 1e-30", lambda x: x.std(0), randn(4096, 64, scale=1e-30)),
    Case("std(1), 64 x 4096,", lambda x: x.std(1), randn(64, 4096), dynamic=True),
    Case("var_mean(1), 64 x 4096", lambda x: torch.var_mean(x, 1), rand(64, 4096)),
    Case("var_mean(0), 4096 x 64", lambda x: torch.var_mean(x, 0, correction=0), rand(4096, 64)),
    Case("layer_norm, 64 x 4096", lambda x: F.layer_norm(x, x.shape[1:]), randn(64, 4096), ALL),
    Case("layer_norm about 100, 64 x 4096", lambda x: F.layer_norm(x, x.shape[1:]), randn(64, 4096, shift=100)),
    Case("layer_norm, 8 x 65536", lambda x: F.layer_norm(x, x.shape[1:]), randn(8, 65536)),
    Case("group_norm, 8 x 64 x 1024", lambda x: F.group_norm(x, 8), randn(8, 64, 1024)),
    Case("batch_norm, 32 x 16 x 1000", lambda x: F.batch_norm(x, None, None, training=True), randn(32, 16, 1000)),
    Case("rms_norm, 64 x 4096", lambda x: F.rms_norm(x, x.shape[1:]), randn(64, 4096)),
]  # fmt: skip

PRODUCTS = [
    Case("dot, 1000003", lambda x, y: torch.dot(x, y), randn(1000003, count=2)),
    Case("mv, 512 x 30000", lambda x: torch.mv(x, x[0]), rand(512, 30000)),
    Case("mv of a transposed 30000 x 512", lambda x: torch.mv(x.t(), x[:, 0]), rand(30000, 512)),
    Case("(x * y).sum(1), 64 x 30000", lambda x, y: (x * y).sum(1), randn(64, 30000, count=2)),
]  # fmt: skip

SOFTMAX = [
    Case("softmax(1), 64 x 50257", lambda x: x.softmax(1), randn(64, 50257), ALL),
    Case("softmax(0), 4096 x 64", lambda x: x.softmax(0), randn(4096, 64)),
    Case("softmax(1), 64 x 4096 of one value", lambda x: x.softmax(1), constant(0.3, 64, 4096)),
    Case("softmax(1), 64 x 4096,", lambda x: x.softmax(1), randn(64, 4096), dynamic=True),
    Case("log_softmax(1), 64 x 50257", lambda x: x.log_softmax(1), randn(64, 50257), (f32, bf16)),
    Case("logsumexp(1), 64 x 50257", lambda x: x.logsumexp(1), randn(64, 50257)),
    Case("logsumexp(0), 50257 x 64", lambda x: x.logsumexp(0), randn(50257, 64)),
]  # fmt: skip

CASES = [*SUMS, *FLOAT64, *MEANS, *VARIANCES, *PRODUCTS, *SOFTMAX]
