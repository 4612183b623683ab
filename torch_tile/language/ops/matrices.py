"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language.casts import bitcast, cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, error, mlir_type, named, tensor
from torch_tile.language.dtypes import (
    bfloat16,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    int32,
    tile_type,
    uint8,
    uint32,
)
from torch_tile.language.ops.math import where
from torch_tile.language.ops.rearranging import join
from torch_tile.language.ops.shapes import reshape
from torch_tile.language.values import as_dtype, as_tensor, broadcast_to_dims, constant

SECTION = "Matrices"
_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


def _precision(wanted: Any, allow_tf32: Any) -> str:
    if wanted is not None and allow_tf32 is not None:
        raise error("tl.dot expected input_precision or allow_tf32, got both")
    if wanted not in (None, *_PRECISIONS):
        raise error(f"tl.dot expected input_precision to be one of {', '.join(_PRECISIONS)}, got {wanted!r}")
    return wanted or ("tf32" if allow_tf32 or allow_tf32 is None else "ieee")


@named(SECTION)
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> tensor:
    """input @ other + acc over the last two axes.

    Args:
        input: tile [M, K], or [..., M, K], of float32, float64, float16, bfloat16, an 8-bit float, or int8.
        other: tile [K, N], or [..., K, N], of the same type.
        acc: tile [M, N], or [..., M, N], to add to; 0 if absent.
        input_precision: what operands of float32 are rounded to for the tensor cores of a CUDA device: "tf32" (11 bits;
            the default, as in Triton), "tf32x3", "bf16x3" or "bf16x6" (sums of two or three terms), or "ieee" (not at
            all). On the CPU products are of full precision.
        allow_tf32: False is "ieee"; only without input_precision.
        max_num_imprecise_acc: of 8-bit floats, any number has them multiplied as float16, whose sums are those of
            float32. Without it, tensor cores of compute capability 8.9 and 9.0 add with fewer bits.
        out_dtype: float32, or float16 for operands of float16 or 8 bits.

    Returns:
        Tile [M, N], or [..., M, N]: float32 (sums are float32 too) for floats, float64 for float64, int32 for int8.

    Raises:
        InvalidKernelError: inner sizes or types differ, or an operand is no matrix.

    Example:
        >>> acc = tl.dot(a, b, acc)
    """
    a, b = as_tensor(input), as_tensor(other)
    for operand in (a, b):
        if operand.dtype.is_ptr():
            raise error(f"tl.dot expected a tile of numbers, got {operand.type}; load it first")
    precision = _precision(unwrap(input_precision), unwrap(allow_tf32))
    if len(a.dims) < 2 or len(a.dims) != len(b.dims):
        raise error(
            f"tl.dot expected two tiles of two axes, or of the same number of more, got {a.type} and {b.type}; add "
            "axes with `x[:, None]`"
        )
    if a.dims[-1] != b.dims[-2]:
        raise error(
            f"tl.dot expected the last axis of the first tile to match the second-last of the second, got "
            f"{list(a.dims)} and {list(b.dims)} ({a.dims[-1]} and {b.dims[-2]})"
        )
    if a.dims[:-2] != b.dims[:-2]:
        raise error(f"tl.dot expected equal leading axes, got {list(a.dims)} and {list(b.dims)}")
    if not (a.dtype == b.dtype or (a.dtype.is_fp8() and b.dtype.is_fp8())):
        raise error(f"tl.dot expected operands of one type, got {a.dtype} and {b.dtype}; cast one, `.to(...)`")
    if a.dtype.is_int() and a.dtype.name not in ("int8", "uint8"):
        raise error(f"tl.dot expected floats or int8, got {a.dtype}; cast to tl.float32 first")
    dims = (*a.dims[:-1], b.dims[-1])
    sums: Any = int32 if a.dtype.is_int() else float64 if a.dtype is float64 else float32
    wanted = as_dtype(out_dtype, "tl.dot: out_dtype") if unwrap(out_dtype) is not None else None
    result_type = sums
    if acc is not None and unwrap(acc) is not None:
        acc = as_tensor(acc)
        if acc.dims != dims:
            raise error(f"tl.dot expected acc of shape {list(dims)}, got {acc.type}")
        if acc.dtype not in (sums, float16):
            raise error(f"tl.dot expected acc of type {sums}, got {acc.dtype}")
        result_type = acc.dtype
    elif wanted is not None:
        if wanted.name == "bf16":
            raise error(
                "tl.dot expected out_dtype float32 or float16, got bf16; convert the result, `.to(tl.bfloat16)`"
            )
        if sums is float32 and wanted in (float16, float32):
            result_type = wanted
    start = cast(acc, sums) if isinstance(acc, tensor) else constant(0, sums, dims)
    run = current()
    if run.tracing and len(dims) > 3:
        flat = [reshape(x, (x.numel // (x.dims[-2] * x.dims[-1]), *x.dims[-2:])) for x in (a, b, start)]
        return cast(reshape(dot(*flat, input_precision=precision), dims), result_type)
    if run.tracing:
        if a.dtype != b.dtype or (a.dtype.is_fp8() and unwrap(max_num_imprecise_acc) is not None):
            a, b = cast(a, float16), cast(b, float16)
        if a.dtype.name == "uint8":
            a, b = cast(a, int32), cast(b, int32)
        rounds = a.dtype is float32 and precision != "ieee"
        after = f' {{tile.input_precision = "{precision}"}}' if rounds else ""
        text = f"{mlir_type(a)}, {mlir_type(b)} -> {tile_type(sums, dims).mlir}"
        return cast(tensor(run.op("tile.dot", [a, b, start], text, after), sums, dims), result_type)
    left, right = np.asarray(a.value).astype(sums.carrier), np.asarray(b.value).astype(sums.carrier)
    return cast(tensor(np.matmul(left, right) + start.value, sums, dims), result_type)


@named(SECTION)
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = None,
) -> tensor:
    """Product of matrices in block-scaled formats (MX): elements are decoded, scaled, and multiplied.

    Decoded operands are bfloat16, which has all values of 8 and 4 bits times their scales; with "fp16", or factors for
    "bf16", they are float32.

    Args:
        lhs: tile [M, K] of "e4m3", "e5m2", "bf16" or "fp16"; for "e2m1" of uint8 [M, K / 2], or [M / 2, K] without
            `lhs_k_pack`. One leading axis may be added to all operands.
        lhs_scale: exponents in uint8 (bias 127), or factors in float8e4nv, shape [M, K / 32] or [M, K / 16], or None.
        rhs: tile [K, N]; for "e2m1" of uint8 [K / 2, N], or [K, N / 2] without `rhs_k_pack`.
        rhs_scale: the same, shape [N, K / 32] or [N, K / 16], or None.
        acc: float32 tile [M, N] to add to.
    """
    a = _decode(as_tensor(lhs), lhs_scale, unwrap(lhs_format), unwrap(lhs_k_pack), "lhs")
    b = _decode(as_tensor(rhs).trans(), rhs_scale, unwrap(rhs_format), unwrap(rhs_k_pack), "rhs")
    scales = [as_tensor(s).dtype for s in (unwrap(lhs_scale), unwrap(rhs_scale)) if s is not None]
    has_factors = any(dtype.is_fp8() for dtype in scales)
    formats = unwrap(lhs_format), unwrap(rhs_format)
    if "fp16" not in formats and not (has_factors and "bf16" in formats):
        a, b = cast(a, bfloat16), cast(b, bfloat16)
    # Of float32, numbers of 11 bits are not rounded by tf32.
    precision = "tf32x3" if has_factors else "tf32"
    return dot(a, b.trans(), acc, input_precision=precision, out_dtype=out_dtype)


_FLOATS = {"e4m3": float8e4nv, "e5m2": float8e5}


def _decode(x: tensor, scale: Any, format: Any, is_packed_along_k: Any, side: str) -> tensor:
    """float32 values [..., rows, K] of a block-scaled operand."""
    *outer, rows, inner = x.dims
    if format in _FLOATS:
        values = cast(bitcast(x, _FLOATS[format]) if x.dtype.is_int() else x, float32)
    elif format == "e2m1":
        bits = cast(x, int32)
        pairs = join(bits & 0xF, (bits >> 4) & 0xF)
        if is_packed_along_k:
            inner *= 2
        else:
            order = [*range(len(outer)), len(outer), len(outer) + 2, len(outer) + 1]
            rows, pairs = 2 * rows, pairs.permute(*order)
        values = _decode_e2m1(reshape(pairs, (*outer, rows, inner)))
    elif format in ("bf16", "fp16"):
        values = cast(x, float32)
    else:
        raise error(f"tl.dot_scaled expected a format among e2m1, e4m3, e5m2, bf16, fp16, got {format!r}")
    scale = unwrap(scale)
    if scale is None:
        return values
    exponents = as_tensor(scale)
    if len(exponents.dims) != len(x.dims) or exponents.dims[:-1] != (*outer, rows) or inner % exponents.dims[-1]:
        wanted = [*outer, rows, inner // 32]
        raise error(f"tl.dot_scaled expected {side}_scale of shape {wanted}, got {exponents.type}")
    if exponents.dtype.is_fp8():
        factors = cast(exponents, float32)
    else:
        wide = cast(exponents if exponents.dtype is uint8 else bitcast(exponents, uint8), uint32)
        # 2^(e - 127): the exponent in place; 0 is the subnormal 2^-127, 255 is NaN.
        bits = where(wide == 0, 0x400000, where(wide == 255, 0x7FC00000, wide << 23))
        factors = bitcast(cast(bits, int32), float32)
    count = exponents.dims[-1]
    spread = broadcast_to_dims(reshape(factors, (*outer, rows, count, 1)), (*outer, rows, count, inner // count))
    return values * reshape(spread, (*outer, rows, inner))


def _decode_e2m1(bits: tensor) -> tensor:
    """Values of 4-bit floats: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives."""
    exponent, mantissa = (bits >> 1) & 3, bits & 1
    normal = cast(2 + mantissa, float32) * cast(1 << exponent, float32) * 0.25
    magnitude = where(exponent == 0, cast(mantissa, float32) * 0.5, normal)
    return where((bits & 8) != 0, -magnitude, magnitude)
