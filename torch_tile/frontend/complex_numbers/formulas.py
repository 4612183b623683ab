"""What each operator is of the parts of its operands."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from torch_tile.frontend.complex_numbers.parts import PARTS, Pair, Parts, is_complex, of_shape, value_of
from torch_tile.frontend.decompositions.pointwise import hypot

aten = torch.ops.aten


def _multiply(p: Parts) -> Pair:
    return p.times(p.pair(p.node.args[0]), p.pair(p.node.args[1]))


def _add(sign: int) -> Callable[[Parts], Pair]:
    def add(p: Parts) -> Pair:
        alpha = p.argument(2, "alpha", 1)
        return p.plus(p.pair(p.node.args[0]), p.times(p.pair(sign * alpha), p.pair(p.node.args[1])))

    return add


def _mean(p: Parts) -> Pair:
    """Sums divided by a complex number whose imaginary part is 0: an infinite part makes NaN of the other one."""
    real, imag = _each(p)
    by_zero = [p.emit(aten.mul.Tensor, part, 0.0) for part in (imag, real)]
    return p.emit(aten.add.Tensor, real, by_zero[0]), p.emit(aten.sub.Tensor, imag, by_zero[1])


def _divide(p: Parts) -> Pair:
    return _quotient(p, p.pair(p.node.args[0]), p.pair(p.node.args[1]))


def _quotient(p: Parts, dividend: Pair, divisor: Pair) -> Pair:
    """(a + bi) / (c + di) as Smith 1962 and c10 do it: by the larger part of the divisor first."""
    emit = p.emit
    operands = (*dividend, *divisor)
    like = next(part for part in operands if isinstance(part, Node))

    def filled(number: float) -> Any:
        # Numbers beyond the range are infinite, as eager mode converts them; full_like refuses them.
        if abs(number) > torch.finfo(value_of(like).dtype).max:
            number = math.copysign(math.inf, number)
        return emit(aten.full_like.default, like, number)

    a, b, c, d = (x if isinstance(x, Node) else filled(x) for x in operands)
    is_c = emit(aten.ge.Tensor, emit(aten.abs.default, c), emit(aten.abs.default, d))
    choose = functools.partial(emit, aten.where.self, is_c)
    large, small = choose(c, d), choose(d, c)
    ratio = emit(aten.div.Tensor, small, large)

    def plus(x: Node, y: Node) -> Any:
        return emit(aten.add.Tensor, x, emit(aten.mul.Tensor, y, ratio))

    def minus(x: Node, y: Node) -> Any:
        return emit(aten.sub.Tensor, x, emit(aten.mul.Tensor, y, ratio))

    scale = emit(aten.reciprocal.default, plus(large, small))
    first, second = choose(a, b), choose(b, a)
    real = emit(aten.mul.Tensor, plus(first, second), scale)
    across = choose(minus(b, a), emit(aten.sub.Tensor, emit(aten.mul.Tensor, b, ratio), a))
    imag = emit(aten.mul.Tensor, across, scale)
    # By zero: infinities of the signs of the dividend's parts, and NaN.
    is_zero = emit(aten.logical_and.default, emit(aten.eq.Scalar, c, 0.0), emit(aten.eq.Scalar, d, 0.0))
    real, imag = (
        emit(aten.where.self, is_zero, emit(aten.mul.Tensor, own, math.inf), part)
        for own, part in ((a, real), (b, imag))
    )
    return real, imag


def _reciprocal(p: Parts) -> Pair:
    return _quotient(p, (1.0, 0.0), p.pair(p.node.args[0]))


# The largest integers of which the exponential is finite.
_LARGEST_EXPONENT = {torch.float32: 88.0, torch.float64: 709.0}


def _exponential(p: Parts) -> Pair:
    """exp(x) * (cos(y) + i sin(y)), by C99's rules where a part is 0, infinite or NaN. Products may be finite where
    exp(x) is not."""
    emit, largest = p.emit, _LARGEST_EXPONENT[p.dtype]
    x, y = p.pair(p.node.args[0])
    is_large = emit(aten.gt.Scalar, x, largest)
    rest = emit(aten.exp.default, emit(aten.where.self, is_large, emit(aten.sub.Tensor, x, largest), x))
    scale = emit(aten.where.self, is_large, *(p.number(number) for number in (math.exp(largest), 1.0)))
    cosine, sine = (emit(aten.mul.Tensor, emit(op, y), scale) for op in (aten.cos.default, aten.sin.default))
    real, imag = (emit(aten.mul.Tensor, part, rest) for part in (cosine, sine))
    # Directions of infinities and zeros are those of finite y alone.
    is_finite = emit(aten.lt.Scalar, emit(aten.abs.default, y), math.inf)
    is_lowest, is_highest = (emit(aten.eq.Scalar, x, number) for number in (-math.inf, math.inf))
    exponential = emit(aten.exp.default, x)
    is_infinite = emit(aten.logical_or.default, is_lowest, is_highest)
    has_no_direction = emit(aten.logical_and.default, is_infinite, emit(aten.logical_not.default, is_finite))
    real = emit(aten.where.self, has_no_direction, exponential, real)
    zero = emit(aten.copysign.Tensor, emit(aten.zeros_like.default, x), y)
    is_zero = emit(aten.logical_and.default, has_no_direction, is_lowest)
    imag = emit(aten.where.self, is_zero, zero, imag)
    is_real = emit(aten.eq.Scalar, y, 0.0)
    return emit(aten.where.self, is_real, exponential, real), emit(aten.where.self, is_real, y, imag)


def _of_length_and_angle(p: Parts) -> Pair:
    """`aten.polar`."""
    length, angle = (p.cast(part, p.dtype) for part in p.node.args[:2])
    cosine, sine = p.emit(aten.cos.default, angle), p.emit(aten.sin.default, angle)
    return p.emit(aten.mul.Tensor, length, cosine), p.emit(aten.mul.Tensor, length, sine)


def _square(p: Parts) -> Pair:
    pair = p.pair(p.node.args[0])
    return p.times(pair, pair)


def _negate(p: Parts) -> Pair:
    real, imag = p.pair(p.node.args[0])
    return p.emit(aten.rsub.Scalar, real, 0.0), p.emit(aten.rsub.Scalar, imag, 0.0)


def _conjugate(p: Parts) -> Pair:
    real, imag = p.pair(p.node.args[0])  # or of a number in the user's program
    return real, p.emit(aten.neg.default, imag) if isinstance(imag, Node) else -imag


def _of_parts(p: Parts) -> Pair:
    real, imag = (p.cast(part, p.dtype) for part in p.node.args[:2])
    return real, imag


def _of_real_view(p: Parts) -> Pair:
    real = p.node.args[0]
    last = value_of(real).dim() - 1
    return p.emit(aten.select.int, real, last, 0), p.emit(aten.select.int, real, last, 1)


def _each(p: Parts) -> Pair:
    """The same operator of the parts: what moves, chooses or adds up elements."""
    results = []
    options = {name: value for name, value in p.node.kwargs.items() if name != "dtype"}
    if p.node.kwargs.get("dtype") is not None:
        options["dtype"] = p.dtype
    for k in range(2):

        def part(x: Any, k: int = k) -> Any:
            return p.pair(x)[k] if is_complex(x) else x

        args = torch.fx.node.map_aggregate(p.node.args, part)
        try:
            results.append(p.emit(p.target, *args, **options))
        except RuntimeError:
            if p.node.target is not aten.view.default:
                raise
            dense = p.emit(aten.clone.default, args[0], memory_format=torch.contiguous_format)
            results.append(p.emit(p.target, dense, *args[1:]))
    return results[0], results[1]


def _choose(p: Parts) -> Pair:
    condition, first, second = p.node.args
    a, b = p.pair(first), p.pair(second)
    parts = [[x if isinstance(x, Node) else p.number(x) for x in each] for each in zip(a, b, strict=True)]
    real, imag = (p.emit(aten.where.self, condition, *each) for each in parts)
    return real, imag


def _cast(p: Parts) -> Pair:
    real, imag = (of_shape(p, part) for part in p.pair(p.node.args[0]))
    options = {name: value for name, value in p.node.kwargs.items() if name in ("memory_format",) and value is not None}
    if options:
        real, imag = (p.emit(aten.clone.default, part, **options) for part in (real, imag))
    return real, imag


def _filled(value_at: int | None) -> Callable[[Parts], Pair]:
    """Tensors of one number, which is an argument, or 0."""

    def fill(p: Parts) -> Pair:
        args, results = list(p.node.args), []
        number: Any = args[value_at] if value_at is not None else 0.0
        if args and is_complex(args[0]):
            args[0] = p.pair(args[0])[0]
        for part in (number.real, number.imag) if isinstance(number, complex) else (number, 0.0):
            if value_at is not None:
                args[value_at] = part
            results.append(p.emit(p.target, *args, **{**p.node.kwargs, "dtype": p.dtype}))
        return results[0], results[1]

    return fill


def _ones(p: Parts) -> Pair:
    options = {**p.node.kwargs, "dtype": p.dtype}
    return p.emit(aten.ones.default, *p.node.args, **options), p.emit(aten.zeros.default, *p.node.args, **options)


def _magnitude(p: Parts) -> Any:
    return p.trace(hypot, *p.pair(p.node.args[0], PARTS[value_of(p.node.args[0]).dtype]))


def _angle(p: Parts) -> Any:
    real, imag = p.pair(p.node.args[0], PARTS[value_of(p.node.args[0]).dtype])
    return p.emit(aten.atan2.default, imag, real)


# Views, which share the memory of their operand: a complex value that somebody wants stays one.
_VIEWS = (
    aten.alias.default,
    aten.detach.default,
    aten.diagonal.default,
    aten.expand.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.t.default,
    aten.transpose.int,
    aten.unfold.default,
    aten.unsqueeze.default,
    aten.view.default,
)
_MOVES = (
    aten.cat.default,
    aten.clone.default,
    aten.copy.default,
    aten.diagonal_scatter.default,
    aten.flip.default,
    aten.gather.default,
    aten.index.Tensor,
    aten.index_select.default,
    aten.new_empty_strided.default,
    aten.select_backward.default,
    aten.select_scatter.default,
    aten.slice_backward.default,
    aten.slice_scatter.default,
)
_MEANS = (aten.mean.default, aten.mean.dim)
_SUMS = (aten.sum.default, aten.sum.dim_IntList)

# Operators with a complex result.
RULES: dict[Any, Callable[[Parts], Pair]] = {
    **dict.fromkeys((*_VIEWS, *_MOVES, *_SUMS), _each),
    aten._conj.default: _conjugate,
    aten._to_copy.default: _cast,
    **dict.fromkeys(_MEANS, _mean),
    aten.add.Scalar: _add(1),
    aten.add.Tensor: _add(1),
    aten.complex.default: _of_parts,
    aten.div.Tensor: _divide,
    aten.exp.default: _exponential,
    aten.full.default: _filled(1),
    aten.full_like.default: _filled(1),
    aten.mul.Scalar: _multiply,
    aten.mul.Tensor: _multiply,
    aten.neg.default: _negate,
    aten.new_zeros.default: _filled(None),
    aten.ones.default: _ones,
    aten.polar.default: _of_length_and_angle,
    aten.pow.Tensor_Scalar: _square,
    aten.reciprocal.default: _reciprocal,
    aten.scalar_tensor.default: _filled(0),
    aten.sub.Tensor: _add(-1),
    aten.view_as_complex.default: _of_real_view,
    aten.where.self: _choose,
    aten.zeros.default: _filled(None),
    aten.zeros_like.default: _filled(None),
}
# Operators with a real result of complex operands.
REAL_RESULTS: dict[Any, Callable[[Parts], Any]] = {
    aten.abs.default: _magnitude,
    aten.angle.default: _angle,
}
# Operators that ATen computes number by number.
SLOW = (
    aten.abs.default,
    aten.angle.default,
    aten.div.Tensor,
    aten.exp.default,
    aten.polar.default,
    aten.reciprocal.default,
)
BETWEEN = (aten.complex.default, aten.view_as_complex.default, aten.view_as_real.default)
KEPT_VIEWS = (*_VIEWS, aten._conj.default)


# Operators of which all operands that are data have to be complex.
_OF_COMPLEX = (
    aten.copy.default,
    aten.diagonal_scatter.default,
    aten.select_scatter.default,
    aten.slice_scatter.default,
)


def has_operands(node: Node) -> bool:
    """Whether the rule knows operands like these."""
    first = node.args[0] if node.args else None
    if node.target is aten.cat.default:
        return all(map(is_complex, first))  # type: ignore[arg-type]
    if node.target in _OF_COMPLEX:
        return all(map(is_complex, node.args[:2]))
    if node.target is aten.pow.Tensor_Scalar:
        return bool(node.args[1] == 2)
    if node.target is aten._to_copy.default:
        return bool(value_of(first).device == value_of(node).device)
    return is_complex(first) if RULES[node.target] is _each else True
