"""Arithmetic, comparison, where, casts, elementary functions, minimum and maximum, activations."""

# ruff: noqa: E501  (tables: a case is a row)

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.ops.case import OpCase, pointwise
from tests.ops.inputs import ABOVE_ONE, ALL, ANY, FLOATS, INTS, NONZERO, NUMBERS, POSITIVE, SMALL_COUNT, UNIT, Domain

SIGNED = tuple(d for d in NUMBERS if d != torch.uint8)
INTS_AND_BOOL = (*INTS, torch.bool)
WIDE = Domain(-20.0, 20.0)

_low_precision_chain = {torch.bfloat16: (3e-2, 3e-2), torch.float16: (4e-3, 4e-3)}
_chain_reason = "eager rounds between the operators it is made of, one kernel rounds once"

UNARY_FLOAT = [
    pointwise("exp", torch.exp, Domain(-10.0, 8.0)),
    pointwise("exp2", torch.exp2, ANY),
    pointwise("expm1", torch.expm1, ANY),
    pointwise("log", torch.log, POSITIVE),
    pointwise("log2", torch.log2, POSITIVE),
    pointwise("log10", torch.log10, POSITIVE),
    pointwise("log1p", torch.log1p, Domain(-0.9, 8.0)),
    pointwise("sqrt", torch.sqrt, POSITIVE),
    pointwise("rsqrt", torch.rsqrt, POSITIVE),
    pointwise("reciprocal", torch.reciprocal, NONZERO),
    pointwise("sin", torch.sin, WIDE),
    pointwise("cos", torch.cos, WIDE),
    pointwise("tan", torch.tan, UNIT),
    pointwise("asin", torch.asin, UNIT),
    pointwise("acos", torch.acos, UNIT),
    pointwise("atan", torch.atan, WIDE),
    pointwise("sinh", torch.sinh, ANY),
    pointwise("cosh", torch.cosh, ANY),
    pointwise("tanh", torch.tanh, ANY),
    pointwise("asinh", torch.asinh, WIDE),
    pointwise("acosh", torch.acosh, ABOVE_ONE),
    pointwise("atanh", torch.atanh, UNIT),
    pointwise("erf", torch.erf, ANY),
    pointwise("erfc", torch.erfc, ANY),
    pointwise("sigmoid", torch.sigmoid, WIDE),
    pointwise("frac", torch.frac, ANY),
    pointwise("isnan", torch.isnan, ANY, grad=False),
    pointwise("isinf", torch.isinf, ANY, grad=False),
    pointwise("isfinite", torch.isfinite, ANY, grad=False),
    pointwise("nan_to_num", torch.nan_to_num, ANY),
    pointwise("logit", lambda x: torch.logit(x, 1e-3), Domain(0.02, 0.98)),
]

UNARY_ANY = [
    pointwise("neg", torch.neg, ANY, dtypes=NUMBERS),
    pointwise("abs", torch.abs, NONZERO, dtypes=NUMBERS),
    pointwise("sign", torch.sign, NONZERO, dtypes=NUMBERS),
    pointwise("floor", torch.floor, ANY, grad=False),
    pointwise("ceil", torch.ceil, ANY, grad=False),
    pointwise("round", torch.round, ANY, grad=False),
    pointwise("round_half", lambda x: torch.round(torch.round(x * 2) / 2), ANY, grad=False),
    pointwise("trunc", torch.trunc, ANY, grad=False),
    pointwise("square", torch.square, ANY, dtypes=NUMBERS),
    pointwise("relu", torch.relu, NONZERO, dtypes=SIGNED),
    pointwise("bitwise_not", torch.bitwise_not, ANY, dtypes=INTS_AND_BOOL, grad=False),
    pointwise("logical_not", torch.logical_not, ANY, dtypes=ALL, grad=False),
    pointwise("exp_of_integer", torch.exp, Domain(0, 1), dtypes=INTS_AND_BOOL, grad=False),
    pointwise("sqrt_of_integer", torch.sqrt, POSITIVE, dtypes=(torch.int64, torch.uint8), grad=False),
]

