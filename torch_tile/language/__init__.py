"""The tile language: the language of kernels under `@torch_tile.jit`, with Triton's names and meaning.

Inside a kernel, values are scalars and tiles (`tensor`); functions and operators of this module work on them, and
everything else is Python, run when the kernel is compiled.
"""

# ruff: noqa: F401

from __future__ import annotations

from torch_tile.errors import nearest as _nearest
from torch_tile.language import arith as _arith
from torch_tile.language import core, extra, math, random, target_info
from torch_tile.language.aggregates import aggregate_replace
from torch_tile.language.compile_time_values import const, constexpr, constexpr_type, tuple_type
from torch_tile.language.control import condition, range, static_range
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import (
    bfloat16,
    block_type,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    get_int_dtype,
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    pointer_type,
    str_to_ty,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from torch_tile.language.ops.arithmetic import (
    PropagateNan,
    add,
    cdiv,
    clamp,
    div_rn,
    fdiv,
    fma,
    maximum,
    minimum,
    mul,
    sub,
    swizzle2d,
    umulhi,
)
from torch_tile.language.ops.conversions import cast_ as cast
from torch_tile.language.ops.descriptors import (
    advance,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
)
from torch_tile.language.ops.math import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    rsqrt,
    sigmoid,
    sin,
    softmax,
    sqrt,
    sqrt_rn,
    where,
)
from torch_tile.language.ops.matrices import dot, dot_scaled
from torch_tile.language.ops.memory import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_poll,
    atomic_store,
    atomic_xchg,
    atomic_xor,
    load,
    store,
)
from torch_tile.language.ops.programs import (
    assume,
    debug_barrier,
    device_assert,
    device_print,
    expect_zero,
    inline_asm_elementwise,
    max_constancy,
    max_contiguous,
    multiple_of,
    num_programs,
    program_id,
    static_assert,
    static_print,
)
from torch_tile.language.ops.random import (
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
from torch_tile.language.ops.rearranging import cat, interleave, join, permute, split, trans
from torch_tile.language.ops.reductions import argmax, argmin, max, min, reduce, reduce_or, sum, xor_sum
from torch_tile.language.ops.scans import associative_scan, cumprod, cumsum, gather, histogram, map_elementwise
from torch_tile.language.ops.shapes import (
    arange,
    broadcast,
    broadcast_to,
    expand_dims,
    full,
    item,
    ravel,
    reshape,
    squeeze,
    to_tensor,
    unsqueeze,
    view,
    zeros,
    zeros_like,
)
from torch_tile.language.ops.sorting import bitonic_merge, flip, sort, topk
from torch_tile.triton_compat import standard

del _arith
tuple = tuple
slice = slice
tensor_descriptor_type = tensor_descriptor_base = tensor_descriptor
TRITON_MAX_TENSOR_NUMEL = 1 << 20


def __getattr__(name: str) -> object:
    if name == "constexpr_function":
        from torch_tile.language.jit import constexpr_function

        return constexpr_function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_nearest(name, __all__)}")


__all__ = [name for name in dir() if not name.startswith("_") and name != "annotations"]
