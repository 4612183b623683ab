"""Every pointwise operator at special values, alone and combined: the bits of eager mode on the CPU.

Eager computes the end of a tensor, and tensors with strides, by other code than the rest, and the two differ in places
(the sign of `maximum(-0., 0.)`): either answer of eager's is right. Of functions that nobody rounds exactly the class
counts here (NaN, infinity, zero, sign), where float64's is right as well, for libraries flush some subnormal numbers,
and so is what is as near to it as eager's; `test_accuracy_pointwise.py` holds their errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.compiling import IS_TILE, compiled, fresh
from tests.ops.inputs import FLOATS, INTS
from tests.ops.pointwise_calls import Call, calls, grid

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)

# Calls in one graph.
GROUP = 24
PARTS = 24
EXACT = frozenset((
    "__lshift__", "__rshift__", "__xor__", "abs", "add", "addcdiv", "addcmul", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clamp",
    "clamp_max", "clamp_min", "clip", "copysign", "div", "eq", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "frac", "ge", "gt", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "heaviside", "isfinite", "isinf",
    "isnan", "isneginf", "isposinf", "le", "leaky_relu", "logical_and", "logical_not", "logical_or",
    "logical_xor", "lt", "masked_fill", "max", "maximum", "min", "minimum", "mul", "nan_to_num", "ne", "neg",
    "nextafter", "reciprocal", "relu", "relu6", "remainder", "round", "rsub", "sgn", "sign", "signbit",
    "softshrink", "square", "sub", "threshold", "threshold_backward", "to", "true_divide", "trunc", "where",
))  # fmt: skip
# float16's are rounded after each step in eager mode, here once: what float32 gives is right as well.
ROUNDED_ONCE = ("div", "floor_divide")
# Eager's answer is no better than another.
DIFFERS = {
    "logaddexp2": "eager's has a rounding error where the result is 0",
    "polygamma": "eager's is NaN at infinity, where the limit is 0",
    "special_airy_ai": "eager's is NaN for large negative arguments, where it is small",
    "special_modified_bessel_k1": "eager's is NaN for the smallest numbers, where it is infinite",
    "special_scaled_modified_bessel_k0": "eager's is infinite for the smallest numbers, where it is their logarithm",
    "special_scaled_modified_bessel_k1": "eager's is NaN for the smallest numbers, where it is infinite",
}


def _bits(x: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        integers = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()]
        return torch.where(x.isnan(), torch.tensor(torch.nan, dtype=x.dtype), x).view(integers)
    return x


def _classes(x: torch.Tensor) -> torch.Tensor:
    if not x.is_floating_point():
        return x
    info = torch.finfo(x.dtype)  # the smallest number is a class with 0: half of it rounds either way
    kind = torch.where(x.isnan(), 3, torch.where(x.isinf(), 2, (x.abs() > info.tiny * info.eps).int()))
    return torch.where(x.isnan(), kind, torch.where(torch.signbit(x), -kind - 4, kind))


def _strided(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((x, x), dim=1)[:, 0]


def _widened(t: torch.Tensor, wider: torch.dtype, result: torch.dtype) -> torch.Tensor:
    """An operand in the wider type. Where integers give a float, eager rounds them to that float first."""
    if t.is_floating_point():
        return t.to(wider)
    return t.to(result).to(wider) if result.is_floating_point else t


def _answers(call: Call, operands: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Of each result what eager gives for whole registers, for single elements, and in a wider type if that counts."""
    length = len(operands[0])
    operands = [t.repeat(-(-128 // length) + 1)[: length + 128 - length % 128] for t in operands]
    answers = [call.function(*operands), call.function(*map(_strided, operands))]
    if call.base not in EXACT or (call.base in ROUNDED_ONCE and operands[0].dtype in (torch.float16, torch.bfloat16)):
        wider = torch.float64 if call.base not in EXACT else torch.float32
        result = pytree.tree_leaves(answers[0])[0].dtype
        wide = call.function(
            *[t if mask else _widened(t, wider, result) for t, mask in zip(operands, call.masks, strict=True)]
        )
        answers.append(pytree.tree_map(lambda w, a: w.to(a.dtype), wide, answers[0]))
    return [[t[:length] for t in each] for each in zip(*map(pytree.tree_leaves, answers), strict=True)]


def _is_as_near(result: torch.Tensor, answers: Sequence[torch.Tensor]) -> torch.Tensor:
    """Whether a result is as near as eager's to the exact one, the last of the answers, or rounds to its neighbour."""
    info = torch.finfo(result.dtype)
    *eager, exact = (each.double() for each in answers)
    error = torch.stack([(each - exact).abs() for each in eager]).amax(0)
    return (result.double() - exact).abs() <= error.clamp(min=info.tiny * info.eps)


def _disagreements(call: Call, results: Sequence[Any], operands: Sequence[torch.Tensor]) -> list[str]:
    """Of all results of `call` with eager's."""
    key = _bits if call.base in EXACT else _classes
    found = []
    for result, answers in zip(results, _answers(call, operands), strict=True):
        a = answers[0]
        if result.dtype != a.dtype or result.shape != a.shape:
            return [f"{call.name}: {result.dtype} {list(result.shape)}, not {a.dtype} {list(a.shape)}"]
        is_right = torch.stack([key(result) == key(each) for each in answers]).any(0)
        if key is _classes and len(answers) == 3 and a.is_floating_point():
            is_right |= _is_as_near(result, answers)
        bad = (~is_right).nonzero().flatten().tolist()
        if bad and call.base not in DIFFERS:
            i = bad[0]
            arguments = [t[i].item() for t in operands]
            found.append(
                f"{call.name}{arguments}: {result[i]}, not {[e[i].item() for e in answers]}; {len(bad)} of {len(a)}"
            )
    return found


def _operands(call: Call, dtype: torch.dtype) -> list[torch.Tensor]:
    operands = grid(dtype, call.masks)
    divides_plainly = call.base == "lcm" or "trunc" in call.name
    if divides_plainly and dtype.is_signed and not dtype.is_floating_point:
        # The quotient of the least integer and -1 ends the process in eager mode: lcm(x, y) divides by gcd(x, y), which
        # is negative for the least integer.
        least = torch.iinfo(dtype).min
        operands = [torch.where(t == least, least + 1, t) if t.dtype == dtype else t for t in operands]
    try:
        call.function(*operands)  # raises where an integer is divided by zero
    except RuntimeError as error:
        if "ZeroDivision" not in str(error):
            raise
        operands = [torch.where(t == 0, 1, t).to(t.dtype) for t in operands]
    return operands


def _pieces(operands: Sequence[torch.Tensor], length: int, count: int) -> list[torch.Tensor]:
    """Where `count` pieces of a grid lie; they begin again at its end. Single elements are taken far apart."""
    step = length if length > 1 else 11
    starts = torch.arange(count) * step % (len(operands[0]) - length + 1)
    return [torch.arange(int(start), int(start) + length) for start in starts]


def check(chosen: Sequence[Call], dtype: torch.dtype, lengths: Sequence[int]) -> list[str]:
    """What differs when the calls are computed in one graph, on pieces of each of these lengths (0: the whole)."""
    sets = [_operands(call, dtype) for call in chosen]

    def together(sets: Any) -> Any:
        return [call.function(*operands) for call, operands in zip(chosen, sets, strict=True)]

    found = []
    for length in lengths:
        fresh()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = compiled(together)
            count = max(len(operands[0]) for operands in sets) // (length if length > 1 else 11) if length else 1
            places = [_pieces(o, length, count) if length else [torch.arange(len(o[0]))] for o in sets]
            runs = [
                function([[t[at[k]] for t in operands] for operands, at in zip(sets, places, strict=True)])
                for k in range(count)
            ]
        for index, (call, operands) in enumerate(zip(chosen, sets, strict=True)):
            results = [torch.cat(leaves) for leaves in zip(*[pytree.tree_leaves(r[index]) for r in runs], strict=True)]
            seen = [t[torch.cat(places[index])] for t in operands]
            found += [f"length {length or 'whole'}: {d}" for d in _disagreements(call, results, seen)]
    return found


def _parameters() -> list[Any]:
    """One part of two dtypes is fast."""
    return [
        pytest.param(
            dtype, part, id=f"{str(dtype)[6:]}-{part}",
            marks=[] if part == 0 and dtype in (torch.float32, torch.int8) else [pytest.mark.slow],
        )
        for dtype in (*FLOATS, *INTS, torch.bool)
        for part in range(PARTS)
    ]  # fmt: skip


@pytest.mark.parametrize("dtype,part", _parameters())
@pytest.mark.timeout(900)
def test_equals_eager(dtype: torch.dtype, part: int) -> None:
    chosen = calls(dtype)[part::PARTS]
    found = []
    for begin in range(0, len(chosen), GROUP):
        found += check(chosen[begin : begin + GROUP], dtype, (0, 7, 1))
    assert not found, f"{len(found)} of {len(chosen)} calls:\n" + "\n".join(found)


def test_every_generated_pointwise_operator_is_tried() -> None:
    """Those of the importer's table."""
    import re
    from pathlib import Path

    text = (Path(__file__).resolve().parents[2] / "csrc/runtime/fx/OpTable.cpp").read_text()
    table = text[text.index("// unary") : text.index("// views")]
    names = set(re.findall(r'"aten::([a-z_0-9]+)', table))
    tried = {call.base for call in (*calls(torch.float32), *calls(torch.int64))}
    aliases = {"_to_copy": "to"}
    assert len(names) > 70
    assert {name for name in names if aliases.get(name, name) not in tried} == set()