# Multiply-add has no special values here: eager fuses it, so that products beyond float32 do not overflow.
BINARY = [
    pointwise("add", torch.add, ANY, ANY, dtypes=ALL),
    pointwise("add_alpha", lambda x, y: torch.add(x, y, alpha=3), ANY, ANY, dtypes=NUMBERS, special=False),
    pointwise("sub", torch.sub, ANY, ANY, dtypes=NUMBERS),
    pointwise("mul", torch.mul, ANY, ANY, dtypes=ALL),
    pointwise("div", torch.div, ANY, NONZERO, dtypes=NUMBERS),
    pointwise(
        "div_floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), ANY, NONZERO, dtypes=NUMBERS, grad=False
    ),
    pointwise(
        "div_trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), ANY, NONZERO, dtypes=NUMBERS, grad=False
    ),
    pointwise("remainder", torch.remainder, ANY, NONZERO, dtypes=NUMBERS, grad=False),
    pointwise("fmod", torch.fmod, ANY, NONZERO, dtypes=NUMBERS, grad=False),
    pointwise(
        "pow",
        torch.pow,
        POSITIVE,
        UNIT,
        tolerances={torch.float32: (2e-5, 1e-6)},
        reason="the error grows with y*log(x)",
    ),
    pointwise(
        "pow_integer", torch.pow, ANY, SMALL_COUNT, dtypes=(torch.int64, torch.int32), generated=False, grad=False
    ),
    pointwise("atan2", torch.atan2, ANY, NONZERO),
    pointwise("hypot", torch.hypot, NONZERO, NONZERO, generated=False),
    pointwise("maximum", torch.maximum, ANY, ANY, dtypes=ALL),
    pointwise("minimum", torch.minimum, ANY, ANY, dtypes=ALL),
    pointwise("fmax", torch.fmax, ANY, ANY, generated=False),
    pointwise("copysign", torch.copysign, NONZERO, NONZERO),
    pointwise("bitwise_and", torch.bitwise_and, ANY, ANY, dtypes=INTS_AND_BOOL, grad=False),
    pointwise("bitwise_or", torch.bitwise_or, ANY, ANY, dtypes=INTS_AND_BOOL, grad=False),
    pointwise("bitwise_xor", torch.bitwise_xor, ANY, ANY, dtypes=INTS_AND_BOOL, grad=False),
    pointwise("shift_left", torch.bitwise_left_shift, SMALL_COUNT, Domain(0, 1), dtypes=INTS, grad=False),
    pointwise("shift_right", torch.bitwise_right_shift, ANY, Domain(0, 1), dtypes=INTS, grad=False),
    pointwise("logical_and", torch.logical_and, ANY, ANY, dtypes=(torch.float32, torch.int64, torch.bool), grad=False),
    pointwise("logical_or", torch.logical_or, ANY, ANY, dtypes=(torch.float32, torch.int64, torch.bool), grad=False),
    pointwise("logical_xor", torch.logical_xor, ANY, ANY, dtypes=(torch.float32, torch.int64, torch.bool), grad=False),
    pointwise("eq", torch.eq, SMALL_COUNT, SMALL_COUNT, dtypes=ALL, grad=False),
    pointwise("ne", torch.ne, SMALL_COUNT, SMALL_COUNT, dtypes=ALL, grad=False),
    pointwise("lt", torch.lt, ANY, ANY, dtypes=ALL, grad=False),
    pointwise("le", torch.le, ANY, ANY, dtypes=ALL, grad=False),
    pointwise("gt", torch.gt, ANY, ANY, dtypes=ALL, grad=False),
    pointwise("ge", torch.ge, ANY, ANY, dtypes=ALL, grad=False),
    pointwise("xlogy", torch.xlogy, ANY, POSITIVE, generated=False, special=False),
    pointwise("logaddexp", torch.logaddexp, ANY, ANY, generated=False, special=False),
]

