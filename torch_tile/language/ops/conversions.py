"""Conversions between types, as functions of the language."""

from __future__ import annotations

from typing import Any

from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import error, method, named, tensor
from torch_tile.language.values import (
    as_dtype,
    as_tensor,
)

SECTION = "Tiles and shapes"


@named(SECTION)
@method
def to(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """The values in another type.

    Args:
        input: tile or scalar.
        dtype: target type. Floats round to the nearest, ties to even; to integers toward zero; to int1 `!= 0`.
        fp_downcast_rounding: "rtne", or "rtz" to round toward zero, for conversions to a narrower float type.
        bitcast: keep the bits instead of the value.

    float64 and integers go to 16-bit and 8-bit floats by way of float32, as in torch: they are rounded twice.
    Beyond its range a number becomes the greatest of float8e4nv, 448, and infinity in float8e5. In kernels of
    `@triton.jit` it becomes the greatest number of either, as Triton has it.

    Raises:
        InvalidKernelError: no type, or a bitcast between widths.

    Example:
        >>> acc += x.to(tl.float32)
    """
    from torch_tile.language import casts

    x = as_tensor(input)
    target = as_dtype(dtype, "tl.cast: dtype")
    rounding = unwrap(fp_downcast_rounding)
    if unwrap(bitcast):
        return casts.bitcast(x, target)
    if x.dtype == target:
        return x
    narrows = target.is_floating() and x.dtype.is_floating() and target.primitive_bitwidth < x.dtype.primitive_bitwidth
    if rounding is not None and not narrows:
        raise error(f"fp_downcast_rounding expected a conversion to a narrower float type, got {x.dtype} to {target}")
    if rounding not in (None, "rtne", "rtz"):
        raise error(f"fp_downcast_rounding expected 'rtne' or 'rtz', got {rounding!r}")
    if rounding == "rtz":
        return toward_zero(x, target)
    return cast(x, target)


def toward_zero(x: tensor, target: Any) -> tensor:
    """Rounds to nearest, then steps back by one where that went beyond."""
    from torch_tile.language.casts import bitcast
    from torch_tile.language.dtypes import int_type
    from torch_tile.language.ops.math import where

    near = cast(x, target)
    bits = bitcast(near, int_type(target.primitive_bitwidth, True))
    wide = cast(near, x.dtype)
    beyond = where(x < 0, wide < x, wide > x)
    return bitcast(bits - cast(beyond, bits.dtype), target)


@named(SECTION)
def cast_(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    return to(input, dtype, fp_downcast_rounding, bitcast)


cast_.__name__ = "cast"


cast_.__doc__ = to.__doc__


method(cast_)
