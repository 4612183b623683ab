"""Every pointwise operator of ATen as a list of calls with fixed numbers, and grids of special values to call it with.

The operators are those that torch tags as pointwise, and those of the importer's table that have no tag.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tests.ops.inputs import FLOATS, INTS

aten = torch.ops.aten

_UNTAGGED = (
    "_to_copy.default",
    "elu_backward.default",
    "floor_divide.Scalar",
    "floor_divide.default",
    "hardshrink.default",
    "hardsigmoid_backward.default",
    "hardswish.default",
    "hardswish_backward.default",
    "hardtanh_backward.default",
    "leaky_relu_backward.default",
    "log_sigmoid.default",
    "masked_fill.Tensor",
    "mish_backward.default",
    "rsub.Tensor",
    "softplus_backward.default",
    "softshrink_backward.default",
    "special_ndtr.default",
    "where.Scalar",
    "where.ScalarOther",
    "where.ScalarSelf",
)
# Results are no function of the element alone, or are Python numbers.
_LEFT_OUT = ("clone", "equal", "native_dropout_backward", "mvlgamma", "_to_copy")
# Polynomials of a degree that a tensor gives: ATen takes the degree's low bits, and loops over it.
_DEGREES = "_polynomial_"
# With one number as second tensor, which the compiler sees, an operator may take other forms.
_FOLDED = ("atan2", "copysign", "div", "floor_divide", "fmod", "maximum", "minimum", "mul", "pow", "remainder", "sub")


@dataclasses.dataclass(frozen=True)
class Call:
    """An overload with all arguments but its tensors."""

    name: str
    base: str
    function: Callable[..., Any]
    masks: tuple[bool, ...]
    """One entry for each tensor: whether it is a mask."""


def special_floats(dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    smallest = {torch.float64: 5e-324, torch.float32: 2.0**-149, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
    root = math.sqrt(info.max)
    values = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, 1e-3, 10.0, info.tiny, smallest[dtype], info.max, 2 * root]
    return [*values, *(-v for v in values), math.inf, -math.inf, math.nan]


def special_integers(dtype: torch.dtype) -> list[int]:
    if dtype is torch.bool:
        return [0, 1]
    info = torch.iinfo(dtype)
    values = [0, 1, 2, 3, 7, 8, info.bits - 1, info.bits, info.max, info.max - 1, info.min, info.min + 1]
    return sorted({*values, *(v for v in (-1, -2, -3, -7, -info.bits) if info.min <= v)})


def grid(dtype: torch.dtype, masks: Sequence[bool]) -> list[torch.Tensor]:
    """All combinations of special values, repeated to a multiple of 64; masks alternate."""
    values: Sequence[Any] = special_floats(dtype) if dtype.is_floating_point else special_integers(dtype)
    count = sum(not is_mask for is_mask in masks)
    if count > 2:
        values = [*values[:9:2], *values[11:], math.inf][::2] if dtype.is_floating_point else values[::2]
    line = torch.tensor(values, dtype=dtype)
    operands = [t.flatten() for t in torch.meshgrid(*[line] * max(count, 1), indexing="ij")]
    length = max(-(-operands[0].numel() // 64) * 64, 128)
    repeats = -(-length // operands[0].numel())
    operands = [t.repeat(repeats)[:length].contiguous() for t in operands]
    return [torch.arange(length) % 3 == 0 if is_mask else operands.pop(0) for is_mask in masks]


def _numbers(dtype: torch.dtype) -> list[Any]:
    if dtype.is_floating_point:
        return [0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    return [2, -2, 3, 0, 1, -1, 8, 0.5, -2.5]


def _choices(argument: Any, dtype: torch.dtype) -> list[Any]:
    """What an argument that is no tensor is tried with, the default first."""
    kind = str(argument.type)
    optional = kind.startswith("Optional")
    kind = kind.removeprefix("Optional[").removesuffix("]")
    default = [argument.default_value] if argument.has_default_value() else [None] if optional else []
    if kind in ("number", "float"):
        return [*default, *(n for n in _numbers(dtype) if not default or n != default[0])]
    if argument.name == "rounding_mode":
        return [None, "floor", "trunc"]
    if argument.name == "approximate":
        return ["none", "tanh"]
    if argument.name == "decimals":
        return [0, 2, -1]
    return default or ([2] if kind == "int" else [True])


def _calls_of(name: str, dtype: torch.dtype) -> Iterator[Call]:
    overload = functools.reduce(getattr, name.split("."), aten)
    arguments = overload._schema.arguments
    is_tensor = [str(a.type) in ("Tensor", "Optional[Tensor]") for a in arguments]
    masks = tuple(a.name in ("mask", "condition") for a, tensor in zip(arguments, is_tensor, strict=True) if tensor)
    choices = [_choices(a, dtype) for a, tensor in zip(arguments, is_tensor, strict=True) if not tensor]
    # One argument takes all its values, while the others have their first; then pairs of a few.
    tuples = [tuple(c[0] for c in choices)] if choices else [()]
    for position, values in enumerate(choices):
        tuples += [(*tuples[0][:position], value, *tuples[0][position + 1 :]) for value in values[1:]]
    if len(choices) > 1:
        tuples += list(itertools.product(*[c[1:4] for c in choices]))[:8]
    for numbers in tuples:

        def function(*tensors: torch.Tensor, numbers: tuple[Any, ...] = numbers) -> Any:
            tensors_left, numbers_left = list(tensors), list(numbers)
            given = [(tensors_left if tensor else numbers_left).pop(0) for tensor in is_tensor]
            positional = [v for v, a in zip(given, arguments, strict=True) if not a.kwarg_only]
            named = {a.name: v for v, a in zip(given, arguments, strict=True) if a.kwarg_only}
            return overload(*positional, **named)

        base, text = name.split(".")[0], ", ".join(map(str, numbers))
        yield Call(f"{name}({text})", base, function, masks)
        if base in _FOLDED and masks == (False, False):
            for number in _numbers(dtype):
                if dtype.is_floating_point or isinstance(number, int):
                    folded = functools.partial(_with_one_number, function, number)
                    yield Call(f"{name}({text}) with {number}", base, folded, masks[:1])


def _with_one_number(function: Callable[..., Any], number: float, x: torch.Tensor) -> Any:
    return function(x, torch.full_like(x, number))


def overloads() -> list[str]:
    """Functional overloads of ATen that are pointwise. The dispatcher knows all; `dir(aten)` those seen so far."""
    found = set(_UNTAGGED)
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        base, _, overload_name = name.removeprefix("aten::").partition(".")
        overload = getattr(getattr(aten, base), overload_name or "default")
        is_function = not overload._schema.is_mutable and not any(a.is_out for a in overload._schema.arguments)
        if is_function and torch.Tag.pointwise in overload.tags:
            found.add(f"{base}.{overload_name or 'default'}")
    return sorted(name for name in found if name.split(".")[0] not in _LEFT_OUT and _DEGREES not in name)


def calls(dtype: torch.dtype) -> list[Call]:
    """Those that eager mode and torch's meta kernels know for operands of this dtype."""
    found = []
    for name in overloads():
        for call in _calls_of(name, dtype):
            try:
                call.function(*ordinary(dtype, call))
                call.function(*[t.to("meta") for t in ordinary(dtype, call)])
            except (RuntimeError, TypeError, ValueError, NotImplementedError):
                continue
            found.append(call)
    casts = [t for t in (*FLOATS, *INTS, torch.bool) if t != dtype]
    found += [Call(f"to({t})", "to", functools.partial(torch.Tensor.to, dtype=t), (False,)) for t in casts]
    return found


def ordinary(dtype: torch.dtype, call: Call) -> list[torch.Tensor]:
    return [torch.ones(2, dtype=torch.bool if is_mask else dtype) for is_mask in call.masks]