SCALAR_OPERAND = [
    pointwise("add_scalar", lambda x: x + 2, ANY, dtypes=ALL),
    pointwise("add_float_scalar", lambda x: x + 0.1, ANY, dtypes=(*FLOATS, torch.int64, torch.uint8, torch.bool)),
    pointwise("rsub_scalar", lambda x: 3 - x, ANY, dtypes=NUMBERS),
    pointwise("mul_scalar", lambda x: x * 3, ANY, dtypes=ALL),
    pointwise("div_scalar", lambda x: x / 3, ANY, dtypes=ALL),
    pointwise("floordiv_scalar", lambda x: x // 3, ANY, dtypes=NUMBERS, grad=False),
    pointwise("remainder_scalar", lambda x: x % 3, ANY, dtypes=NUMBERS),
    pointwise("remainder_negative_scalar", lambda x: x % -3, ANY, dtypes=SIGNED),
    pointwise(
        "pow_scalars",
        lambda x: (x**2, x**3, x**-1, x**0.5, x**-0.5, x**1, x**0),
        POSITIVE,
        tolerances={torch.float16: (8e-3, 8e-3)},
        reason="x**-1 of small x, rounded twice",
    ),
    pointwise("pow_negative_base", lambda x: (x**2, x**3, x**-2), NONZERO),
    pointwise("pow_of_scalar", lambda x: 2.0**x, ANY),
    pointwise("pow_integer_scalar", lambda x: x**3, ANY, dtypes=(torch.int64, torch.int32), grad=False),
    pointwise("compare_scalar", lambda x: (x > 1, x <= 1, x == 1, x != 1), ANY, dtypes=ALL, grad=False),
    pointwise("compare_float_scalar", lambda x: (x > 0.5, x <= 0.5), ANY, dtypes=ALL, grad=False),
    pointwise("shift_scalar", lambda x: (x << 2, x >> 1), ANY, dtypes=INTS, grad=False),
    pointwise("clamp", lambda x: x.clamp(-1, 2), ANY, dtypes=SIGNED),
    pointwise("clamp_min", lambda x: x.clamp(min=1), ANY, dtypes=NUMBERS),
    pointwise("clamp_max", lambda x: x.clamp(max=1), ANY, dtypes=NUMBERS),
    pointwise("fill_where", lambda x: x.masked_fill(x > 1, 2), ANY, dtypes=NUMBERS),
]

OTHER = [
    pointwise("clamp_tensors", lambda x, y, z: torch.clamp(x, y, z), ANY, Domain(-4, 0), Domain(0, 4), dtypes=SIGNED),
    pointwise("where", lambda x, y: torch.where(x > 0, x, y), ANY, ANY, dtypes=ALL),
    pointwise("where_scalars", lambda x: (torch.where(x > 0, 1.0, 0.0), torch.where(x > 0, x, 0)), ANY, dtypes=NUMBERS),
    pointwise(
        "where_of_where", lambda x, y: torch.where(x > y, torch.where(x > 0, x, -x), y * 2), ANY, ANY, dtypes=SIGNED
    ),
    pointwise(
        "addcmul",
        lambda x, y, z: torch.addcmul(x, y, z, value=0.5),
        ANY,
        ANY,
        ANY,
        tolerances=_low_precision_chain,
        reason=_chain_reason,
        special=False,
    ),
    pointwise(
        "addcdiv",
        lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
        ANY,
        ANY,
        NONZERO,
        tolerances=_low_precision_chain,
        reason=_chain_reason,
        special=False,
    ),
    pointwise(
        "lerp",
        lambda x, y: torch.lerp(x, y, 0.3),
        ANY,
        ANY,
        tolerances=_low_precision_chain,
        reason=_chain_reason,
        special=False,
    ),
    pointwise(
        "chain",
        lambda x, y: torch.tanh(x * y + 1) * torch.sigmoid(x) - y.abs().sqrt(),
        ANY,
        NONZERO,
        tolerances=_low_precision_chain,
        reason=_chain_reason,
    ),
    pointwise("many_outputs", lambda x, y: (x + y, x - y, x * y, torch.maximum(x, y), x), ANY, ANY, dtypes=NUMBERS),
    pointwise("integer_chain", lambda x, y: ((x * 7 + y) // 5) % 11 ^ (x & 3), ANY, ANY, dtypes=INTS, grad=False),
    pointwise(
        "mixed_dtypes",
        lambda x: (x + x.to(torch.int32), x.to(torch.bfloat16) * x, x.double() + x.half()),
        ANY,
        dtypes=(torch.float32, torch.int64, torch.uint8),
        grad=False,
        special=False,
    ),
    pointwise(
        "bool_arithmetic",
        lambda x, y: ((x > 0) + (y > 0), (x > 0) * y, (x > 0) & (y > 0) | ~(x > y)),
        ANY,
        ANY,
        dtypes=(torch.float32, torch.int32),
        grad=False,
    ),
]

ACTIVATIONS = [
    pointwise(name, function, NONZERO, tolerances=_low_precision_chain, reason=_chain_reason, special=False)
    for name, function in [
        ("gelu", F.gelu),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
        ("silu", F.silu),
        ("mish", F.mish),
        ("elu", F.elu),
        ("selu", F.selu),
        ("celu", F.celu),
        ("relu6", F.relu6),
        ("leaky_relu", F.leaky_relu),
        ("softplus", F.softplus),
        ("softsign", F.softsign),
        ("hardswish", F.hardswish),
        ("hardsigmoid", F.hardsigmoid),
        ("hardtanh", F.hardtanh),
        ("logsigmoid", F.logsigmoid),
        ("tanhshrink", F.tanhshrink),
        ("softshrink", F.softshrink),
        ("hardshrink", F.hardshrink),
        ("threshold", lambda x: F.threshold(x, 0.3, -1.0)),
    ]
]  # fmt: skip

CASTS = [
    pointwise("cast_to_every_dtype", lambda x: tuple(x.to(dtype) for dtype in ALL if dtype != x.dtype), Domain(0, 25),
              dtypes=ALL, grad=False, special=False),
    pointwise("cast_negative", lambda x: (x.to(torch.int32), x.to(torch.int8), x.to(torch.int64), x.bool(), x.int().float()),
              ANY, dtypes=SIGNED, grad=False, special=False),
    pointwise("narrowing_wraps", lambda x: (x * 1000003).to(torch.int8).to(torch.int64) + (x * 70001).to(torch.int16), ANY,
              dtypes=(torch.int64, torch.int32), grad=False),
    pointwise("round_trip", lambda x: x.to(torch.bfloat16).to(torch.float32).to(torch.float16), WIDE, dtypes=(torch.float32, torch.float64),
              grad=False),
    pointwise("to_low_precision", lambda x: (x.bfloat16(), x.half()), WIDE, dtypes=(torch.float32, torch.float64)),
]  # fmt: skip

CASES: list[OpCase] = [*UNARY_FLOAT, *UNARY_ANY, *BINARY, *SCALAR_OPERAND, *OTHER, *ACTIVATIONS, *CASTS]
