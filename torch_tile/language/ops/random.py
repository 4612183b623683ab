"""Random numbers: Philox4x32-10, a function of seed and offset alone, and equal to Triton's."""

from __future__ import annotations

from typing import Any

from torch_tile.language.casts import bitcast, cast
from torch_tile.language.core import error, named, tensor
from torch_tile.language.dtypes import float32, int32, int64, uint32, uint64
from torch_tile.language.ops.arithmetic import maximum, umulhi
from torch_tile.language.ops.math import cos, log, sin, sqrt, where
from torch_tile.language.values import as_int, as_tensor, constant

SECTION = "Random numbers"
# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011: keys and multipliers of Philox4x32 and 4x64.
_CONSTANTS = {
    "uint32": (0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57),
    "uint64": (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B, 0xD2E7470EE14C6C93, 0xCA5A826395121157),
}


@named(SECTION)
def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = 10) -> Any:
    """Rounds of Philox on counters (c0, c1, c2, c3) with key (k0, k1): four tiles of uint32 or uint64."""
    if c0.dtype.name not in _CONSTANTS:
        raise error(f"tl.philox expected counters of uint32 or uint64, got {c0.dtype}")
    key_a, key_b, round_a, round_b = (constant(v, c0.dtype) for v in _CONSTANTS[c0.dtype.name])
    for _ in range(as_int(n_rounds, "tl.philox: n_rounds")):
        old_c0, old_c2 = c0, c2
        c0 = umulhi(round_b, old_c2) ^ c1 ^ k0
        c2 = umulhi(round_a, old_c0) ^ c3 ^ k1
        c1 = old_c2 * round_b
        c3 = old_c0 * round_a
        k0, k1 = k0 + key_a, k1 + key_b
    return c0, c1, c2, c3


@named(SECTION)
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = 10) -> Any:
    """Philox with a 64-bit seed as key: four tiles of uint32, or of uint64 for 64-bit counters."""
    seed = as_tensor(seed)
    if not seed.dtype.is_int():
        raise error(f"tl.philox expected an integer seed, got {seed.type}")
    seed = cast(seed, uint64)
    counters = [as_tensor(c) for c in (c0, c1, c2, c3)]
    if counters[0].dtype.primitive_bitwidth == 32:
        key = cast(seed & 0xFFFFFFFF, uint32), cast((seed >> 32) & 0xFFFFFFFF, uint32)
        type_: Any = uint32
    else:
        key = seed, constant(0, uint64)
        type_ = uint64
    return philox_impl(*[bitcast(c, type_) for c in counters], *key, n_rounds)


@named(SECTION)
def randint4x(seed: Any, offset: Any, n_rounds: Any = 10) -> Any:
    """Four tiles of random uint32, one number of each per offset."""
    offset = as_tensor(offset)
    if not offset.dtype.is_int():
        raise error(f"random numbers expected integer offsets, got {offset.type}")
    low = cast(offset, uint32)
    zero = low * 0
    high = cast(offset >> 32, uint32) if offset.dtype.primitive_bitwidth > 32 else zero
    return philox(seed, low, high, zero, zero, n_rounds)


@named(SECTION)
def randint(seed: Any, offset: Any, n_rounds: Any = 10) -> tensor:
    """Random uint32, one per offset.

    Args:
        seed: integer scalar.
        offset: tile of integers; equal offsets give equal numbers.
    """
    result: tensor = randint4x(seed, offset, n_rounds)[0]
    return result


@named(SECTION)
def uint_to_uniform_float(x: Any) -> tensor:
    """Random integers of 32 or 64 bits as float32 in [0, 1)."""
    x = as_tensor(x)
    wide = x.dtype.primitive_bitwidth == 64
    if not x.dtype.is_int() or x.dtype.primitive_bitwidth not in (32, 64):
        raise error(f"tl.uint_to_uniform_float expected integers of 32 or 64 bits, got {x.type}")
    x = bitcast(x, int64 if wide else int32)
    x = where(x < 0, ~x, x)
    # The greatest integer times this is below 1 in float32.
    return cast(x, float32) * (1.0842020432385337e-19 if wide else 4.6566127342e-10)


@named(SECTION)
def rand(seed: Any, offset: Any, n_rounds: Any = 10) -> tensor:
    """Random float32 in [0, 1), one per offset.

    Example:
        >>> keep = tl.rand(seed, offsets) > p
    """
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@named(SECTION)
def rand4x(seed: Any, offsets: Any, n_rounds: Any = 10) -> Any:
    """Four tiles of random float32 in [0, 1)."""
    return tuple(uint_to_uniform_float(i) for i in randint4x(seed, offsets, n_rounds))


@named(SECTION)
def pair_uniform_to_normal(u1: Any, u2: Any) -> Any:
    """Two tiles of normal numbers from two of uniform ones (Box and Muller)."""
    u1 = maximum(1.0e-7, u1)
    angle = u2 * 6.283185307179586
    radius = sqrt(log(u1) * -2.0)
    return radius * cos(angle), radius * sin(angle)


@named(SECTION)
def randn(seed: Any, offset: Any, n_rounds: Any = 10) -> tensor:
    """Normally distributed float32, one per offset."""
    i1, i2, _, _ = randint4x(seed, offset, n_rounds)
    result: tensor = pair_uniform_to_normal(uint_to_uniform_float(i1), uint_to_uniform_float(i2))[0]
    return result


@named(SECTION)
def randn4x(seed: Any, offset: Any, n_rounds: Any = 10) -> Any:
    """Four tiles of normally distributed float32."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(u1, u2), *pair_uniform_to_normal(u3, u4))
