"""Products with vectors: as many multiplications as elements, so memory is the limit and a fused reduction is as quick
as a library's, and takes what comes before and after along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

_LOW = (torch.float16, torch.bfloat16)


def _summed(a: torch.Tensor, b: torch.Tensor, dim: int) -> torch.Tensor:
    """Wide, so that neither products nor sums are rounded on the way."""
    if a.dtype in _LOW:
        a, b = a.float(), b.float()
    return (a * b).sum(dim, dtype=a.dtype)


def _is_plain(*operands: torch.Tensor) -> bool:
    first = operands[0].dtype
    return not first.is_complex and all(x.dtype is first for x in operands)


def _dot(a: torch.Tensor, b: torch.Tensor) -> Any:
    if not _is_plain(a, b) or a.shape != b.shape:
        return NotImplemented
    return _summed(a, b, 0).to(a.dtype)


def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> Any:
    if not _is_plain(matrix, vector) or matrix.shape[1] != vector.shape[0]:
        return NotImplemented
    return _summed(matrix, vector, 1).to(matrix.dtype)


def _addmv(x: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not _is_plain(matrix, vector, x) or matrix.shape[1] != vector.shape[0]:
        return NotImplemented
    if not matrix.dtype.is_floating_point:
        alpha, beta = int(alpha), int(beta)
    product = _summed(matrix, vector, 1)
    if alpha != 1:
        product = product * alpha
    if beta != 0:  # else x is not read, NaN or not
        product = product + (x.to(product.dtype) if beta == 1 else x.to(product.dtype) * beta)
    return product.to(matrix.dtype)


def products() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.addmv.default: _addmv,
        aten.dot.default: _dot,
        aten.mv.default: _mv,
        aten.vdot.default: _dot,
    }
