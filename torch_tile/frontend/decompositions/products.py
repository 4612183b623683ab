"""Products with vectors: as many multiplications as elements, so memory is the limit and a fused reduction is as quick
as a library's, and takes what comes before and after along."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

_LOW = (torch.float16, torch.bfloat16)
# Of which ATen multiplies matrices.
_MULTIPLIED = (
    *(*_LOW, torch.float32, torch.float64),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)
# Beyond this many multiplications a product of three tensors is left to ATen, which makes products of matrices of it.
_FEW = 1 << 22


def _summed(a: torch.Tensor, b: torch.Tensor, dim: int) -> torch.Tensor:
    """Wide, so that neither products nor sums are rounded on the way."""
    if a.dtype in _LOW:
        a, b = a.float(), b.float()
    return (a * b).sum(dim, dtype=a.dtype)


def _is_plain(*operands: torch.Tensor) -> bool:
    first = operands[0].dtype
    return not first.is_complex and all(x.dtype is first for x in operands)


def _is_for_library(matrix: torch.Tensor) -> bool:
    """Large and stored by columns: sums along rows then walk memory in the wrong order."""
    is_by_columns = isinstance(matrix.stride(0), int) and matrix.stride(0) == 1
    is_small = all(isinstance(size, int) for size in matrix.shape) and matrix.numel() <= 1 << 16
    return is_by_columns and not is_small and matrix.dtype in (torch.float32, torch.float64)


def _dot(a: torch.Tensor, b: torch.Tensor) -> Any:
    if not _is_plain(a, b) or a.shape != b.shape:
        return NotImplemented
    return _summed(a, b, 0).to(a.dtype)


def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> Any:
    if not _is_plain(matrix, vector) or matrix.shape[1] != vector.shape[0] or _is_for_library(matrix):
        return NotImplemented
    return _summed(matrix, vector, 1).to(matrix.dtype)


def _addmv(x: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not _is_plain(matrix, vector, x) or matrix.shape[1] != vector.shape[0] or _is_for_library(matrix):
        return NotImplemented
    if not matrix.dtype.is_floating_point:
        alpha, beta = int(alpha), int(beta)
    product = _summed(matrix, vector, 1)
    if alpha == 0:  # then neither operand is read
        product = torch.zeros_like(product)
    elif alpha != 1:
        product = product * alpha
    if beta != 0:  # else x is not read, NaN or not
        product = product + (x.to(product.dtype) if beta == 1 else x.to(product.dtype) * beta)
    return product.to(matrix.dtype)


def _bmm(a: torch.Tensor, b: torch.Tensor) -> Any:
    """Of many matrices with one row, one column, or one number between: a library multiplies them one by one."""
    rows, between, columns = a.shape[1], a.shape[2], b.shape[2]
    is_known = all(isinstance(n, int) for n in (rows, between, columns))
    if a.device.type != "cpu" or a.dtype not in _MULTIPLIED or not _is_plain(a, b) or not is_known:
        return NotImplemented
    if between == 1:
        return (a * b).clone(memory_format=torch.contiguous_format)
    if columns == 1 or rows == 1:
        product = _summed(a, b.mT, 2) if columns == 1 and rows != 1 else _summed(a.mT, b, 1)
        return product.to(a.dtype).reshape(a.shape[0], rows, columns)
    return NotImplemented


def _trilinear(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Any:
    is_known = all(isinstance(size, int) for x in (a, b, c) for size in x.shape)
    if not _is_plain(a, b, c) or not sumdim or not is_known:
        return NotImplemented
    factors = []
    for x, expanded in ((a, expand1), (b, expand2), (c, expand3)):
        for dim in sorted(expanded):
            x = x.unsqueeze(dim)
        factors.append(x.float() if x.dtype in _LOW else x)
    count = math.prod(max(sizes) for sizes in zip(*(x.shape for x in factors), strict=True))
    if count > _FEW:
        return NotImplemented
    return (factors[0] * factors[1] * factors[2]).sum(list(sumdim), dtype=factors[0].dtype).to(a.dtype)


def products() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten._trilinear.default: _trilinear,
        aten.addmv.default: _addmv,
        aten.bmm.default: _bmm,
        aten.dot.default: _dot,
        aten.mv.default: _mv,
        aten.vdot.default: _dot,
    }
